"""The exact commands that start what a person asks for: a trigger, our own command, and a backfill by intervals.

Airflow's backfill makes the runs whose data interval *begins* between two instants, both included, and is over. So the
intervals are counted here as Airflow's ``CronDataIntervalTimetable`` cuts them, and the instants are printed with their
offset from UTC: Airflow takes a bare date for midnight in UTC, whatever the pipeline's time zone.
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

MANY = 100
"""More runs than a backfill should make: each one reads the source table twice and starts a JVM."""
_COUNTED = 10_000
"""Intervals are counted up to here; a window of years in steps of minutes has no end."""


@dataclass(frozen=True, kw_only=True)
class Commands:
    """How to start a request."""

    single: tuple[str, ...]
    """One run for everything: by Airflow, and without it."""
    by_interval: str | None = None
    """A backfill: one run for each data interval."""
    runs: int | None = None
    """How many runs the backfill would make; None where there is no cron schedule, or nothing to replay by intervals."""
    note: str = ""
    """What is to be known of the backfill, or why there is none."""

    @property
    def every(self) -> tuple[str, ...]:
        """All of them."""
        return self.single if self.by_interval is None else (*self.single, self.by_interval)

    def lines(self) -> list[str]:
        """For people."""
        told = [f"to start it: {command}" for command in self.single]
        if self.by_interval is not None and self.runs is not None:
            runs = "1 run" if self.runs == 1 else f"{self.runs:,} runs"
            told.append(f"or in {runs}, one for each interval: {self.by_interval}")
        return [*told, self.note] if self.note else told


def commands(pipeline: Pipeline, request: RunRequest, now: datetime | None = None) -> Commands:
    """The commands for a request.

    Args:
        pipeline: Its schedule and its time zone say which intervals a backfill makes.
        request: Checked.
        now: An interval that is not over then has no run; None means the present.
    """
    single = _single(request)
    window = request.window
    # Neither can a run of a backfill be told which flows the others left out, nor does it do anything but replay.
    if request.mode != "replay" or window is None or request.flows or not isinstance(pipeline.schedule, str):
        return Commands(single=single)
    present = pendulum.instance(now) if now is not None else pendulum.now("UTC")
    found = intervals(pipeline.schedule, pipeline.timezone, window, present)
    schedule = f"{pipeline.schedule} ({pipeline.timezone})"
    if not found:
        note = f"a backfill would make no run: no interval of {schedule} begins in this window and is over"
        return Commands(single=single, runs=0, note=note)
    if len(found) > MANY:
        count = f"more than {_COUNTED:,}" if len(found) > _COUNTED else f"{len(found):,}"
        note = f"a backfill would make {count} runs, one for each interval of {schedule}; one run for all is cheaper"
        return Commands(single=single, runs=len(found), note=note)
    first, last = window.first, window.behind.subtract(seconds=1)
    command = (
        f"airflow backfill create --dag-id {request.dag_id} --from-date {_told(first)} --to-date {_told(last)} "
        "--reprocess-behavior completed --max-active-runs 1"
    )
    return Commands(single=single, by_interval=command, runs=len(found), note=_beside(window, found))


def intervals(
    schedule: str, timezone: str, window: Window, now: pendulum.DateTime
) -> list[tuple[pendulum.DateTime, pendulum.DateTime]]:
    """The data intervals that begin in a window and were over at an instant, oldest first, start and end each.

    Args:
        schedule: Cron's five fields, or a name such as ``@daily``.
        timezone: In which it is read.
        window: Where they begin.
        now: When the last one must be over.

    Returns:
        At most 10,001 of them, which means: more than 10,000.
    """
    ticks = _Ticks(schedule, timezone)
    found: list[tuple[pendulum.DateTime, pendulum.DateTime]] = []
    start = ticks.after(window.first.subtract(seconds=1))
    while start < window.behind and len(found) <= _COUNTED:
        end = ticks.after(start)
        if end >= now:
            break
        found.append((start, end))
        start = end
    return found


class _Ticks:
    """A cron schedule on the wall clock of a time zone, stepped as Airflow's ``CronMixin`` does."""

    def __init__(self, schedule: str, timezone: str) -> None:
        from croniter import croniter

        self._croniter = croniter
        self._schedule = schedule
        self._timezone = timezone
        # Of a schedule with ticks in every hour, the hour that the clock shows twice has them twice.
        self._every_hour = croniter(schedule).expanded[1] == ["*"]

    def after(self, moment: pendulum.DateTime) -> pendulum.DateTime:
        local = moment.in_timezone(self._timezone)
        wall = local.naive()
        following: datetime = self._croniter(self._schedule, start_time=wall).get_next(datetime)
        if self._every_hour:
            step: timedelta = following - wall
            # In seconds that pass, not on the wall clock.
            return local.in_timezone("UTC").add(seconds=int(step.total_seconds())).in_timezone(self._timezone)
        # Of an hour that the clock shows twice it is the second, of one that it leaves out the one behind it.
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


def _beside(window: Window, found: list[tuple[pendulum.DateTime, pendulum.DateTime]]) -> str:
    """What of the window the intervals leave out, or take beyond it."""
    begin, end = found[0][0], found[-1][1]
    if (begin, end) == (window.first, window.behind):
        return ""
    return f"the intervals of the backfill go from {_told(begin)} up to {_told(end)}, which is not the whole window and nothing else"


def _told(moment: pendulum.DateTime) -> str:
    """With the offset from UTC, which ``Z`` would hide from people who read local times."""
    return moment.format("YYYY-MM-DDTHH:mm:ssZ")
