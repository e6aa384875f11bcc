"""What an increment is."""

from __future__ import annotations

from tidegate.requests.runs import RunKind

KIND = RunKind(
    name="incremental",
    meaning="read what is new since the checkpoint",
    applies_to=lambda _: False,
)
