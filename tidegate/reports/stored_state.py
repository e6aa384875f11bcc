"""What the state store of a stateful flow has, for people. Keys and values are values of the data: no report and no log has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StateTable:
    """One part of the state: all of an operator of Spark's own, or one variable, or the timers, of custom state."""

    name: str
    """Of the variable; empty for the state of Spark's own operators."""
    kind: str
    """``value``, ``list``, ``map`` or ``timer``; empty for the state of Spark's own operators."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    """Values as text; None for NULL."""
    more: bool
    """Whether the state has more rows than these."""


@dataclass(frozen=True, kw_only=True)
class StoredState:
    """The state of a flow's operator after one batch."""

    operator: str
    """Spark's name of it."""
    batch_id: int
    """The batch after which this was the state."""
    partitions: int
    tables: tuple[StateTable, ...]
