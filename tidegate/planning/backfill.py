"""The commands that start a request: ``airflow dags trigger``, ``tidegate run`` and ``airflow backfill create``.

``airflow backfill create`` starts a run for each data interval that *begins* between two instants, both included, and has
ended. The intervals are computed here like those of Airflow's ``CronDataIntervalTimetable``. The instants are printed with
their offset from UTC, because Airflow reads a date without a time as midnight in UTC, whatever the pipeline's time zone.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pendulum

if TYPE_CHECKING:
    from tidegate.request import RunRequest
    from tidegate.spec import Pipeline
    from tidegate.window import Window

MAX_RUNS = 100
"""With more runs, `airflow backfill create` is not recommended: each run starts a JVM and reads the source table twice."""
_MAX_COUNT = 10_000
"""Intervals are counted up to this number, because a window of years may contain millions of them."""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The commands that start a request."""

    single: tuple[str, ...]
    """One run for the whole request: with Airflow, and without it."""
    by_interval: str | None = None
    """``airflow backfill create``: one run for each data interval."""
    runs: int | None = None
    """Its number of runs; None without a cron schedule, or if the request cannot be split into intervals."""
    note: str = ""
    """A remark about `by_interval`, or why it is None."""

    @property
    def all(self) -> tuple[str, ...]:
        """All commands."""
        return self.single if self.by_interval is None else (*self.single, self.by_interval)

    def lines(self) -> list[str]:
        """Lines of text for messages."""
        lines = [f"to start it: {command}" for command in self.single]
        if self.by_interval is not None and self.runs is not None:
            runs = "1 run" if self.runs == 1 else f"{self.runs:,} runs"
            lines.append(f"or in {runs}, one for each interval: {self.by_interval}")
        return [*lines, self.note] if self.note else lines


def commands(pipeline: Pipeline, request: RunRequest, now: datetime | None = None) -> Commands:
    """The commands for a request.

    Args:
        pipeline: The pipeline, with its schedule and time zone.
        request: The request.
        now: An interval that ends later has no run; None means the present.
    """
    single = _single(request)
    window = request.window
    # Runs of `airflow backfill create` have the mode backfill, and no parameter `flows`.
    if request.mode != "backfill" or window is None or request.flows or not isinstance(pipeline.schedule, str):
        return Commands(single=single)
    present = pendulum.instance(now) if now is not None else pendulum.now("UTC")
    due = intervals(pipeline.schedule, pipeline.timezone, window, present)
    schedule = f"{pipeline.schedule} ({pipeline.timezone})"
    if not due:
        note = f"`airflow backfill create` would start no run: no interval of {schedule} begins in this window and has ended"
        return Commands(single=single, runs=0, note=note)
    if len(due) > MAX_RUNS:
        count = f"more than {_MAX_COUNT:,}" if len(due) > _MAX_COUNT else f"{len(due):,}"
        note = f"`airflow backfill create` would start {count} runs, one for each interval of {schedule}; a single run is cheaper"
        return Commands(single=single, runs=len(due), note=note)
    first, last = window.since, window.until.subtract(seconds=1)
    command = (
        f"airflow backfill create --dag-id {request.dag_id} --from-date {_with_offset(first)} --to-date {_with_offset(last)} "
        "--reprocess-behavior completed --max-active-runs 1"
    )
    return Commands(single=single, by_interval=command, runs=len(due), note=_deviation(window, due))


def intervals(
    schedule: str, timezone: str, window: Window, now: pendulum.DateTime
) -> list[tuple[pendulum.DateTime, pendulum.DateTime]]:
    """The data intervals (start and end) that begin in a window and end before an instant, oldest first.

    Args:
        schedule: The five fields of cron, or a name such as ``@daily``.
        timezone: The time zone of the schedule.
        window: Each interval begins in it.
        now: Each interval ends before it.

    Returns:
        At most 10,001 intervals, which means more than 10,000.
    """
    ticks = _Ticks(schedule, timezone)
    due: list[tuple[pendulum.DateTime, pendulum.DateTime]] = []
    start = ticks.after(window.since.subtract(seconds=1))
    while start < window.until and len(due) <= _MAX_COUNT:
        end = ticks.after(start)
        if end >= now:
            break
        due.append((start, end))
        start = end
    return due


class _Ticks:
    """The instants of a cron schedule in a time zone, computed like in Airflow's ``CronMixin``."""

    def __init__(self, schedule: str, timezone: str) -> None:
        from croniter import croniter

        self._croniter = croniter
        self._schedule = schedule
        self._timezone = timezone
        # A schedule with ticks in every hour has them twice in the hour that is repeated when the clock is set back.
        self._every_hour = croniter(schedule).expanded[1] == ["*"]

    def after(self, moment: pendulum.DateTime) -> pendulum.DateTime:
        local = moment.in_timezone(self._timezone)
        wall = local.naive()
        following: datetime = self._croniter(self._schedule, start_time=wall).get_next(datetime)
        if self._every_hour:
            step: timedelta = following - wall
            # Elapsed time, not wall-clock time.
            return local.in_timezone("UTC").add(seconds=int(step.total_seconds())).in_timezone(self._timezone)
        # In a repeated hour it is the second occurrence, in a skipped hour the hour after it.
        return pendulum.instance(following.replace(fold=1), tz=self._timezone)


def _single(request: RunRequest) -> tuple[str, ...]:
    conf: dict[str, Any] = {"mode": request.mode} if request.mode != "incremental" else {}
    options = ["--mode", request.mode] if request.mode != "incremental" else []
    if request.flows:
        conf["flows"] = list(request.flows)
        options += [part for flow in request.flows for part in ("--flow", flow)]
    if request.window is not None:
        first, last = request.window.dates
        conf |= {"from_date": str(first), "to_date": str(last)}
        options += ["--from", str(first), "--to", str(last)]
    trigger = f"airflow dags trigger {request.dag_id}" + (f" --conf {shlex.quote(json.dumps(conf))}" if conf else "")
    return trigger, shlex.join(["tidegate", "run", request.dag_id, *options])


def _deviation(window: Window, due: list[tuple[pendulum.DateTime, pendulum.DateTime]]) -> str:
    """A remark if the intervals do not cover exactly the window."""
    begin, end = due[0][0], due[-1][1]
    if (begin, end) == (window.since, window.until):
        return ""
    return f"these intervals cover {_with_offset(begin)} up to {_with_offset(end)}, which is not exactly the window"


def _with_offset(moment: pendulum.DateTime) -> str:
    """ISO 8601 in local time with the offset from UTC."""
    return moment.format("YYYY-MM-DDTHH:mm:ssZ")
