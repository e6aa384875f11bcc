"""``tidegate ledger``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidegate import formatting, identity
from tidegate.balance import balances_of
from tidegate.cli import console, project
from tidegate.errors import EX_SOFTWARE
from tidegate.layout import Layout
from tidegate.ops import store
from tidegate.ops.ledger import COUNTS
from tidegate.ops.query import query
from tidegate.place import PipelinePlace
from tidegate.report import BatchRecord

_HEADERS = (
    "recorded at (UTC)",
    "flow",
    "batch",
    "checkpoint",
    "kind",
    "seconds",
    "balance",
    "in",
    "out",
    "dispositions",
)
_REQUESTED = "requested"
"""The column that is only shown if a line comes from a request other than an increment."""

_COLUMNS_BEFORE_COUNTS = ("flow", "kind", "app_id", "batch_id")
_COLUMNS_AFTER_COUNTS = (
    *("filtered", "rules", "target_version", "seconds"),
    *("run_key", "mode", "requested_by", "attempt", "checkpoint_version", "refresh", "recorded_at"),
)
_NEWEST = """
SELECT * REPLACE (strftime(recorded_at, '%Y-%m-%dT%H:%M:%S.%fZ') AS recorded_at)
FROM (SELECT * FROM delta_table ORDER BY {newest_first}, batch_id DESC LIMIT ?)
ORDER BY {oldest_first}, batch_id
"""


def ledger(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
    last: Annotated[int, typer.Option(metavar="COUNT", help="Maximum number of lines, the newest last.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show the last ledger lines: the disposition of every row, and whether the counts balance. Starts no JVM.

    The exit code is 70 when a line does not balance.
    """
    environment = project.read()
    project.load(name)
    lines = _read(PipelinePlace(Layout.of(environment), name), last)
    if as_json:
        console.print_json({"format": 1, "batches": lines})
    elif lines:
        requests = [formatting.request_label(line["mode"], line["requested_by"]) for line in lines]
        rows = [_row(line) for line in lines]
        if any(requests):
            rows = [(*row, request) for row, request in zip(rows, requests, strict=True)]
        headers = (*_HEADERS, _REQUESTED) if any(requests) else _HEADERS
        console.print_table(headers, rows, right=("batch", "in", "out", "seconds"))
    else:
        console.echo(f"The ledger of pipeline {name!r} is empty: no batch is recorded yet.")
    raise typer.Exit(EX_SOFTWARE if any(line["imbalance"] for line in lines) else 0)


def _read(place: PipelinePlace, last: int) -> list[dict[str, Any]]:
    """The newest lines, in chronological order, each with its ``imbalance``."""
    path, wanted = place.ops("ledger"), (*_COLUMNS_BEFORE_COUNTS, *COUNTS, *_COLUMNS_AFTER_COUNTS)
    ordering = store.ordering(path)
    sql = _NEWEST.format(newest_first=store.newest_first(ordering), oldest_first=store.oldest_first(ordering))
    lines = query(path, tuple(dict.fromkeys((*wanted, *ordering))), sql, [last])
    return [
        {**{name: line[name] for name in wanted}, "imbalance": BatchRecord.of_line(line).imbalance()} for line in lines
    ]


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    about = balances_of(line["kind"])[0]
    names = (*about.parts, "quarantined", "closed") if about.total == "groups" else _DISPOSITIONS
    rows_in, rows_out = line[about.total], sum(line[part] for part in about.changes)
    label = identity.label(line["app_id"], line["batch_id"], line["kind"])
    dispositions = [f"{line[name]:,} {name.replace('_', ' ')}" for name in names if line[name]]
    dispositions += [f"{rows:,} filtered by {rule}" for rule, rows in sorted(line["filtered"].items())]
    dispositions += [f"{formatting.count(line[name], 'file')} {what}" for name, what in _FILES.items() if line[name]]
    return (
        line["recorded_at"][:19].replace("T", " "),
        line["flow"],
        label.removeprefix("batch "),
        "" if line["checkpoint_version"] is None else f"v{line['checkpoint_version']}/{line['refresh']}",
        line["kind"],
        f"{line['seconds']:.1f}",
        "ok" if not line["imbalance"] else f"off by {line['imbalance']:,}",
        f"{rows_in:,}",
        f"{rows_out:,}",
        ", ".join(dispositions) or "nothing",
    )


_DISPOSITIONS = ("written", "quarantined", "late", "deduplicated", "superseded", "already_read", "closed")
_FILES = {"files_opened": "opened", "files_quarantined": "quarantined", "files_already_read": "already read"}
