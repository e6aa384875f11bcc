"""What a full refresh is."""

from __future__ import annotations

from tidegate.requests.runs import RunKind

KIND = RunKind(
    name="full_refresh",
    meaning="derive whole tables again; readers see the old ones until the new ones are complete",
    replaces_rows=True,
    applies_to=lambda flow: flow.is_staged,
)
