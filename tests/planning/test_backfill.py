"""The printed commands, and the intervals of `airflow backfill create`, which equal those of Airflow's timetable."""

from __future__ import annotations

import dataclasses
import shlex

import pendulum
import pytest
from airflow.timetables.base import TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable

from tidegate import registry
from tidegate.planning import backfill
from tidegate.planning.backfill import commands, intervals
from tidegate.request import RunRequest
from tidegate.spec import AfterTables, Pipeline
from tidegate.window import Window

FLIGHTS = registry.load("flights")
LATER = pendulum.datetime(2030, 1, 1)


def request_of(pipeline: Pipeline, first: str, last: str, **more: object) -> RunRequest:
    return RunRequest.check(pipeline, "r", {"mode": "backfill", "from_date": first, "to_date": last, **more})


def by_airflow(
    schedule: str, timezone: str, first: pendulum.DateTime, last: pendulum.DateTime
) -> list[tuple[float, float]]:
    """The intervals that Airflow computes for two instants (``SerializedDAG.iter_dagrun_infos_between``)."""
    timetable = CronDataIntervalTimetable(schedule, timezone)
    restriction = TimeRestriction(first, last, catchup=True)
    intervals_of_airflow, interval = [], None
    while True:
        info = timetable.next_dagrun_info(last_automated_data_interval=interval, restriction=restriction)
        if info is None:
            return intervals_of_airflow
        interval = info.data_interval
        intervals_of_airflow.append((interval.start.timestamp(), interval.end.timestamp()))


CHANGES = {
    "UTC": ("2026-03-29",),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Europe/Paris": ("2026-03-29", "2026-10-25"),
    "Asia/Kolkata": ("2026-03-29",),
}
"""Days on which the clock changes, or any day where it never does."""


def expect_the_intervals_of_airflow(schedule: str, timezone: str, first: str, last: str) -> None:
    window = Window.of_dates(first, last, timezone)
    computed = [(start.timestamp(), end.timestamp()) for start, end in intervals(schedule, timezone, window, LATER)]
    assert computed == by_airflow(schedule, timezone, window.since, window.until.subtract(seconds=1))
    assert computed


@pytest.mark.parametrize("timezone", CHANGES)
@pytest.mark.parametrize("schedule", ["@daily", "@weekly", "@monthly", "30 1 * * *", "30 2 * * 1-5", "0 */6 * * *"])
def test_intervals_equal_those_of_airflow_also_around_clock_changes(schedule: str, timezone: str) -> None:
    for first, last in (("2026-02-28", "2026-03-10"), ("2026-10-23", "2026-11-03"), ("2026-03-27", "2026-04-07")):
        expect_the_intervals_of_airflow(schedule, timezone, first, last)


@pytest.mark.parametrize(("timezone", "day"), [(timezone, day) for timezone, days in CHANGES.items() for day in days])
@pytest.mark.parametrize("schedule", ["@hourly", "*/20 * * * *"])
def test_short_intervals_equal_those_of_airflow_on_the_day_of_a_clock_change(
    schedule: str, timezone: str, day: str
) -> None:
    expect_the_intervals_of_airflow(schedule, timezone, day, day)


@pytest.mark.parametrize(
    ("schedule", "timezone", "runs"),
    [("@daily", "UTC", 3), ("@daily", "America/New_York", 3), ("@daily", "Europe/Paris", 3), ("@hourly", "UTC", 72)],
)
def test_the_printed_instants_include_every_interval_of_the_window(schedule: str, timezone: str, runs: int) -> None:
    pipeline = dataclasses.replace(FLIGHTS, schedule=schedule, timezone=timezone)
    request = request_of(pipeline, "2026-03-06", "2026-03-08")
    printed = commands(pipeline, request, LATER)
    assert printed.by_interval is not None
    words = shlex.split(printed.by_interval)
    first, last = (pendulum.parse(words[words.index(option) + 1]) for option in ("--from-date", "--to-date"))
    assert isinstance(first, pendulum.DateTime)
    assert isinstance(last, pendulum.DateTime)
    runs_of_airflow = by_airflow(schedule, timezone, first, last)
    assert len(runs_of_airflow) == printed.runs == runs
    assert request.window is not None
    assert (runs_of_airflow[0][0], runs_of_airflow[-1][1]) == (
        request.window.since.timestamp(),
        request.window.until.timestamp(),
    )
    assert printed.note == ""
    assert words[-4:] == ["--reprocess-behavior", "completed", "--max-active-runs", "1"]
    assert any(f"in {runs} runs" in line for line in printed.lines())


def test_instead_of_very_many_runs_a_single_run_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = dataclasses.replace(FLIGHTS, schedule="*/15 * * * *")
    printed = commands(pipeline, request_of(pipeline, "2026-03-06", "2026-03-07"), LATER)
    assert (printed.by_interval, printed.runs) == (None, 192)
    assert "would start 192 runs" in printed.note
    monkeypatch.setattr(backfill, "_MAX_COUNT", 190)  # otherwise counting takes seconds
    endless = commands(pipeline, request_of(pipeline, "2025-01-01", "2025-12-31"), LATER)
    assert endless.runs == 191
    assert "more than 190 runs" in endless.note


def test_a_window_without_a_complete_interval_has_no_command_by_interval() -> None:
    weekly = dataclasses.replace(FLIGHTS, schedule="@weekly")
    printed = commands(weekly, request_of(weekly, "2026-03-03", "2026-03-05"), LATER)
    assert (printed.by_interval, printed.runs) == (None, 0)
    assert "would start no run" in printed.note
    daily = dataclasses.replace(FLIGHTS, schedule="@daily")
    today = commands(daily, request_of(daily, "2026-03-03", "2026-03-05"), pendulum.datetime(2026, 3, 5, 12))
    assert today.runs == 2
    assert "up to 2026-03-05T00:00:00+00:00, which is not exactly the window" in today.note


@pytest.mark.parametrize("schedule", [None, AfterTables("silver.clicks")])
def test_without_a_cron_schedule_there_is_no_command_by_interval(
    schedule: AfterTables | None,
) -> None:
    pipeline = dataclasses.replace(FLIGHTS, schedule=schedule)
    printed = commands(pipeline, request_of(pipeline, "2026-03-03", "2026-03-05"), LATER)
    assert (printed.by_interval, printed.runs, printed.note) == (None, None, "")
    assert len(printed.single) == 2


def test_the_commands_contain_only_the_parameters_of_the_request() -> None:
    assert commands(FLIGHTS, RunRequest.check(FLIGHTS, "r", {})).single == (
        "airflow dags trigger flights",
        "tidegate run flights",
    )
    printed = commands(FLIGHTS, request_of(FLIGHTS, "2013-01-01", "2013-01-02", flows=["gold"]))
    assert '"flows": ["gold"]' in printed.single[0]
    assert "--flow gold" in printed.single[1]
    assert printed.by_interval is None
