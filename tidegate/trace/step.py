"""A row in one table, with what is known of it, and the rows before or after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate import hidden

if TYPE_CHECKING:
    from tidegate.trace.changes import RowChange


@dataclass(frozen=True, kw_only=True)
class Step:
    """A row, or the rows of a key, in one table, and the steps before or after it."""

    table: str
    flow: str
    """``<pipeline>/<flow>``, which writes the table."""
    key: Mapping[str, Any]
    """The columns that identify the row: keys, or the coordinates of a record."""
    state: str
    """``present``, ``deleted`` (a tombstone), ``unchanged`` (a record of a history that makes no version), ``replaced`` (by a later
    record of the key, or of its scope), ``removed``, ``quarantined``, ``late`` (in the late table), ``not there``."""
    row: Mapping[str, Any] | None = None
    changes: tuple[RowChange, ...] = ()
    """Oldest first, without pre-images."""
    entries: tuple[Mapping[str, Any], ...] = ()
    """Quarantine entries about the row, oldest first."""
    notes: tuple[str, ...] = ()
    next: tuple[Step, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    """By table, how many rows there are of those that ``next`` has the first of."""


def noted(step: Step, *notes: str) -> Step:
    """The step with further notes."""
    return dataclasses.replace(step, notes=(*step.notes, *notes))


def state_of(row: Mapping[str, Any]) -> str:
    """The state of a row that a table has."""
    if not row.get(hidden.DELETED):
        return "present"
    return "unchanged" if row.get(hidden.CHANGE) == "unchanged" else "deleted"
