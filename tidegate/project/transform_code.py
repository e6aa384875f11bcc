"""Checks the file of a transform without importing it: the function is there, takes the flow's sources, and reads nothing else.

What a transform reads besides its parameters has no version in the ledger, and a change of it recomputes nothing. The function of a
sink only has to be there.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import re
import symtable
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tidegate.advice import Edit, Either
from tidegate.errors import SpecError
from tidegate.errors.classification import raise_machine
from tidegate.spec.flow import SQL

_READS = frozenset({"read", "readStream", "table"})
"""What reads a table, of a session."""
_STARTS = frozenset({"read", "readStream"})
"""What gives a reader."""
_OF_READER = frozenset(
    {"csv", "format", "jdbc", "json", "load", "option", "options", "orc", "parquet", "schema", "table", "text", "xml"}
)
"""What is read of a reader, by which a session is known whatever its name is."""
_SESSIONS = frozenset({"SparkSession", "sparkSession", "getActiveSession", "getOrCreate", "newSession", "active"})
"""Names in expressions that give a session."""
_READERS = frozenset({"DeltaTable", "forName", "forPath", "read_parquet", "read_delta", "scan_parquet", "scan_delta"})
"""What reads a table without a session."""
_FORMAT = r"(?:delta|parquet|csv|json|orc|avro|text|binaryfile)"
_PATH_IN_SQL = re.compile(rf"\b{_FORMAT}\s*\.\s*`|\bUSING\s+{_FORMAT}\b", re.IGNORECASE)
"""SQL that reads a table by its path. Other SQL can only name views of the transform's own rows: the lake has no catalog."""

_PARSING = threading.Lock()


def file_of(function: str) -> Path | None:
    """The file of ``<module>:<function>``, or of ``<name>.sql``, in ``spark_jobs``; None without one."""
    if function.endswith(SQL):
        folders = map(Path, importlib.import_module("spark_jobs").__path__)
        return next((folder / function for folder in folders if (folder / function).is_file()), None)
    try:
        spec = importlib.util.find_spec(f"spark_jobs.{function.partition(':')[0]}")
    except ModuleNotFoundError:
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def check(transform: str, code: Path | None, sources: Sequence[str]) -> None:
    """Check the function of a transform.

    Args:
        transform: ``<module>:<function>``.
        code: Its file; None if there is none.
        sources: The names of several sources; empty for one source, whose parameter may have any name.

    Raises:
        SpecError: The file or the function is missing, the file cannot be parsed, the parameters are not the sources, or the
            function reads a table in another way.
    """
    _check_parameters(transform, check_exists("transform", transform, code), sources)
    _check_reads(transform)


def check_exists(role: str, name: str, code: Path | None) -> ast.Module:
    """Check that a function of the project is there.

    Args:
        role: What it is, for the error: ``transform``.
        name: ``<module>:<function>``.
        code: Its file; None if there is none.

    Returns:
        The parsed file.

    Raises:
        SpecError: The file or the function is missing, or the file cannot be parsed.
    """
    module, _, function = name.partition(":")
    file = f"spark_jobs/{module}.py"
    if code is None:
        raise SpecError(
            f"{role} {name!r}: {file} does not exist",
            Either(Edit("create it", "transform"), Edit(f"correct the {role}", "declaration")),
        )
    try:
        source = code.read_bytes()
        names = symtable.symtable(source, file, "exec")  # type: ignore[arg-type]  # bytes: Python finds the encoding
        tree = _parsed(source)
    except (OSError, SyntaxError, ValueError) as error:
        raise_machine(error, f"{role} {name!r}")
        raise SpecError(
            f"{role} {name!r}: {file} cannot be read: {error}", Edit("correct the file", "transform")
        ) from error
    # Names of `import *` are not in the file; the job imports the module and raises if the function is not among them.
    defined = [symbol.get_name() for symbol in names.get_symbols() if symbol.is_assigned() or symbol.is_imported()]
    if function not in defined and b"import *" not in source:
        raise SpecError(
            f"{role} {name!r}: {file} has no function {function!r}",
            Either(Edit("add it", "transform"), Edit(f"correct the {role}", "declaration")),
        )
    return tree


def _check_parameters(transform: str, tree: ast.Module, sources: Sequence[str]) -> None:
    """Check that a function that takes several sources has their names as parameters."""
    module, _, function = transform.partition(":")
    definition = {name: each for each in tree.body for name in _assigned(each)}.get(function)
    if not sources or not isinstance(definition, ast.FunctionDef):
        return
    given = definition.args
    parameters = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    if parameters != list(sources):
        raise SpecError(
            f"transform {transform!r}: spark_jobs/{module}.py line {definition.lineno}: {function} has the "
            f"parameters ({', '.join(parameters)}), but the flow has the sources {', '.join(sources)}",
            Edit(f"write def {function}({', '.join(sources)})", "transform"),
        )


