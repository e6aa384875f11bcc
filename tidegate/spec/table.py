"""Declarations of a target table and of its windows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from tidegate.advice import Advice, Edit, Either
from tidegate.errors import FieldError
from tidegate.spec.checks import Layer, check_duration, check_table, fits, in_seconds
from tidegate.times import dates

WriteMode = Literal["append", "upsert", "recompute", "send"]
TextOrder = Literal["text", "numbers"]
INTERVAL = ("valid_from", "valid_to")
"""The columns of a history table that say when a version was valid."""

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
    """Columns that order the changes of one key, or scope; ties are broken by the source's own coordinates. Numbers, dates or
    timestamps; a STRING only with ``text_order``."""
    text_order: Mapping[str, TextOrder] = field(default_factory=dict, hash=False)
    """How the STRING columns of ``sequence_by`` compare, as in ``{"file": "numbers"}``. ``numbers``: a number in the text as a number,
    so that ``bin.1000000`` is above ``bin.999999``. ``text``: character by character, for values in which that is the same, such as
    times of one format."""
    replace_by: tuple[str, ...] = ()
    """Some of the ``keys``: the key of a scope, whose rows are replaced together. With ``sequence_by``, for example
    ``("order_id",)`` of the items of an order: they give way to those that the newest record of the scope makes. Without,
    for example ``("user_id",)`` of the sessions of a user: to those that the transform makes of all rows of the scope."""
    history: Literal["scd2"] | None = None
    """``scd2`` keeps every version of a key, with ``valid_from`` and ``valid_to``. A version is valid from its first
    ``sequence_by`` column on, which becomes one of the ``keys``. Read from bronze, which has every record."""
    untracked: tuple[str, ...] = ()
    """Columns of a history whose changes make no new version: it has the values with which it began."""
    windows: TimeWindows | None = None
    """Time windows of a table without ``sequence_by``: ``window_start`` is one of its ``keys``, and the transform gets the rows of
    each window that has changes."""
    event_time: str | None = None
    """The column (a date or a timestamp) with the event time of a row. Windows of a backfill refer to it; those of groups to the
    event time of their source, or, if it has none, to this one, which is then one of the ``keys``."""
    first_day: str | None = None
    """Limits the table by its event time: rows of earlier days, ``YYYY-MM-DD`` in the pipeline's time zone, are filtered, by the rule
    ``outside(<column>)``. Rows without event time and deletes are not. Not for groups: limit the table that they are computed from."""
    last_day: str | None = None
    """The same for rows of later days."""

    def __post_init__(self) -> None:
        check_table(self, "name", self.name)
        for name in ("keys", "sequence_by", "replace_by", "untracked"):
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
        if self.replace_by and not set(self.replace_by) < set(self.keys):
            allowed = f"some of the keys {self.keys}, not all"
            raise FieldError(f"Table {self.name!r}", "replace_by", self.replace_by, allowed)
        self._check_history()
        self._check_text_order()
        if self.windows is not None:
            if not isinstance(self.windows, TimeWindows):
                raise FieldError(f"Table {self.name!r}", "windows", self.windows, "TimeWindows(…) or None")
            if self.sequence_by or WINDOW_START not in self.scope:
                allowed = f"only without sequence_by, and with {WINDOW_START!r} among the keys and, if there are any, replace_by"
                raise FieldError(f"Table {self.name!r}", "windows", self.windows.identity(), allowed)
        if self.event_time is not None and not fits(_COLUMN, self.event_time):
            raise FieldError(f"Table {self.name!r}", "event_time", self.event_time, "one column's name")
        self._check_days()

    def _check_text_order(self) -> None:
        owner = f"Table {self.name!r}"
        known = isinstance(self.text_order, Mapping) and self.text_order.keys() <= {*self.sequence_by}
        if not known or not all(value in get_args(TextOrder) for value in self.text_order.values()):
            raise FieldError(owner, "text_order", self.text_order, "'text' or 'numbers' for columns of sequence_by")
        if self.history and self.text_order.get(self.sequence_by[0]) == "numbers":
            allowed = f"'text' for {self.sequence_by[0]!r}, the time from which a version is valid"
            raise FieldError(owner, "text_order", dict(self.text_order), allowed)

    def _check_days(self) -> None:
        owner = f"Table {self.name!r}"
        for name in ("first_day", "last_day"):
            if (day := getattr(self, name)) is None:
                continue
            try:
                dates.midnight(day)
            except ValueError:
                raise FieldError(owner, name, day, dates.ALLOWED) from None
            if self.event_time is None or self.write_mode == "recompute":
                raise FieldError(owner, name, day, "only with event_time, and not for groups")
        if self.first_day and self.last_day and self.first_day > self.last_day:
            raise FieldError(owner, "last_day", self.last_day, f"{self.first_day!r} or a later day")

    def _check_history(self) -> None:
        owner = f"Table {self.name!r}"
        if self.history not in (None, "scd2"):
            raise FieldError(owner, "history", self.history, "'scd2' or None")
        if self.history and (self.replace_by or not self.sequence_by):
            raise FieldError(owner, "history", self.history, "only with keys and sequence_by, and without replace_by")
        if not self.history and self.untracked:
            raise FieldError(owner, "untracked", self.untracked, "only together with history")
        if self.history and (both := {*self.keys, *self.sequence_by} & {*self.untracked, *INTERVAL}):
            raise FieldError(owner, "keys", tuple(sorted(both)), "not valid_from, valid_to or an untracked column")
        if self.history and self.event_time in INTERVAL:
            allowed = f"a column that the transform returns, as {self.sequence_by[0]!r}, with which a version begins"
            raise FieldError(owner, "event_time", self.event_time, allowed)
        if self.history and self.sequence_by[0] not in self.keys:
            object.__setattr__(self, "keys", (*self.keys, self.sequence_by[0]))
        if self.history and not self.scope:
            raise FieldError(owner, "keys", self.keys, "a key besides the first sequence_by column")

    @property
    def layer(self) -> Layer:
        """The layer, which is the part of the name before the dot."""
        layer, _, _ = self.name.partition(".")
        return layer  # type: ignore[return-value]  # check_table admits only the layers

    @property
    def scope(self) -> tuple[str, ...]:
        """The columns whose rows are replaced together: ``replace_by``, the keys of a history without its time, or the keys."""
        if self.history:
            return tuple(key for key in self.keys if key != self.sequence_by[0])
        return self.replace_by or self.keys

    @property
    def child_keys(self) -> tuple[str, ...]:
        """The keys that distinguish the rows of one scope; empty if each key is a scope."""
        return tuple(key for key in self.keys if key not in self.scope)

    def remembered(self) -> dict[str, Any]:
        """What the sidecar of a checkpoint stores of the table. Fields without value are left out, as before there were any."""
        optional: dict[str, Any] = {
            "replace_by": self.replace_by,
            "history": self.history,
            "untracked": self.untracked,
            # Columns that compare as text are as those of earlier releases.
            "text_order": {name: value for name, value in self.text_order.items() if value != "text"},
        }
        windows = {} if self.windows is None else {"windows": self.windows.identity()}
        return {
            "keys": list(self.keys),
            "sequence_by": list(self.sequence_by),
            **{name: list(value) if isinstance(value, tuple) else value for name, value in optional.items() if value},
            **windows,
        }

    @property
    def write_mode(self) -> WriteMode:
        """How rows get into the table."""
        if not self.keys:
            return "append"
        return "upsert" if self.sequence_by else "recompute"


class OtherTarget:
    """A target that is no table (`tidegate.spec.sinks`): what shared code reads of every target and what only tables have."""

    keys: ClassVar[tuple[str, ...]] = ()
    sequence_by: ClassVar[tuple[str, ...]] = ()
    text_order: ClassVar[Mapping[str, str]] = {}
    replace_by: ClassVar[tuple[str, ...]] = ()
    scope: ClassVar[tuple[str, ...]] = ()
    child_keys: ClassVar[tuple[str, ...]] = ()
    untracked: ClassVar[tuple[str, ...]] = ()
    history: ClassVar[None] = None
    windows: ClassVar[None] = None
    event_time: ClassVar[None] = None
    first_day: ClassVar[None] = None
    last_day: ClassVar[None] = None
    write_mode: ClassVar[Literal["send"]] = "send"

    @property
    def function(self) -> str | None:
        """``<module>:<function>`` in ``spark_jobs``, to which changes are passed; None for a system that the platform itself writes to."""
        return None


def no_text_order(name: str) -> tuple[str, Advice]:
    """What is wrong with a STRING column in the order, and what to do."""
    problem = f"sequence_by has {name!r}, a STRING, and nothing says how it compares: as text 999999 is above 1000000."
    numbers = f'declare text_order={{"{name}": "numbers"}}, by which the numbers in it compare as numbers'
    text = f'declare text_order={{"{name}": "text"}} if its values compare character by character, such as times of one format'
    return problem, Either(
        Edit("return a number or a timestamp instead", "transform"),
        Edit(numbers, "declaration"),
        Edit(text, "declaration"),
    )


SNAPSHOT_AT = "snapshot_at"
"""The column of a history of snapshots with the time of the snapshot that first has the row, or lacks its key."""
WINDOW_START = "window_start"
"""The key column with the beginning of a time window."""

_MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class TimeWindows:
    """Windows of one length into which a group flow puts the rows of its source, by their time.

    A row is in each window with ``window_start <= time < window_start + length``. Windows begin at multiples of ``every`` since
    1970-01-01T00:00:00Z. The transform gets each row once per window, with its ``window_start``.
    """

    time: str
    """A TIMESTAMP column of the source. A row in which it is NULL has ``window_start`` NULL."""
    length: str
    """A duration: ``"1 hour"``, ``"15 minutes"``; seconds, minutes, hours or days."""
    every: str | None = None
    """The time from the beginning of one window to that of the next, of which ``length`` is a multiple; None for windows that
    do not overlap."""

    def __post_init__(self) -> None:
        check_duration("TimeWindows", "length", self.length)
        if self.every is not None:
            check_duration("TimeWindows", "every", self.every)
        if not fits(re.compile(r"[A-Za-z][A-Za-z0-9_]*"), self.time):
            raise FieldError("TimeWindows", "time", self.time, "one column's name")
        if self.length_seconds % self.every_seconds or self.length_seconds > _MOST * self.every_seconds:
            allowed = f"a duration that divides length={self.length!r} into at most {_MOST:,} parts"
            raise FieldError("TimeWindows", "every", self.every, allowed)

    @property
    def length_seconds(self) -> int:
        """The length of a window."""
        return in_seconds(self.length)

    @property
    def every_seconds(self) -> int:
        """The time from the beginning of one window to that of the next."""
        return self.length_seconds if self.every is None else in_seconds(self.every)

    def identity(self) -> str:
        """What the sidecar of a checkpoint stores."""
        return f"{self.time} in windows of {self.length_seconds} s every {self.every_seconds} s"
