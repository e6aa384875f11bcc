"""Which intervals of a topic are complete, from the times of its messages. Pure functions."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidegate.formatting import count
from tidegate.spec import TopicIntervals
from tidegate.status.completeness import Interval, end_of, exists, name_of, quiet_from, step

if TYPE_CHECKING:
    from collections.abc import Iterable


_MOST = 1000
"""Intervals that are looked at, the newest, besides those that have messages: a message with a wrong time must not add thousands that
are complete without one."""


def states(
    rule: TopicIntervals,
    zone: ZoneInfo,
    first: datetime,
    unread: Iterable[datetime],
    now: datetime,
    *,
    spans: Iterable[tuple[datetime, datetime]] = (),
) -> Iterable[Interval]:
    """The intervals from that of a first message to the present one.

    Args:
        first: The time of the message.
        unread: For each partition with messages that bronze lacks, the time of the first of these.
        now: Like the other times, with a time zone.
        spans: The times of the first and the last message in each file of bronze. An interval of them is listed however long it took to
            become complete.
    """
    length, moments = step(rule.unit), sorted(unread)
    # Cut at the present: at the end of the calendar a time has no place in other zones.
    known = [(low, min(high, now)) for low, high in ((first, now), *spans) if low <= now]
    ends = [(_start(rule, zone, low), _start(rule, zone, high)) for low, high in known]
    starts = {high - each * length for low, high in ends for each in range(min((high - low) // length + 1, _MOST))}
    for start in sorted(starts):
        if not exists(rule.unit, zone, start):
            continue
        complete_at = end_of(rule.unit, zone, start).add(seconds=rule.quiet_hours * 3600)
        behind = sum(moment < complete_at for moment in moments)
        name = name_of(rule.unit, start)
        if now < complete_at:
            yield Interval(name=name, state="incomplete", files=None, why=quiet_from(complete_at))
        elif behind:
            yield Interval(name=name, state="not read", files=None, why=f"{count(behind, 'partition')} to read")
        else:
            yield Interval(name=name, state="complete", files=None)


def _start(rule: TopicIntervals, zone: ZoneInfo, moment: datetime) -> datetime:
    """The local time, without a zone, at which the interval of a moment begins."""
    local = moment.astimezone(zone)
    return datetime(local.year, local.month, local.day, local.hour if rule.unit == "hour" else 0)  # noqa: DTZ001
