"""What an undo is."""

from __future__ import annotations

from tidegate.requests.runs import RunKind, derives_keys

KIND = RunKind(
    name="undo",
    meaning="put back the rows that a backfill or a replay changed, where they are still what that run made",
    applies_to=derives_keys,
    reads_source=False,
    increments=False,
    derives=False,
    of_run=True,
    plans=True,
)
