"""Days as text, ``YYYY-MM-DD``, in a range in which every conversion between time zones is possible; instants in SQL."""

from __future__ import annotations

import calendar
import datetime
import re

import pendulum

PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
FIRST, LAST = datetime.date(2, 1, 1), datetime.date(9998, 12, 31)
"""Python's calendar has the years 1 to 9999. Another time zone and the end of a last day move a time by up to two days, so
days of its first and last year are refused: their conversion may raise an OverflowError."""
FIRST_MS, END_MS = -12_219_292_800_000, 253_402_300_800_000
"""1582-10-15T00:00Z and 10000-01-01T00:00Z, in milliseconds since 1970. Spark, Delta and Python show a time from the first and before
the second alike: before it Spark's Kafka connector changes the day, since Java has another calendar there, and Python ends with 9999."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EARLIEST_MICROS = -62_135_596_800_000_000
"""0001-01-01, the first moment of Python and of Delta's readers."""
ALLOWED = f"a date as YYYY-MM-DD, from {FIRST} to {LAST}"


def midnight(day: object, timezone: str = "UTC") -> pendulum.DateTime:
    """The beginning of a day in a time zone.

    Raises:
        ValueError: It is not a date, or out of range; the message continues a sentence that begins with the value.
    """
    if isinstance(day, str) and re.fullmatch(PATTERN, day):
        try:
            date = datetime.date.fromisoformat(day)
        except ValueError:
            pass
        else:
            if not FIRST <= date <= LAST:
                raise ValueError(f"is out of range; write a date from {FIRST} to {LAST}")
            return pendulum.datetime(date.year, date.month, date.day, tz=timezone)
    raise ValueError("is not a date; write it as YYYY-MM-DD, for example 2026-03-01")


def moment(milliseconds: int | None) -> datetime.datetime | None:
    """An instant in UTC from milliseconds since 1970; None stays None."""
    return None if milliseconds is None else datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)


def micros(moment: datetime.datetime) -> int:
    """An aware datetime in microseconds since 1970."""
    return calendar.timegm(moment.utctimetuple()) * 1_000_000 + moment.microsecond


def from_micros(microseconds: int) -> datetime.datetime:
    """The reverse of `micros`, in UTC; not before the year 1."""
    return _EPOCH + datetime.timedelta(microseconds=max(microseconds, _EARLIEST_MICROS))


def literal(moment: datetime.datetime, *, zone: bool = True) -> str:
    """An instant as an SQL literal for delta-rs.

    DataFusion reads ``TIMESTAMP '…'`` as nanoseconds, which fails for years before 1678 and after 2261.

    Args:
        moment: An aware datetime, or a naive one in UTC.
        zone: Whether the column has a time zone (``timestamp``) or not (``timestamp_ntz``).
    """
    utc = moment.astimezone(datetime.UTC) if moment.tzinfo is not None else moment
    kind = 'Some("UTC")' if zone else "None"
    return (
        f"arrow_cast('{utc.replace(tzinfo=None).isoformat()}{'Z' if zone else ''}', 'Timestamp(Microsecond, {kind})')"
    )
