"""Declaration of time windows, tumbling or sliding."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.errors import FieldError
from tidegate.spec.checks import fits
from tidegate.spec.durations import check_duration, in_seconds

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
