"""The days or hours of a source: what each lacks, and when it begins and ends. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

import pendulum

from tidegate import formatting

if TYPE_CHECKING:
    from tidegate.probes.files import LandedFile
    from tidegate.spec.intervals import IntervalUnit
    from tidegate.times.window import Window


State = Literal["missing", "incomplete", "not read", "complete"]
STATES: tuple[State, ...] = ("missing", "incomplete", "not read", "complete")
"""``missing``: it has no file, and intervals before and after it have some. ``incomplete``: not all of it has landed. ``not read``: all
of it has landed, and some of its files are not in bronze. ``complete``: they all are."""
_NAMED = 3
"""How many intervals of a state a summary names."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One day or hour."""

    name: str
    """``2013-01-05``, or ``2013-01-05T13``."""
    state: State
    files: int | None
    """None for a topic."""
    why: str = ""
    """Why it is not complete, as a phrase."""
    to_read: tuple[LandedFile, ...] = ()
    """Its files that bronze does not have as they are now. Those in quarantine are none of them."""
    landed: tuple[LandedFile, ...] = field(default=(), repr=False)
    """Its files: with a manifest those that it lists, else all."""
    is_empty: bool = False
    """Its marker or manifest is there, and no file of it ever was."""


@dataclass(frozen=True, kw_only=True)
class Completeness:
    """The intervals of a source at one time."""

    unit: IntervalUnit
    intervals: tuple[Interval, ...]
    """From the first to the last that has a file, or from that of a topic's first message to the present one, without a gap."""
    other_files: int = 0
    """Files whose path names no interval."""
    touched: frozenset[str] = frozenset()
    """The paths of files that were read, and have another time now: the next run compares them."""

    @property
    def complete(self) -> tuple[str, ...]:
        """The names of the complete ones."""
        return tuple(each.name for each in self.intervals if each.state == "complete")

    def gaps(self, window: Window | None) -> tuple[Interval, ...]:
        """The intervals that are not complete, in the days of a window or all of them."""
        gaps = tuple(each for each in self.intervals if each.state != "complete")
        if window is None:
            return gaps
        first, last = (day.isoformat() for day in window.dates)
        return tuple(each for each in gaps if first <= each.name[: len(first)] <= last)

    def summary(self) -> str:
        """How many are complete, and some that are not, in one phrase."""
        number = formatting.count(len(self.intervals), self.unit)
        parts = [f"{len(self.complete):,} of {number} complete", *self.described(self.intervals)]
        if self.other_files:
            parts.append(f"{formatting.count(self.other_files, 'file')} of no {self.unit}")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "unit": self.unit,
            "intervals": [
                {"interval": each.name, "state": each.state, "files": each.files, "why": each.why or None}
                for each in self.intervals
            ],
            "other_files": self.other_files,
        }

    @staticmethod
    def described(intervals: Iterable[Interval], most: int = _NAMED) -> list[str]:
        """The intervals that are not complete, as one phrase for each state with the names of the newest."""
        parts, listed = [], list(intervals)
        for state in STATES[:-1]:
            own = [each for each in listed if each.state == state]
            if own:
                named = ", ".join(f"{each.name} ({each.why})" if each.why else each.name for each in own[-most:])
                more = f" and {len(own) - most:,} more" if len(own) > most else ""
                parts.append(f"{state}: {named}{more}")
        return parts


def exists(unit: IntervalUnit, zone: ZoneInfo, start: datetime) -> bool:
    """Whether the clocks of the zone do not skip the interval: an hour in spring.

    Args:
        start: The local time at which it begins, without a zone.
    """
    return unit == "day" or start.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) == start


def end_of(unit: IntervalUnit, zone: ZoneInfo, start: datetime) -> pendulum.DateTime:
    """The instant at which it ends; of an hour that clocks repeat, the second end. Arguments as for `exists`."""
    end = start + step(unit)
    return pendulum.datetime(end.year, end.month, end.day, end.hour, tz=zone.key)


def step(unit: IntervalUnit) -> timedelta:
    """From the local time at which an interval begins to that of the next."""
    return timedelta(hours=1) if unit == "hour" else timedelta(days=1)


def name_of(unit: IntervalUnit, start: datetime) -> str:
    """The name of an interval, as in `Interval`."""
    return start.isoformat()[: len("2013-01-05T13" if unit == "hour" else "2013-01-05")]


def begin_of(zone: ZoneInfo, name: str) -> datetime:
    """The instant at which the interval of this name begins; of an hour that clocks repeat, the first begin."""
    return datetime.fromisoformat(name).replace(tzinfo=zone)


def quiet_from(moment: pendulum.DateTime) -> str:
    """Why an interval is not complete before its quiet hours are over, as a phrase."""
    return f"quiet from {moment.in_timezone('UTC').format('YYYY-MM-DD HH:mm')} UTC on"
