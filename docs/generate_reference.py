"""Writes docs/reference/ from the code: modules, commands, errors, declarations, states, alert rules, tables and settings.

``python docs/generate_reference.py`` writes the pages. A test fails if the committed pages differ from its output.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tidegate import cli, environment, errors, interface, spec, states, testing
from tidegate.alerting import rules
from tidegate.checkpoints import note
from tidegate.checkpoints.note import AnyNote
from tidegate.checkpoints.recorded_attempt import RUN_NOTES
from tidegate.environment import project_file
from tidegate.environment.settings import SETTINGS
from tidegate.errors import TidegateError, causes, object_storage
from tidegate.errors.error import EXIT_CODES, JVM_EXIT_CODES, ExitCode
from tidegate.ops import alert_history, attempts, evolution, ledger, metrics
from tidegate.schema import contract
from tidegate.spark.driver import session
from tidegate.spec import change_records, limits
from tidegate.status.notes import ALL_NOTES
from tidegate.store import s3

FOLDER = Path(__file__).parent / "reference"
PLATFORM = Path(__file__).parents[1] / "tidegate"
sys.path.append(str(Path(__file__).parents[1] / "scripts"))
typed_advice: Any = importlib.import_module("typed_advice")
_NOTE = "<!-- Written by docs/generate_reference.py; edit the docstrings that it reads, then run it again. -->"


_CHOICES = {
    "FileFormat": " | ".join(map(repr, get_args(spec.FileFormat))),
    "ValueFormat": " | ".join(map(repr, get_args(spec.ValueFormat))),
    "NoValue": " | ".join(map(repr, get_args(change_records.NoValue))),
    "Mode": " | ".join(map(repr, get_args(contract.Mode))),
    "Target": " | ".join(each.__name__ for each in get_args(spec.Target)),
    "Source": " | ".join(each.__name__ for each in get_args(spec.Source)),
}
"""Type aliases, which are replaced by their values."""


def pages() -> dict[str, str]:
    """Every page's text by its file name."""
    lines_by_page = {
        "cli.md": _commands(),
        "errors.md": _errors(),
        "environment.md": _environment(),
        "declarations.md": _declarations(),
        "states.md": _states(),
        "alerts.md": _alerts(),
        "notes.md": _notes(),
        "testing.md": _testing(),
        "modules.md": _modules(),
        "public.md": _public(),
        "tables.md": _tables(),
        "settings.md": _settings(),
    }
    return {
        name: re.sub(r"\n{3,}", "\n\n", "\n".join([_NOTE, "", *lines])).rstrip() + "\n"
        for name, lines in lines_by_page.items()
    }


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _commands() -> Iterator[str]:
    import typer.main

    group: Any = typer.main.get_command(cli.app)
    yield "# Commands"
    yield ""
    yield from _prose(cli.__doc__)
    yield ""
    yield "## Exit codes"
    yield ""
    yield from _table(
        ("code", "meaning", "next step"), [(str(each.number), each.meaning, _step(each)) for each in EXIT_CODES]
    )
    yield ""
    yield "The job and the tasks of Airflow end with the same codes. A JVM that ends by itself has others; a command then ends with 70:"
    yield ""
    yield from _table(
        ("code", "meaning", "next step"), [(str(each.number), each.meaning, _step(each)) for each in JVM_EXIT_CODES]
    )
    yield ""
    for context in _leaves(group, "tidegate"):
        command = context.command
        yield f"## {context.info_name}"
        yield ""
        yield from _prose(command.help)
        yield ""
        yield "```"
        yield command.get_usage(context).removeprefix("Usage: ")
        yield "```"
        yield ""
        records = [record for parameter in command.params if (record := _parameter(parameter, context))]
        if records:
            yield from _table(("argument or option", "meaning"), records)
        yield ""


