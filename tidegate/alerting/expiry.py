"""When a topic will have deleted what was not read yet, by how its beginning has moved so far. Pure.

A broker deletes whole segments, so a partition's beginning moves in jumps. One jump says nothing of how fast it moves;
after two there is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.alerting.alerts import PlannedLag

_LOOK_BACK = timedelta(days=7)
_JUMPS = 2
_LEAST = timedelta(hours=1)
_INTERVAL_SECONDS = 8 * 3600.0
"""Between runs by hand, where no schedule says how long is usual: three of them are a day."""


def time_left(
    plans: Sequence[PlannedLag], begins: Mapping[int, int], unread: Mapping[int, int], now: datetime
) -> timedelta | None:
    """How long until the first message that was not read is deleted; None where nobody can tell, or nothing is deleted.

    Args:
        plans: What was found before, the oldest first.
        begins: Partition to the first offset that the topic holds now.
        unread: Partition to the offset that is read next, of those that hold one.
        now: The instant.
    """
    recent = _since(plans, now)
    told = (_of_partition(recent, each, begins.get(each, behind), behind, now) for each, behind in unread.items())
    left = [each for each in told if each is not None]
    return min(left, default=None)


def limit(runs: int, interval_seconds: float | None) -> timedelta:
    """So many intervals of the schedule, at least an hour."""
    interval = _INTERVAL_SECONDS if interval_seconds is None else interval_seconds
    return max(_LEAST, timedelta(seconds=runs * interval))


def _since(plans: Sequence[PlannedLag], now: datetime) -> Sequence[PlannedLag]:
    """The plans of the last days, or the last one of those before."""
    told = [plan for plan in plans if plan.begins]
    recent = [plan for plan in told if now - plan.at <= _LOOK_BACK]
    return recent or told[-1:]


def _of_partition(
    plans: Sequence[PlannedLag], partition: int, begin: int, behind: int, now: datetime
) -> timedelta | None:
    since, first, jumps = now, begin, 0
    for plan in reversed(plans):
        earlier = plan.begins.get(partition)
        if earlier is None or earlier > first:
            # A topic that was made anew begins at 0 again.
            break
        jumps += earlier < first
        since, first = plan.at, earlier
    if jumps < _JUMPS or since >= now:
        return None
    return (now - since) * ((behind - begin) / (begin - first))
