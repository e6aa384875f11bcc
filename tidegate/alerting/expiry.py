"""Estimates when a topic deletes unread messages. Pure functions.

By the age of the first unread message and the topic's retention time; and from how its first offsets have moved so far, which also
covers a retention by size. A broker deletes whole segments, so the first offset of a partition moves in jumps. At least two jumps
are needed for the second estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.ops.plans import PlannedLag

_LOOK_BACK = timedelta(days=7)
_MINIMUM_JUMPS = 2
_MINIMUM = timedelta(hours=1)
_INTERVAL_SECONDS = 8 * 3600.0
"""The assumed interval of a pipeline without a schedule: three runs a day."""


def time_to_expiry(
    plans: Sequence[PlannedLag],
    first_offsets: Mapping[str, int],
    unread: Mapping[str, int],
    now: datetime,
    unread_until: datetime | None = None,
) -> timedelta | None:
    """Estimated time until the first unread message is deleted; None if unknown, or if the topic deletes nothing.

    Args:
        plans: Earlier plans, oldest first.
        first_offsets: Partition to its first offset now.
        unread: Partition to the next offset to read, without the partitions that are read to the end.
        now: The time of `first_offsets`.
        unread_until: Up to when the topic's retention time keeps all unread messages; None if that is unknown or far off.
    """
    recent = _since(plans, now)
    estimates = (
        _of_partition(recent, each, first_offsets.get(each, behind), behind, now) for each, behind in unread.items()
    )
    by_age = None if unread_until is None else max(unread_until - now, timedelta(0))
    return min((each for each in (*estimates, by_age) if each is not None), default=None)


def limit(runs: int, interval_seconds: float | None) -> timedelta:
    """The threshold: a number of schedule intervals, at least one hour."""
    interval = _INTERVAL_SECONDS if interval_seconds is None else interval_seconds
    return max(_MINIMUM, timedelta(seconds=runs * interval))


def _since(plans: Sequence[PlannedLag], now: datetime) -> Sequence[PlannedLag]:
    """The plans of the last 7 days, or the last one before them."""
    measured = [plan for plan in plans if plan.first_offsets]
    recent = [plan for plan in measured if now - plan.at <= _LOOK_BACK]
    return recent or measured[-1:]


def _of_partition(
    plans: Sequence[PlannedLag], partition: str, begin: int, behind: int, now: datetime
) -> timedelta | None:
    since, first, jumps = now, begin, 0
    for plan in reversed(plans):
        earlier = plan.first_offsets.get(partition)
        if earlier is None or earlier > first:
            # The topic was recreated: its offsets start at 0 again.
            break
        jumps += earlier < first
        since, first = plan.at, earlier
    if jumps < _MINIMUM_JUMPS or since >= now:
        return None
    return (now - since) * ((behind - begin) / (begin - first))