def _leaves(command: Any, path: str) -> Iterator[Any]:
    """The context of each command that is no group; it has the command itself, which its group may load only for it."""
    context = command.make_context(path, [], resilient_parsing=True, terminal_width=100)
    if not hasattr(context.command, "commands"):
        yield context
        return
    for name, child in context.command.commands.items():
        yield from _leaves(child, f"{path} {name}")


def _parameter(parameter: Any, context: Any) -> tuple[str, str] | None:
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, meaning = record
    return f"`{name.strip().removesuffix(' <str>')}`", " ".join(meaning.split())


def _errors() -> Iterator[str]:
    yield "# Errors"
    yield ""
    yield from _prose(errors.__doc__)
    classes = list(_errors_under(TidegateError))
    yield ""
    yield from _table(
        ("error", "base class", "transient", "exit code", "meaning"),
        [
            (
                f"[`{each.__name__}`](#{each.__name__.lower()})",
                f"`{each.__base__.__name__}`" if each.__base__ is not None else "",
                "yes" if each.transient else "no",
                "128 + signal" if each is errors.StoppedError else str(each.exit_code),
                _plain_marks(inspect.getdoc(each) or "").split("\n\n")[0].replace("\n", " "),
            )
            for each in classes
        ],
    )
    yield ""
    yield "## What to do"
    yield ""
    yield "The advice of each class of error, as its messages say it; `…` stands for a value of the error. `make lint` checks that"
    yield "each command exists. `tests/advice` follows commands and edits on a lake that has the error, and lists the classes for"
    yield "which it does not. The acts outside of Tidegate are the rest: no command does them."
    yield ""
    written = typed_advice.advices_of_project()
    yield from _table(
        ("error", "commands", "edits", "acts outside"),
        [
            (f"[`{name}`](#{name.lower()})", *(_of_kind(each, kind) for kind in ("Command", "Edit", "OutsideAct")))
            for name, each in sorted(written.items())
            if each
        ],
    )
    yield ""
    yield "## Errors of the operating system"
    yield ""
    yield from _prose(causes.__doc__)
    yield ""
    yield from _table(
        ("errors", "meaning", "error", "next step"),
        [
            (
                ", ".join(f"`{name}`" for name in each.errors),
                each.meaning,
                f"[`{each.kind.__name__}`](#{each.kind.__name__.lower()})",
                each.next_step.text,
            )
            for each in causes.CAUSES
        ],
    )
    yield ""
    yield "## Answers of object stores"
    yield ""
    yield from _prose(object_storage.__doc__)
    yield ""
    yield from _table(
        ("answers", "meaning", "error", "next step"),
        [
            (
                # Not as code: some look like errors of Python.
                ", ".join({"0": "none", object_storage.INVALID_NAME: "a listing"}.get(code, code) for code in codes),
                cause.meaning,
                f"[`{cause.kind.__name__}`](#{cause.kind.__name__.lower()})",
                cause.next_step.text,
            )
            for codes, cause in (*object_storage.ANSWERS, (("others",), object_storage.OTHER_ANSWER))
        ],
    )
    for each in classes:
        yield ""
        yield f"## {each.__name__}"
        yield ""
        yield from _prose(each.__doc__)


def _environment() -> Iterator[str]:
    yield "# Settings of a deployment"
    yield ""
    yield from _prose((environment.__doc__ or "").partition("\n\n`SETTINGS`")[0])
    yield ""
    yield from _table(
        ("key in `tidegate.toml`", "variable", "meaning", "without it"),
        [
            (
                f"`{each.key}`" if each.key else "",
                f"`{each.variable}`" + (f", or `{each.also}`" if each.also else ""),
                each.meaning,
                f"`{each.default}`" if each.default else each.without,
            )
            for each in SETTINGS
        ],
    )
    yield ""
    yield "## The file"
    yield ""
    yield from _prose(project_file.__doc__)
    yield ""
    yield "## Buckets"
    yield ""
    yield from _prose(s3.__doc__)


