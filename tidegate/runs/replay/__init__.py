"""What a replay is."""

from __future__ import annotations

from tidegate.requests.runs import RunKind

KIND = RunKind(
    name="replay",
    meaning="",
    applies_to=lambda _: True,
    reads_source=False,
    increments=False,
)
