"""A window of time, as people name it (whole days) and as rows are chosen by it (from here, up to there)."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Self

import pendulum

from tidegate.errors import RequestError

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, kw_only=True)
class Window:
    """``start <= time < end``, both instants in UTC as ISO 8601, with the time zone in which days begin."""

    start: str
    end: str
    timezone: str = "UTC"

    @classmethod
    def of_dates(cls, first: object, last: object, timezone: str) -> Self:
        """Whole days, both included, in a time zone.

        Args:
            first: ``YYYY-MM-DD``.
            last: ``YYYY-MM-DD``, the same day or a later one.
            timezone: Where the days begin.

        Raises:
            RequestError: One of them is no date, or they stand in the wrong order.
        """
        start, end = _day("from_date", first, timezone), _day("to_date", last, timezone)
        if end < start:
            raise RequestError(f"from_date={first} lies after to_date={last}; exchange them")
        return cls.of_interval(start, end.add(days=1), timezone)

    @classmethod
    def of_interval(cls, start: datetime.datetime, end: datetime.datetime, timezone: str) -> Self:
        """An interval such as Airflow's data intervals: the end is not in it.

        Raises:
            RequestError: It is empty.
        """
        if end <= start:
            raise RequestError(f"the window from {start} to {end} is empty; a replay needs one that is not")
        first, behind = (pendulum.instance(each).in_timezone("UTC") for each in (start, end))
        return cls(start=first.to_iso8601_string(), end=behind.to_iso8601_string(), timezone=timezone)

    @property
    def first(self) -> pendulum.DateTime:
        """The start, in the window's time zone."""
        return _moment(self.start).in_timezone(self.timezone)

    @property
    def behind(self) -> pendulum.DateTime:
        """The end, in the window's time zone."""
        return _moment(self.end).in_timezone(self.timezone)

    @property
    def dates(self) -> tuple[datetime.date, datetime.date]:
        """First and last calendar day that the window touches."""
        return self.first.date(), self.behind.subtract(microseconds=1).date()

    def told(self) -> str:
        """For people: days where it is made of days."""
        first, last = self.dates
        if self.first == self.first.start_of("day") and self.behind == self.behind.start_of("day"):
            return f"{first}" if first == last else f"{first} to {last}"
        return f"{self.first.to_iso8601_string()} up to {self.behind.to_iso8601_string()}"


def _day(name: str, value: object, timezone: str) -> pendulum.DateTime:
    if isinstance(value, str) and _DAY.fullmatch(value):
        try:
            return pendulum.from_format(value, "YYYY-MM-DD", tz=timezone)
        except ValueError:
            pass
    raise RequestError(f"{name}={value!r} is not a date; write it as YYYY-MM-DD, for example 2026-03-01")


def _moment(text: str) -> pendulum.DateTime:
    found = pendulum.parse(text)
    assert isinstance(found, pendulum.DateTime)
    return found