def _declarations() -> Iterator[str]:
    yield "# Declarations"
    yield ""
    yield from _prose(spec.__doc__)
    kinds = (
        *(spec.Pipeline, spec.Tables, spec.AfterTables, spec.Flow, spec.FileSource, spec.Dialect, spec.KafkaSource),
        *(
            spec.Contract,
            spec.Formats,
            spec.ChangeRecords,
            spec.Intervals,
            spec.TopicIntervals,
            spec.ChangeFeed,
            spec.SnapshotFeed,
            spec.Table,
            spec.TimeWindows,
            spec.KafkaSink,
            spec.FunctionSink,
            spec.Gate,
            spec.Statistic,
            spec.Watermark,
            spec.State,
            spec.RewriteLimits,
            spec.Resources,
            limits.Thresholds,
        ),
    )
    for each in kinds:
        yield ""
        yield f"## {each.__name__}"
        yield ""
        yield from _prose(each.__doc__)
        yield ""
        yield from _table(("field", "type", "default", "meaning"), _fields(each))
        if each is spec.ChangeRecords:
            yield ""
            yield f"### {spec.debezium.__name__}"
            yield ""
            yield from _prose(spec.debezium.__doc__)


def _states() -> Iterator[str]:
    yield "# States of a flow"
    yield ""
    yield (
        "The first state whose facts hold is the state of the flow; all surfaces show it, with its sentence and its next step: "
        "the pages in Airflow and exported ones, `tidegate status`, `tidegate lag`, the red task of the flow, and alerts. A "
        "*plain* state has no sentence in lists, because their numbers say it. `tidegate plan` says what a run would do, so a "
        "process that works on the flow, and how earlier runs ended, do not matter to it."
    )
    yield ""
    yield (
        "*Need a person* on the overview counts the flows in a state that needs one, and those with an open "
        "[alert](alerts.md). Flows that read the table of a flow that *blocks* wait for it: in the same pipeline in any "
        "case, unless it is only switched off; else if they have read all there is. A page warns if its statuses were read "
        f"more than {states.STALE.total_seconds():.0f} s ago."
    )
    yield ""
    yield from _table(
        ("state", "what is known", "plain", "needs a person", "blocks", "next step"),
        [
            (
                f"`{name}`",
                state.known,
                "yes" if state.plain else "",
                "yes" if state.needs_person else "",
                "yes" if state.blocks else "",
                "" if state.next_step is None else state.next_step.of("NAME", "FLOW").text,
            )
            for name, state in states.STATES.items()
        ],
    )


def _alerts() -> Iterator[str]:
    yield "# Alert rules"
    yield ""
    yield "`N` is the threshold, a field of [Thresholds](declarations.md#thresholds); a rule whose threshold is None is off."
    yield ""
    defaults = limits.Thresholds()
    yield from _table(
        ("rule", "severity", "is true while", "threshold", "default", "below", "next step"),
        [
            (
                f"`{name}`",
                rule.severity,
                rule.meaning,
                f"`{rule.threshold}`" if rule.threshold is not None else "",
                str(getattr(defaults, rule.threshold)) if rule.threshold is not None else "",
                rule.below.removesuffix(" below").lower(),
                rule.next_step.of("NAME", "FLOW").text,
            )
            for name, rule in rules.RULES.items()
        ],
    )


def _notes() -> Iterator[str]:
    columns = ("note", "file", "says", "absent", "written by", "cleared by", "damaged")
    yield "# Notes"
    yield ""
    yield from _prose(note.__doc__)
    yield ""
    yield "The files are in `<lake>/checkpoints/<pipeline>/<flow>/`. A damaged note stops the flow, with the next step; where the table"
    yield "has none, a damaged note counts as absent."
    yield ""
    yield from _table(columns, [_note_row(each) for each in ALL_NOTES])
    yield ""
    yield "## Of runs"
    yield ""
    yield "The file is in `<lake>/reports/<pipeline>/<run>/`."
    yield ""
    yield from _table(columns, [_note_row(each) for each in RUN_NOTES])


