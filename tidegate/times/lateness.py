"""Which rows are late: the watermark of each batch of bronze, and the heartbeats with which the clock moves it.

All times are microseconds since 1970, in which event times are compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SECOND = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """Rows that came together: a batch of bronze. A heartbeat counts as one."""

    version: int | None
    """The version of bronze that the batch committed, which orders batches; of a heartbeat, the newest one before it. None if it is
    not known."""
    newest: int
    """The highest event time of its rows that are not too far ahead of the clock."""
    is_heartbeat: bool = False


@dataclass(frozen=True, kw_only=True)
class Watermarks:
    """The watermark before each arrival, and after the last."""

    before: Mapping[int | None, int]
    """By the version of the batch; one before which there is none is missing."""
    after: int | None


def watermarks(arrivals: Iterable[Arrival], delay_seconds: int, start: int | None = None) -> Watermarks:
    """The watermark is the highest event time of all earlier arrivals, less the delay. It does not go back.

    Batches whose order is not known are late by none of these arrivals, and make none of them late.

    Args:
        arrivals: In any order. Those with the same version do not move each other's watermark.
        start: The watermark that earlier batches left.
    """
    newest: dict[tuple[int, bool], int] = {}
    unordered: list[int] = []
    for arrival in arrivals:
        if arrival.version is None:
            unordered.append(after(arrival.newest, delay_seconds))
        else:
            place = (arrival.version, arrival.is_heartbeat)
            newest[place] = max(arrival.newest, newest.get(place, arrival.newest))
    before: dict[int | None, int] = {}
    current = start
    if start is not None:
        before[None] = start
    for version, is_heartbeat in sorted(newest):
        if current is not None and not is_heartbeat:
            before[version] = current
        current = highest(current, after(newest[version, is_heartbeat], delay_seconds))
    return Watermarks(before=before, after=highest(current, *unordered))


def highest(*moments: int | None) -> int | None:
    """The highest of several watermarks; None where there is none."""
    return max((moment for moment in moments if moment is not None), default=None)


def after(newest: int, delay_seconds: int) -> int:
    """The watermark after an event time than which none is higher."""
    return newest - delay_seconds * _SECOND


def due_heartbeat(
    now: int, *, last_arrival: int | None, watermark: int | None, delay_seconds: int, idle_seconds: int
) -> int | None:
    """The event time of the heartbeat that is due: the present time less ``idle``; None if none is.

    With it the watermark is as far as it would be if a row had come ``idle`` ago whose event time was the clock's. So a row that
    comes no later after its event than ``idle`` and the delay together is not late by a heartbeat.

    Args:
        last_arrival: When the newest rows came, or the newest heartbeat was written; None if no row ever came.
        watermark: The present watermark. A heartbeat that would not move it is not due.
        idle_seconds: How long nothing must have come.
    """
    event_time = now - idle_seconds * _SECOND
    if last_arrival is None or last_arrival > event_time:
        return None
    return event_time if watermark is None or after(event_time, delay_seconds) > watermark else None
