"""``tidegate trace``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from tidegate import formatting, hidden
from tidegate.advice import Edit
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson
from tidegate.cli.values import plain, text
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.ops import query
from tidegate.project import resolution
from tidegate.trace.changes import Batch, RowChange
from tidegate.trace.lineage import Lineage
from tidegate.trace.records import Record, find
from tidegate.trace.step import Step

_WIDTH = 100
"""Characters of a value of a row."""


def trace(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="A table of any layer, for example gold.daily_delay.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="A value of the row; COLUMN alone is NULL; once per key column."),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="A landed file: follow its record at --line.")
    ] = None,
    line: Annotated[int | None, typer.Option(metavar="LINE", help="The record's line, from 1.", min=1)] = None,
    offset: Annotated[
        str | None, typer.Option(metavar="TOPIC/PARTITION/OFFSET", help="Follow a message, for example clicks/0/42.")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="ROWS", help="Of a group, follow so many of its rows.", min=1, max=1000)
    ] = 3,
    as_json: AsJson = False,
) -> None:
    """Follow a row to the records that made it, or a record to every table. Reads only; starts no JVM.

    Each step says which batch wrote it, with its run, suite and transform, and what is in quarantine. The output has values of the
    data, which may be personal.
    """
    environment = project.read()
    layout = Layout.of(environment)
    lineage = Lineage(layout=layout, pipelines=resolution.load_all(environment.project), shown=limit)
    record = Record.of(layout, file, line, offset)
    if (table is None) == (record is None) or bool(key) != (table is not None):
        raise RequestError(
            "a trace begins at a row or at a record",
            Edit(
                "name either a row (TABLE with --key COLUMN=VALUE for each key column) or a record (--file FILE --line LINE, or "
                "--offset TOPIC/PARTITION/OFFSET)",
                "request",
            ),
        )
    with query.shared():
        steps = lineage.up(table, _values(key or ())) if table is not None else find(lineage, record) if record else []
    if as_json:
        console.print_json({"format": 1, "steps": [_json(step) for step in steps]})
        return
    word = "from" if table is not None else "to"
    for number, step in enumerate(steps):
        if number:
            console.echo()
        for depth, style, line_text in _lines(step, 0, word):
            console.echo("  " * depth + line_text, style=style)


def _values(key: Sequence[str]) -> dict[str, str | None]:
    pairs = [each.partition("=") for each in key]
    return {column: value if equals else None for column, equals, value in pairs}


def _lines(step: Step, depth: int, word: str) -> Iterator[tuple[int, str, str]]:
    where = ", ".join(
        f"{name}={_short(value)}" for name, value in step.key.items() if value is not None or len(step.key) < 4
    )
    yield depth, "bold", "  ".join(filter(None, (step.table, where, step.state)))
    if step.row is not None:
        values = (f"{name}={_short(value)}" for name, value in step.row.items() if _is_shown(name, step))
        yield depth + 1, "", "row      " + "  ".join(values)
    for change in step.changes:
        yield from _change_lines(change, depth + 1)
    for entry in step.entries:
        yield from _entry_lines(entry, depth + 1)
    for note in step.notes:
        yield depth + 1, "yellow", f"note     {note}"
    for table, following in itertools.groupby(step.next, key=lambda each: each.table):
        shown = list(following)
        if (count := step.counts.get(table, 0)) > len(shown):
            yield depth + 1, "", f"{word}     {formatting.count(count, 'row')} of {table}; the first {len(shown)}:"
        for each in shown:
            yield from _lines(each, depth + 1, word)


def _is_shown(name: str, step: Step) -> bool:
    return name not in step.key and (not name.startswith("_") or name == hidden.RESCUED)


def _change_lines(change: RowChange, depth: int) -> Iterator[tuple[int, str, str]]:
    what = {"insert": "written", "update_postimage": "updated", "delete": "deleted"}[change.kind]
    record = f"  of {change.row[hidden.ROW_ID]}" if change.row.get(hidden.ROW_ID) else ""
    yield depth, "", f"{what:<8} in version {change.version}, {change.at}{record}"
    if change.batch is None:
        yield depth + 1, "yellow", "by a commit that is not Tidegate's"
        return
    yield depth + 1, "", f"by {_batch(change.batch)}"
    if change.staged is not None:
        yield depth + 1, "", f"built in staging by {_batch(change.staged)}"


def _batch(batch: Batch) -> str:
    line, verdict = batch.line, batch.verdict
    parts = [f"{line.label} of {line.app_id}"]
    if line.run_key:
        by = f" by {line.requested_by}" if line.requested_by else ""
        parts.append(f"run {line.run_key} ({line.mode}{by})")
    else:
        parts.append("without a line in the ledger")
    if batch.suite_fingerprint:
        outcome, suite = (f" ({verdict.outcome})", verdict.suite) if verdict else ("", "")
        parts.append(f"suite {suite} {batch.suite_fingerprint}{outcome}".replace("  ", " "))
    if batch.code_fingerprint:
        parts.append(f"transform {batch.code_fingerprint}")
    return ", ".join(parts)


def _entry_lines(entry: Mapping[str, Any], depth: int) -> Iterator[tuple[int, str, str]]:
    rules = ", ".join(entry["rules"] or ())
    yield depth, "", f"quarantined at {text(entry['quarantined_at'])} for {rules}: {entry['state']}"
    batch = entry["batch"]
    yield (
        depth + 1,
        "",
        f"by {_batch(batch)}" if batch else f"by batch {entry[hidden.BATCH_ID]} of {entry[hidden.APP_ID]}",
    )
    if entry["changed_at"] is not None or entry["attempts"] or entry[hidden.REPLAY] is not None:
        parts = []
        if entry["changed_at"] is not None:
            parts.append(f"{entry['state']} by {entry['changed_by']} at {text(entry['changed_at'])}")
        if entry["reason"]:
            parts.append(str(entry["reason"]))
        if entry[hidden.REPLAY] is not None:
            parts.append(f"last in replay {entry[hidden.REPLAY]}")
        if entry["attempts"]:
            parts.append(f"refused again {entry['attempts']} times")
        yield depth + 1, "", "; ".join(parts)


def _short(value: Any) -> str:
    shown = "NULL" if value is None else text(value)
    return shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 1]}…"


def _json(step: Step) -> dict[str, Any]:
    return {
        **{name: getattr(step, name) for name in ("table", "flow", "state", "notes")},
        "key": plain(dict(step.key)),
        "row": None if step.row is None else plain(dict(step.row)),
        "changes": [plain(_with_batches(vars(change))) for change in step.changes],
        "entries": [plain(_with_batches(entry)) for entry in step.entries],
        "counts": dict(step.counts),
        "next": [_json(each) for each in step.next],
    }


def _with_batches(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.to_json() if isinstance(value, Batch) else value for name, value in values.items()}
