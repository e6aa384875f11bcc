"""``tidegate ledger``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidegate import formatting, json_codec
from tidegate.cli import console, project
from tidegate.cli.arguments import AsJson, Name
from tidegate.errors import EX_SOFTWARE
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops.ledger import LEDGER, RecordedLine
from tidegate.reports.ledger_line import FILES, ROWS, count, label

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


def ledger(
    name: Name,
    last: Annotated[int, typer.Option(metavar="COUNT", help="Maximum number of lines, the newest last.", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the last ledger lines: the disposition of every row, and whether the counts balance. Starts no JVM.

    The exit code is 70 when a line does not balance.
    """
    environment = project.read()
    project.load(name)
    lines = LEDGER.read(PipelinePlace(Layout.of(environment), name), last=last)
    if as_json:
        console.print_json({"format": 1, "batches": [_json(line) for line in lines]})
    elif lines:
        requests = [line.request_label for line in lines]
        rows = [_row(line) for line in lines]
        if any(requests):
            rows = [(*row, request) for row, request in zip(rows, requests, strict=True)]
        headers = (*_HEADERS, _REQUESTED) if any(requests) else _HEADERS
        console.print_table(headers, rows, right=("batch", "in", "out", "seconds"))
    else:
        console.echo(f"The ledger of pipeline {name!r} is empty: no batch is recorded yet.")
    raise typer.Exit(EX_SOFTWARE if any(line.imbalance() for line in lines) else 0)


def _json(line: RecordedLine) -> dict[str, Any]:
    recorded_at = f"{line.recorded_at:%Y-%m-%dT%H:%M:%S.%fZ}"
    return {**json_codec.to_plain(line), "recorded_at": recorded_at, "imbalance": line.imbalance()}


def _row(line: RecordedLine) -> tuple[str, ...]:
    about, imbalance = line.balances[0], line.imbalance()
    names = (*about.parts, "quarantined", "closed") if about.total == "groups" else (*ROWS.parts, "closed")
    dispositions = [
        f"{count(line, name):,} {label(name)}" for name in names if name != "filtered" and count(line, name)
    ]
    dispositions += [f"{rows:,} filtered by {rule}" for rule, rows in sorted(line.filtered.items())]
    dispositions += [f"{formatting.count(files, 'file')} {what}" for what, files in FILES.lines(line)]
    return (
        f"{line.recorded_at:%Y-%m-%d %H:%M:%S}",
        line.flow,
        line.label.removeprefix("batch "),
        "" if line.checkpoint_version is None else f"v{line.checkpoint_version}/{line.refresh}",
        line.kind,
        f"{line.seconds:.1f}",
        "ok" if not imbalance else f"off by {imbalance:,}",
        f"{about.amount(line):,}",
        f"{about.changed(line):,}",
        ", ".join(dispositions) or "nothing",
    )
