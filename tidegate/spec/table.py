"""Declaration of a target table."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal

from tidegate.errors import FieldError
from tidegate.spec.checks import Layer, check_table, fits

WriteMode = Literal["append", "upsert", "recompute"]

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Table:
    """A Delta table that one flow writes.

    ``keys`` and ``sequence_by`` determine the write mode. Neither: append (bronze). Both: upsert, where the row with the
    highest sequence wins and deletes leave tombstones (silver). ``keys`` only: recompute the groups that occur in the
    change feed (gold).
    """

    name: str
    """``<layer>.<table>``, the layer one of bronze, silver, gold."""
    _: dataclasses.KW_ONLY
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    """Columns that order the changes of one key, or scope; ties are broken by the source's own coordinates."""
    replace_by: tuple[str, ...] = ()
    """Some of the ``keys``: the key of a scope, for example ``("order_id",)`` of the items of an order. All rows of a scope
    give way to those that its newest record makes. Needs ``sequence_by``, which then orders the changes of a scope."""
    event_time: str | None = None
    """The column (a date or a timestamp) with the event time of a row. Windows of a backfill refer to it."""

    def __post_init__(self) -> None:
        check_table(self, "name", self.name)
        for name in ("keys", "sequence_by", "replace_by"):
            value = getattr(self, name)
            if isinstance(value, str):
                value = (value,)
                object.__setattr__(self, name, value)
            if not isinstance(value, tuple) or not all(isinstance(c, str) and _COLUMN.fullmatch(c) for c in value):
                raise FieldError(
                    f"Table {self.name!r}", name, value, "a tuple of column names that begin with a letter"
                )
            if len(set(value)) != len(value):
                raise FieldError(f"Table {self.name!r}", name, value, "each column once")
        if self.sequence_by and not self.keys:
            raise FieldError(f"Table {self.name!r}", "sequence_by", self.sequence_by, "only together with keys")
        if self.replace_by and not (self.sequence_by and set(self.replace_by) < set(self.keys)):
            allowed = f"some of the keys {self.keys}, not all, of a table with sequence_by"
            raise FieldError(f"Table {self.name!r}", "replace_by", self.replace_by, allowed)
        if self.event_time is not None and not fits(_COLUMN, self.event_time):
            raise FieldError(f"Table {self.name!r}", "event_time", self.event_time, "one column's name")

    @property
    def layer(self) -> Layer:
        """The layer, which is the part of the name before the dot."""
        layer, _, _ = self.name.partition(".")
        return layer  # type: ignore[return-value]  # check_table admits only the layers

    @property
    def scope(self) -> tuple[str, ...]:
        """The columns whose rows are replaced together: ``replace_by``, or the keys."""
        return self.replace_by or self.keys

    @property
    def child_keys(self) -> tuple[str, ...]:
        """The keys that distinguish the rows of one scope; empty without ``replace_by``."""
        return tuple(key for key in self.keys if key not in self.scope)

    @property
    def write_mode(self) -> WriteMode:
        """How rows get into the table."""
        if not self.keys:
            return "append"
        return "upsert" if self.sequence_by else "recompute"