def _check_reads(transform: str) -> None:
    """Check that a transform reads no table itself."""
    module, _, function = transform.partition(":")
    nodes = list(reached(module, function))
    sessions = {"session", "spark"}
    for _, node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value and _is_session(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            sessions |= {name for target in targets for name in _names(target)}
    for place, node in nodes:
        if read := _table_read(node, sessions):
            raise SpecError(
                f"transform {transform!r}: spark_jobs/{place}.py line {getattr(node, 'lineno', 0)} reads a table "
                f"in another way than by a source of its flow ({read}): a change of that table would not change "
                "the result.",
                Edit(
                    "in a flow whose target has keys alone, add it as sources=(…, ChangeFeed(<table>, on={…})) and take "
                    "it as a parameter. A flow with sequence_by has one source: join in the flow that reads its table. Rows "
                    "that belong to the code may be made with createDataFrame",
                    "transform",
                ),
            )


def _assigned(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module defines, without those that it imports."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (name for target in targets for name in _names(target))


def reached(module: str, function: str) -> Iterator[tuple[str, ast.AST]]:
    """All nodes of a function and of what it uses, in its module and in others of ``spark_jobs``, with their modules."""
    places, modules = [(module, function)], {}
    for place in places:
        name, symbol = place
        if name not in modules:
            modules[name] = _definitions(name)
        defined, imported = modules[name]
        for node in ast.walk(defined[symbol]) if symbol in defined else ():
            yield name, node
            used = None
            if isinstance(node, ast.Name):
                used = imported.get(node.id, (name, node.id))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
                used = imported[node.value.id][1] or imported[node.value.id][0], node.attr
            elif isinstance(node, ast.Attribute) and _module(node.value) is not None:
                used = str(_module(node.value)), node.attr
            if used is not None and used not in places:
                # The loop continues with it.
                places.append(used)


def _parsed(source: bytes) -> ast.Module:
    """The tree of a file, also where several threads ask, as those that serve pages.

    Up to Python 3.11.7, ``ast.parse`` raises "AST constructor recursion depth mismatch" if another thread parses while a garbage
    collection or a finalizer lets go of the interpreter's lock (python/cpython#106905).
    """
    with _PARSING:
        collects = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(source)
        finally:
            if collects:
                gc.enable()


def _definitions(module: str) -> tuple[dict[str, ast.stmt], dict[str, tuple[str, str]]]:
    """The statements of a module by the names that they define, and its names that come from other modules of ``spark_jobs``."""
    path = file_of(f"{module}:") if module else None
    try:
        tree = _parsed(b"" if path is None else path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        # The job imports it, and reports the error.
        tree = ast.parse("")
    imported: dict[str, tuple[str, str]] = {}
    # Also those within functions.
    for each in ast.walk(tree):
        source = (each.module or "") if isinstance(each, ast.ImportFrom) else ""
        if isinstance(each, ast.ImportFrom) and (each.level == 1 or source.split(".")[0] == "spark_jobs"):
            source = source.removeprefix("spark_jobs").removeprefix(".")
            imported |= {alias.asname or alias.name: (source, alias.name) for alias in each.names}
        elif isinstance(each, ast.Import):
            modules = [alias for alias in each.names if alias.asname and alias.name.startswith("spark_jobs.")]
            imported |= {str(alias.asname): ("", alias.name.removeprefix("spark_jobs.")) for alias in modules}
    return {name: each for each in tree.body for name in _assigned(each)}, imported


def _module(node: ast.AST) -> str | None:
    """The module of an expression ``spark_jobs.<module>``; None for any other."""
    of_package = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "spark_jobs"
    return last_name(node) if of_package else None


def _is_session(value: ast.expr) -> bool:
    """Whether an expression may give a session, and not what one of its methods returns."""
    if isinstance(value, ast.Call):
        return last_name(value.func) in _SESSIONS
    return bool(_names(value) & _SESSIONS)


def _table_read(node: ast.AST, sessions: Collection[str]) -> str | None:
    """What a node reads, as it is written; None if it reads nothing."""
    if isinstance(node, ast.Attribute):
        of_reader = node.attr in _OF_READER and isinstance(node.value, ast.Attribute) and node.value.attr in _STARTS
        if of_reader or (node.attr in _READS and _is_of_session(node.value, sessions)):
            return ast.unparse(node)
    elif isinstance(node, ast.Call) and last_name(node.func) in _READERS:
        return ast.unparse(node.func)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _PATH_IN_SQL.search(node.value):
        return "SQL with a path"
    return None


def _is_of_session(expression: ast.expr, sessions: Collection[str]) -> bool:
    return bool(_names(expression) & _SESSIONS) or last_name(expression) in sessions


def _names(expression: ast.AST) -> set[str]:
    """All names in an expression, and of attributes."""
    return {name for node in ast.walk(expression) if (name := last_name(node)) is not None}


def last_name(node: ast.AST) -> str | None:
    """The name, or the last part of a dotted one; None for any other node."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def files(transform: str) -> tuple[Path, ...]:
    """The files of ``spark_jobs`` that a transform uses, its own among them, in the order in which it uses them."""
    if transform.endswith(SQL):
        own = file_of(transform)
        return () if own is None else (own,)
    module, _, function = transform.partition(":")
    places = dict.fromkeys([module, *(place for place, _ in reached(module, function))])
    paths = (file_of(f"{place}:") for place in places)
    return tuple(path for path in paths if path is not None)