def _note_row(note: AnyNote) -> tuple[str, ...]:
    return (
        note.name,
        f"`{note.file.format(version='<N>', refresh='<refresh>', number='<number>')}`",
        note.says,
        note.absent,
        note.written,
        note.cleared,
        "" if note.repair is None else note.repair.text,
    )


def _testing() -> Iterator[str]:
    yield "# Test helpers"
    yield ""
    yield from _prose(testing.__doc__)
    for function in (testing.transform_rows, testing.judge_rows, testing.kill_at_random, testing.session):
        yield from _callable(function.__name__, function)
    for each in (testing.Judged, testing.Lake):
        yield ""
        yield f"## {each.__name__}"
        yield ""
        yield from _prose(each.__doc__)
        yield ""
        yield from _table(("field", "type", "default", "meaning"), _fields(each))
        for name, member in vars(each).items():
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and not name.startswith("_"):
                yield from _callable(f"{each.__name__}.{name}", function)


def _public() -> Iterator[str]:
    yield "# Public interface"
    yield ""
    yield from _prose(interface.__doc__)
    for name in interface.PUBLIC:
        module = importlib.import_module(name)
        yield ""
        yield f"## {name}"
        yield ""
        yield _plain_marks((module.__doc__ or "").splitlines()[0])
        yield ""
        yield from _table(
            ("name", "meaning"), [(f"`{each}`", _meaning(getattr(module, each))) for each in module.__all__]
        )


def _meaning(public: Any) -> str:
    """The first sentence about a class or a function; for an alias, its values."""
    if values := get_args(public):
        return " or ".join(f"`{each.__name__ if isinstance(each, type) else repr(each)}`" for each in values)
    return _plain_marks((inspect.getdoc(public) or "").split("\n\n")[0].replace("\n", " "))


def _modules() -> Iterator[str]:
    """Packages by their path, those of a package below it, each with the first lines of its modules' docstrings."""
    yield "# Modules"
    yield ""
    yield "Every package of `tidegate/`, and every module with the first line of its docstring. [Architecture](../architecture.md#packages)"
    yield "has what they are together."
    for package in sorted({path.parent for path in PLATFORM.rglob("*.py")}):
        yield ""
        yield f"## {package.relative_to(PLATFORM.parent)}"
        yield ""
        if (init := package / "__init__.py").exists():
            yield _first_line(init)
            yield ""
        modules = [path for path in sorted(package.glob("*.py")) if path.name != "__init__.py"]
        if modules:
            yield from _table(("module", "subject"), [(f"`{path.stem}`", _first_line(path)) for path in modules])


def _first_line(module: Path) -> str:
    """The first line of a module's docstring, without importing the module."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    if not docstring or not docstring.splitlines()[0].endswith("."):
        raise ValueError(f"{module}: the first line of the docstring is no sentence")
    return _plain_marks(docstring.splitlines()[0])


def _tables() -> Iterator[str]:
    yield "# Tables of the platform"
    yield ""
    yield "The Delta tables in `_ops/<pipeline>/` of the lake, with the types of SQL. How lines are ordered, and what identifies"
    yield "a batch: [Lake layout](../architecture/lake.md#lake-layout)."
    tables = (
        ledger.LEDGER,
        ledger.VERDICTS,
        evolution.EVOLUTION,
        metrics.PROGRESS,
        attempts.ATTEMPTS,
        alert_history.ALERTS,
    )
    for table in tables:
        meanings = _meanings(table.line)
        yield ""
        yield f"## {table.name.capitalize()}"
        yield ""
        yield from _prose(table.line.__doc__)
        yield ""
        yield from _table(
            ("column", "type", "meaning"),
            [(f"`{name}`", f"`{kind}`", meanings.get(name, "")) for name, kind in table.columns.items()],
        )


def _meanings(line: type) -> dict[str, str]:
    """The docstrings of a dataclass' fields, inherited ones and those of nested dataclasses included; of a balance its note."""
    meanings: dict[str, str] = {}
    for each in line.__mro__:
        if not dataclasses.is_dataclass(each):
            continue
        notes = {field.name: field.metadata["part"].note for field in dataclasses.fields(each) if field.metadata}
        for name, _, _, meaning in _fields(each):
            name = name.strip("`")
            meanings.setdefault(name, meaning or notes.get(name, ""))
    for field, kind in get_type_hints(line).items():
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and field in meanings:
            meanings = {**_meanings(kind), **meanings}
    return meanings


