"""Refuses advice as free text: each error is raised with an `Advice` that says an act, and each command that one names exists.

``python scripts/typed_advice.py`` checks the Python files of the platform, the demo and the development stack, lists what it
finds, and then exits with 1. `advices` lists the advice of each class of error, for the reference and the tests.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = ("tidegate", "demo", "devstack")
_ERRORS = "tidegate/errors/"
_MAKES = frozenset(("Command", "Edit", "OutsideAct", "new_version", "recover_command"))
_TYPES = _MAKES | {"Either", "Then", "tidegate", "make", "_quoted"}
_IN_TEXT = re.compile(
    r"checkpoint_version=|(?:raise|set) checkpoint_version|\bmake (?:setup|up)\b"
    r"|\btidegate (?:status|lag|alerts|plan|run|verify|undo|new|checkpoint|ledger|query|trace|state|docs|quarantine|expectations"
    r"|watermark|contract|flow|recover)\b"
)
"""Advice in the text of a problem."""
_IMPERATIVE = re.compile(
    r"(?:^|[;.:] )(?:run|restore|raise|correct|declare|set|choose|put|remove|add|write|land|start|stop|install|see|try|ask|name|give"
    r"|Run|Restore|Raise|Correct|Declare|Set|Choose|Put|Remove|Add|Write|Land|Start|Stop|Install|See|Try|Ask|Name|Give) "
    r"(?:it|the|a|an|its|this|them|again|another|one|both|out|back)\b"
)

_NO_ACT = re.compile(r"no(?:thing|ne)?\b", re.IGNORECASE)
"""How a clause begins that says that there is nothing to do."""


@dataclass(frozen=True)
class Kind:
    """A class of the error tree."""

    name: str
    base: str
    advises: bool
    """Whether its own constructor makes the advice."""
    position: int
    """Of the argument ``advice``, where callers give it."""


@dataclass(frozen=True)
class Written:
    """One advice in the source."""

    kind: str
    """``Command``, ``Edit`` or ``OutsideAct``."""
    text: str
    """Its clause or its command line; ``…`` stands for each value that is known only at run time."""
    where: str


def kinds(sources: Mapping[str, str]) -> dict[str, Kind]:
    """Every class of the error tree by its name."""
    classes: dict[str, Kind] = {}
    for path, source in sources.items():
        for node in ast.parse(source).body if path.startswith(_ERRORS) else ():
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                base = next((each.id for each in node.bases if isinstance(each, ast.Name)), "")
                own = next(
                    (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None
                )
                names = [each.arg for each in own.args.args[1:]] if own is not None else []
                takes = "advice" in names
                classes[node.name] = Kind(
                    node.name, base, own is not None and not takes, names.index("advice") if takes else -1
                )
    return {name: _with_inherited(each, classes) for name, each in classes.items()}


def _with_inherited(kind: Kind, classes: Mapping[str, Kind]) -> Kind:
    base = kind
    while not base.advises and base.position < 0 and base.base in classes:
        base = classes[base.base]
    return Kind(kind.name, kind.base, base.advises, base.position)


def check(path: str, source: str, known: Mapping[str, Kind]) -> Iterator[str]:
    """A line for each error without typed advice, each advice in a text, and each command that does not exist."""
    tree = ast.parse(source)
    tuples = _tuples(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name, where = _name(node), f"{path}:{node.lineno}"
        if name in known and not (path.startswith(_ERRORS) and name == "cls"):
            if not known[name].advises and _advice_of(node, known[name]) is None:
                yield f"{where}: {name} has no advice; write {name}(problem, advice) with tidegate.advice"
            for text in _problem_texts(node):
                if (match := _IN_TEXT.search(text) or _IMPERATIVE.search(text)) is not None:
                    yield f"{where}: {name} has advice in its problem ({match[0].strip()!r}); write it with tidegate.advice"
        if name in ("Edit", "OutsideAct") and node.args and _NO_ACT.match(_text(node.args[0])):
            yield f"{where}: {_text(node.args[0])!r} is no act; advise a command that shows the state"
        if name == "tidegate" and (wrong := problem_of(_arguments(node, tuples))) is not None:
            yield f"{where}: {wrong}"


def advices(sources: Mapping[str, str]) -> dict[str, list[Written]]:
    """The advice that is written where an error of a class is raised, or in the class itself, by the name of the class."""
    known = kinds(sources)
    written: dict[str, list[Written]] = {name: [] for name in known}
    for path, source in sources.items():
        tree = ast.parse(source)
        module = _values(tree.body)
        tuples = _tuples(tree)
        functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
        for scope in ast.walk(tree):
            if isinstance(scope, ast.ClassDef) and scope.name in known and path.startswith(_ERRORS):
                written[scope.name] += _written(scope, path, module, tuples, functions)
            elif isinstance(scope, ast.FunctionDef):
                nodes = list(ast.walk(scope))
                values = {**module, **_values(nodes)}
                for node in nodes:
                    if isinstance(node, ast.Call) and _name(node) in known:
                        written[_name(node)] += _written(node, path, values, tuples, functions)
    return {name: list(dict.fromkeys(each)) for name, each in written.items()}


@cache
def advices_of_project() -> dict[str, list[Written]]:
    """`advices` of the files that are checked."""
    return advices(sources())


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement gives a value, or adds one to a list of."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value]):
            yield name, value


def _values(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        for name, value in _assigned(node):
            values.setdefault(name, []).append(value)
    return values


def _tuples(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """The elements of every tuple that has a name in a module, in whatever scope."""
    named = (each for node in ast.walk(tree) for each in _assigned(node))
    return {name: value.elts for name, value in named if isinstance(value, ast.Tuple)}


def _written(
    tree: ast.AST,
    path: str,
    constants: Mapping[str, Sequence[ast.expr]],
    tuples: Mapping[str, Sequence[ast.expr]],
    functions: Mapping[str, ast.FunctionDef],
) -> Iterator[Written]:
    for node in ast.walk(tree):
        for value in constants.get(node.id, ()) if isinstance(node, ast.Name) else ():
            if any(isinstance(each, ast.Call) and _name(each) in _TYPES for each in ast.walk(value)):
                yield from _written(value, path, {}, tuples, {})
        if not isinstance(node, ast.Call):
            continue
        name, where = _name(node), f"{path}:{node.lineno}"
        if isinstance(node.func, ast.Name) and name in functions:
            yield from _written(functions[name], path, constants, tuples, {})
        if name in ("tidegate", "make"):
            yield Written("Command", " ".join((name, *(each or "…" for each in _arguments(node, tuples)))), where)
        elif name == "new_version":
            yield Written("Edit", "checkpoint_version", where)
        elif name == "recover_command":
            yield Written("Command", "tidegate recover …", where)
        elif name in ("Edit", "OutsideAct") and node.args:
            yield Written(name, _text(node.args[0]), where)


def problem_of(arguments: Sequence[str | None]) -> str | None:
    """Why the command line ``tidegate`` does not have such a command; None if it has it, or if an argument is not known."""
    import typer.main

    from tidegate import cli

    command: Any = typer.main.get_command(cli.app)
    context: Any = command.make_context("tidegate", [], resilient_parsing=True)
    if None in arguments:
        return None
    left, path = [each for each in arguments if each is not None], ["tidegate"]
    while hasattr(command, "commands"):
        name = left.pop(0) if left else ""
        child = command.get_command(context, name)
        if child is None:
            return f"there is no command `{' '.join((*path, name))}`"
        path.append(name)
        context = child.make_context(name, [], parent=context, resilient_parsing=True)
        command = context.command
    try:
        parser = command.make_parser(context)
        values, extra, _ = parser.parse_args(args=left)
    except Exception as error:  # a usage error of the copy of click in Typer
        return f"`{' '.join(path)}`: {error}"
    missing = [each.name for each in command.params if each.required and values.get(each.name) is None]
    if extra or missing:
        return f"`{' '.join(path)}`: {'unexpected: ' + ' '.join(map(str, extra)) if extra else 'missing: ' + ', '.join(missing)}"
    return None


def _name(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _advice_of(node: ast.Call, kind: Kind) -> ast.expr | None:
    given = next((each.value for each in node.keywords if each.arg == "advice"), None)
    if given is None and any(isinstance(each, ast.Starred) for each in node.args):
        return node.args[0]
    return given if given is not None else node.args[kind.position] if len(node.args) > kind.position else None


def _problem_texts(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and _name(child) in _TYPES:
            continue
        if isinstance(child, (ast.Constant, ast.JoinedStr)):
            yield _text(child)
        else:
            yield from _problem_texts(child)


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in values)
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
    return "…"


def _arguments(node: ast.Call, tuples: Mapping[str, Sequence[ast.expr]]) -> list[str | None]:
    """The arguments of a command: ``…`` for one that is known only at run time, None for several behind a star that are not known."""
    words: list[str | None] = []
    for each in node.args:
        match each:
            case ast.Starred(value=ast.Tuple(elts=elements)):
                words += _arguments(ast.Call(node.func, elements, []), tuples)
            case ast.Starred(value=ast.Name(id=name)) if name in tuples:
                words += _arguments(ast.Call(node.func, list(tuples[name]), []), tuples)
            case ast.Starred():
                words.append(None)
            case _:
                words.append(_text(each))
    return words


def sources() -> dict[str, str]:
    """The files that are checked, in git, or new and not ignored."""
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, text=True)
    files = [each for each in sorted(listed.splitlines()) if each.startswith(FOLDERS) and (ROOT / each).exists()]
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in files}


def main() -> int:
    """Check all files."""
    read = sources()
    known = kinds(read)
    problems = [line for path, source in read.items() for line in check(path, source, known)]
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
