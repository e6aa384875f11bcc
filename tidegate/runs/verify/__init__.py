"""What a verification is."""

from __future__ import annotations

from tidegate.requests.runs import RunKind

KIND = RunKind(
    name="verify",
    meaning="",
    applies_to=lambda _: True,
    increments=False,
    only_reads=True,
)
