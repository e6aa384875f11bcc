"""What a reingest is."""

from __future__ import annotations

from tidegate.requests.runs import RunKind

KIND = RunKind(
    name="reingest",
    meaning="read the landing zone or the topic again; only what bronze does not contain is written",
    applies_to=lambda flow: not flow.feeds,
    window="optional",
    gaps=True,
    rewrites="nothing: only missing rows are added to {table}",
)
