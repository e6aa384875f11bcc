"""The printed instants of `airflow backfill create`, and the intervals that Airflow computes for them."""

from __future__ import annotations

import dataclasses
import shlex

import pendulum
import pytest
from airflow.timetables.base import TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable

from tidegate.planning.backfill import commands
from tidegate.project import registry
from tidegate.requests.request import RunRequest

SPRING, AUTUMN = ("2026-03-06", "2026-03-08"), ("2026-10-24", "2026-10-26")
"""In New York the clocks skip an hour of the last of these days; in Paris they repeat one on the second."""


def by_airflow(
    schedule: str, timezone: str, first: pendulum.DateTime, last: pendulum.DateTime
) -> list[tuple[float, float]]:
    """The intervals that Airflow computes for two instants (``SerializedDAG.iter_dagrun_infos_between``)."""
    timetable = CronDataIntervalTimetable(schedule, timezone)
    restriction = TimeRestriction(first, last, catchup=True)
    intervals_of_airflow: list[tuple[float, float]] = []
    interval = None
    while True:
        info = timetable.next_dagrun_info(last_automated_data_interval=interval, restriction=restriction)
        if info is None:
            return intervals_of_airflow
        interval = info.data_interval
        assert interval is not None
        intervals_of_airflow.append((interval.start.timestamp(), interval.end.timestamp()))


@pytest.mark.parametrize(
    ("schedule", "timezone", "days", "runs"),
    [
        ("@daily", "UTC", SPRING, 3),
        ("@daily", "America/New_York", SPRING, 3),
        ("@daily", "Europe/Paris", AUTUMN, 3),
        ("@hourly", "UTC", SPRING, 72),
        ("@hourly", "America/New_York", SPRING, 71),
        ("@hourly", "Europe/Paris", AUTUMN, 73),
    ],
)
def test_the_printed_instants_include_every_interval_of_the_window(
    schedule: str, timezone: str, days: tuple[str, str], runs: int
) -> None:
    pipeline = dataclasses.replace(registry.load("flights"), schedule=schedule, timezone=timezone)
    request = RunRequest.check(pipeline, "r", {"mode": "backfill", "from_date": days[0], "to_date": days[1]})
    printed = commands(pipeline, request)
    assert printed.by_interval is not None
    words = shlex.split(printed.by_interval)
    first, last = (pendulum.parse(words[words.index(option) + 1]) for option in ("--from-date", "--to-date"))
    assert isinstance(first, pendulum.DateTime)
    assert isinstance(last, pendulum.DateTime)
    runs_of_airflow = by_airflow(schedule, timezone, first, last)
    assert len(runs_of_airflow) == runs
    assert request.window is not None
    assert (runs_of_airflow[0][0], runs_of_airflow[-1][1]) == (
        request.window.since.timestamp(),
        request.window.until.timestamp(),
    )
    assert words[-4:] == ["--reprocess-behavior", "completed", "--max-active-runs", "1"]
