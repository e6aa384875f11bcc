"""A window of time, given as whole days or as an interval of instants."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Self

import pendulum

from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.times import dates


@dataclass(frozen=True, kw_only=True)
class Window:
    """``start <= time < end``, both in UTC as ISO 8601, and the time zone in which days begin."""

    start: str
    end: str
    timezone: str = "UTC"

    @classmethod
    def of_dates(cls, first: object, last: object, timezone: str) -> Self:
        """Whole days, both included, in a time zone.

        Args:
            first: ``YYYY-MM-DD``.
            last: ``YYYY-MM-DD``, the same day or a later one.
            timezone: The time zone of the days.

        Raises:
            RequestError: A value is not a date or out of range (`tidegate.times.dates`), or ``last`` is before ``first``.
        """
        start, end = _day("from_date", first, timezone), _day("to_date", last, timezone)
        if end < start:
            raise RequestError(f"from_date={first} is after to_date={last}", Edit("exchange them", "request"))
        return cls.of_interval(start, end.add(days=1), timezone)

    @classmethod
    def of_interval(cls, start: datetime.datetime, end: datetime.datetime, timezone: str) -> Self:
        """An interval without its end, such as an Airflow data interval.

        Raises:
            RequestError: It is empty, or out of range (`tidegate.times.dates`).
        """
        if end <= start:
            raise RequestError(
                f"the window from {start} to {end} is empty", Edit("name an end after the start", "request")
            )
        if start.date() < dates.FIRST or (end - datetime.timedelta(microseconds=1)).date() > dates.LAST:
            raise RequestError(
                f"the window from {start} to {end} is out of range",
                Edit(f"choose one within {dates.FIRST} to {dates.LAST}", "request"),
            )
        since, until = (pendulum.instance(each).in_timezone("UTC") for each in (start, end))
        return cls(start=since.to_iso8601_string(), end=until.to_iso8601_string(), timezone=timezone)

    @property
    def since(self) -> pendulum.DateTime:
        """The start (included), in the window's time zone."""
        return _moment(self.start).in_timezone(self.timezone)

    @property
    def until(self) -> pendulum.DateTime:
        """The end (excluded), in the window's time zone."""
        return _moment(self.end).in_timezone(self.timezone)

    @property
    def dates(self) -> tuple[datetime.date, datetime.date]:
        """First and last calendar day of the window, in its time zone."""
        return self.since.date(), self.until.subtract(microseconds=1).date()

    def summary(self) -> str:
        """For messages: days if the window consists of whole days, otherwise instants."""
        first, last = self.dates
        if self.since == self.since.start_of("day") and self.until == self.until.start_of("day"):
            return f"{first}" if first == last else f"{first} to {last}"
        return f"{self.since.to_iso8601_string()} up to {self.until.to_iso8601_string()}"


def _day(name: str, value: object, timezone: str) -> pendulum.DateTime:
    try:
        return dates.midnight(value, timezone)
    except ValueError as error:
        problem, _, allowed = f"{name}={value!r} {error}".partition("; ")
        raise RequestError(problem, Edit(allowed, "request")) from None


def _moment(text: str) -> pendulum.DateTime:
    instant = pendulum.parse(text)
    assert isinstance(instant, pendulum.DateTime)
    return instant
