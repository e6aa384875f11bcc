"""What a recovery is."""

from __future__ import annotations

from tidegate.requests.runs import RunKind

KIND = RunKind(
    name="recover",
    meaning="derive again what damage of tables or checkpoints has reached; all else reads what is new",
    applies_to=lambda _: True,
    rewrites="nothing of {table} unless it is damaged, which `tidegate recover --plan` shows",
    plans=True,
)
