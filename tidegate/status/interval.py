"""The interval between two runs of a pipeline, from its schedule."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise

import pendulum

from tidegate.errors import TidegateError
from tidegate.spec import AfterTables, Flow, Pipeline

_TICKS = 8
"""Number of cron ticks from which the longest interval is taken: with weekdays only, for example, it is three days."""


def interval_of(
    pipeline: Pipeline, now: datetime, declared: Mapping[str, Pipeline | TidegateError] | None = None
) -> float | None:
    """The longest interval between the next runs of the schedule, in seconds; None if it is unknown.

    A pipeline that follows tables has the longest interval of the pipelines that write them; one that waits for complete days or hours
    of their sources has at least a day or an hour.

    Args:
        declared: Every pipeline, or the error of loading its file; without it no pipeline is followed.
    """
    if isinstance(pipeline.schedule, str):
        return _of_cron(pipeline.schedule, pipeline.timezone, now)
    if not isinstance(pipeline.schedule, AfterTables):
        return None
    tables = pipeline.schedule.tables
    # Without itself, because two pipelines may follow each other.
    others = {name: each for name, each in (declared or {}).items() if name != pipeline.name}
    loaded = [each for each in others.values() if not isinstance(each, TidegateError)]
    writers = [each for each in loaded if any(each.writer_of(table) for table in tables)]
    intervals = [interval_of(each, now, others) for each in writers]
    if pipeline.schedule.intervals:
        intervals += [_of_source(each.writer_of(table)) for each in writers for table in tables]
    return max((interval for interval in intervals if interval is not None), default=None)


def _of_source(writer: Flow | None) -> float | None:
    """The length of the intervals that the source of a landing flow declares, in seconds; None without any."""
    if writer is None or writer.intervals is None:
        return None
    return 86_400.0 if writer.intervals.unit == "day" else 3600.0


def _of_cron(schedule: str, timezone: str, now: datetime) -> float:
    from croniter import croniter

    ticks = croniter(schedule, pendulum.instance(now).in_timezone(timezone))
    instants: list[datetime] = [ticks.get_next(datetime) for _ in range(_TICKS)]
    # The difference of two times in one zone is that of the clocks, which is wrong where they skip or repeat an hour.
    return max(later.timestamp() - earlier.timestamp() for earlier, later in pairwise(instants))
