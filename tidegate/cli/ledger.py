"""``tidegate ledger``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate import identity, wording
from tidegate.cli import project

if TYPE_CHECKING:
    from tidegate.layout import Layout

_HEADERS = ("recorded at (UTC)", "flow", "batch", "checkpoint", "kind", "seconds", "balance", "in", "out", "fates")
_ASKED = "asked for"
"""The column that is shown where something else than increments was asked for."""

_BEFORE = ("flow", "kind", "app_id", "batch_id")
_BEHIND = (
    *("filtered", "rules", "target_version", "seconds"),
    *("run_key", "mode", "requested_by", "attempt", "checkpoint_version", "refresh", "recorded_at"),
)
_NEWEST = """
SELECT * REPLACE (strftime(recorded_at, '%Y-%m-%dT%H:%M:%S.%fZ') AS recorded_at)
FROM (SELECT * FROM held ORDER BY recorded_at DESC, batch_id DESC LIMIT ?)
ORDER BY recorded_at, batch_id
"""


def ledger(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.", autocompletion=project.complete_name)],
    last: Annotated[int, typer.Option(metavar="COUNT", help="At most so many lines, the newest last.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show what the last batches did with every row: the ledger's lines and whether they balance. Starts no JVM.

    The exit code is 70 when a line does not balance.
    """
    from tidegate.cli import console
    from tidegate.errors import EX_SOFTWARE
    from tidegate.layout import Layout

    environment = project.read()
    project.load(name)
    lines = _read(Layout.of(environment), name, last)
    if as_json:
        console.print_json({"format": 1, "batches": lines})
    elif lines:
        asked = [wording.asked(line["mode"], line["requested_by"]) for line in lines]
        rows = [_row(line) for line in lines]
        if any(asked):
            rows = [(*row, told) for row, told in zip(rows, asked, strict=True)]
        headers = (*_HEADERS, _ASKED) if any(asked) else _HEADERS
        console.print_table(headers, rows, right=("batch", "in", "out", "seconds"))
    else:
        console.say(f"The ledger of pipeline {name!r} is empty: no batch is recorded yet.")
    raise typer.Exit(EX_SOFTWARE if any(line["imbalance"] for line in lines) else 0)


def _read(layout: Layout, pipeline: str, last: int) -> list[dict[str, Any]]:
    """The newest lines, oldest first, each with its ``imbalance``."""
    from tidegate.ops.ledger import COUNTS
    from tidegate.ops.query import columns, query
    from tidegate.report import BatchRecord

    path = layout.ops(pipeline, "ledger")
    # A ledger to which only older versions wrote lacks the newer ones.
    there, wanted = set(columns(path)), (*_BEFORE, *COUNTS, *_BEHIND)
    found = query(path, [name for name in wanted if name in there], _NEWEST, [last])
    lines = [{name: line.get(name) for name in wanted} | {"closed": line.get("closed") or 0} for line in found]
    return [{**line, "imbalance": BatchRecord.from_json(line).imbalance()} for line in lines]


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    groups = line["kind"] in ("recompute", "swap")
    names = ("upserted", "deleted", "unchanged") if groups else _FATES
    came, went = (line["groups"], line["upserted"] + line["deleted"]) if groups else (line["read"], line["written"])
    called = identity.called(line["app_id"], line["batch_id"], line["kind"])
    fates = [f"{line[name]:,} {name.replace('_', ' ')}" for name in names if line[name]]
    fates += [f"{rows:,} filtered by {rule}" for rule, rows in sorted(line["filtered"].items())]
    fates += [f"{wording.count(line[name], 'file')} {what}" for name, what in _FILES.items() if line[name]]
    return (
        line["recorded_at"][:19].replace("T", " "),
        line["flow"],
        called.removeprefix("batch "),
        "" if line["checkpoint_version"] is None else f"v{line['checkpoint_version']}/{line['refresh']}",
        line["kind"],
        f"{line['seconds']:.1f}",
        "ok" if not line["imbalance"] else f"off by {line['imbalance']:,}",
        f"{came:,}",
        f"{went:,}",
        ", ".join(fates) or "nothing",
    )


_FATES = ("written", "quarantined", "deduplicated", "superseded", "already_read", "closed")
_FILES = {"files_opened": "opened", "files_quarantined": "quarantined", "files_already_read": "already read"}