def _settings() -> Iterator[str]:
    yield "# Settings of the session"
    yield ""
    yield "What a job sets in its Spark session. Those that must be set before the JVM starts are in"
    yield "[Spark](../architecture/spark.md#spark-settings)."
    yield ""
    yield from _table(
        ("setting", "value", "why"),
        [(f"`{name}`", f"`{value}`", why) for name, value, why in session.REASONED_SETTINGS],
    )


def _callable(name: str, function: Callable[..., Any]) -> Iterator[str]:
    yield ""
    yield f"## {name}"
    yield ""
    yield "```python"
    signature = re.sub(r"(: |-> )'([^']+)'", r"\1\2", str(inspect.signature(function)))
    yield name + re.sub(r"^\((self|cls)(, )?", "(", signature)
    yield "```"
    yield ""
    yield from _prose(function.__doc__)


def _fields(declared: type) -> list[tuple[str, str, str, str]]:
    """Fields of a dataclass: name, type, default, and the docstring below the field."""
    (node,) = ast.parse(inspect.getsource(declared)).body
    assert isinstance(node, ast.ClassDef)
    rows = []
    for statement, below in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if statement.target.id == "_":
            continue  # the marker of keyword-only fields
        meaning = ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            meaning = _plain_marks(inspect.cleandoc(str(below.value.value)).replace("\n", " "))
        kind = re.sub(r"^InitVar\[(.+)\]$", r"\1", ast.unparse(statement.annotation))
        kind = _CHOICES.get(kind, kind)
        default = f"`{ast.unparse(statement.value)}`" if statement.value is not None else "required"
        rows.append((f"`{statement.target.id}`", f"`{kind}`", default, meaning))
    return rows


def _step(code: ExitCode) -> str:
    return "nothing" if code.next_step is None else code.next_step.text


def _of_kind(written: Sequence[Any], kind: str) -> str:
    texts = dict.fromkeys(each.text for each in written if each.kind == kind)
    return "<br>".join(f"`{text}`" if kind == "Command" else text for text in texts)


def _errors_under(error: type[TidegateError]) -> Iterator[type[TidegateError]]:
    """An error, then those of the platform that are derived from it, by their names."""
    yield error
    for derived in sorted(error.__subclasses__(), key=lambda each: each.__name__):
        if derived.__module__.startswith(errors.__name__):
            yield from _errors_under(derived)


def _prose(docstring: str | None) -> Iterator[str]:
    """Convert a docstring to Markdown: ``::`` opens a block of code, a section such as ``Args:`` becomes a list."""
    lines = _plain_marks(inspect.cleandoc(docstring or "")).splitlines()
    in_section = False
    for number, line in enumerate(lines):
        if line in ("Args:", "Returns:", "Raises:"):
            in_section = True
            yield f"**{line.removesuffix(':')}**"
            yield ""
        elif in_section and line.startswith("    ") and not line.startswith("     "):
            name, colon, meaning = line.strip().partition(": ")
            yield f"- `{name}`: {meaning}" if colon and " " not in name else f"- {line.strip()}"
        elif line.startswith("    ") and not in_section:
            yield line
        elif line.endswith("::") and number + 1 < len(lines):
            yield line.removesuffix(":")
        else:
            yield line


def _plain_marks(text: str) -> str:
    return text.replace("``", "`")


def _table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for row in (headers, ("---",) * len(headers), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


if __name__ == "__main__":
    main()
