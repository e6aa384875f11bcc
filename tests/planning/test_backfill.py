"""The printed commands start what they say: a backfill makes the runs that Airflow's own timetable cuts."""

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


def asked(pipeline: Pipeline, first: str, last: str, **more: object) -> RunRequest:
    return RunRequest.check(pipeline, "r", {"mode": "replay", "from_date": first, "to_date": last, **more})


def by_airflow(
    schedule: str, timezone: str, first: pendulum.DateTime, last: pendulum.DateTime
) -> list[tuple[float, float]]:
    """What Airflow makes of two instants (``SerializedDAG.iter_dagrun_infos_between``)."""
    timetable = CronDataIntervalTimetable(schedule, timezone)
    restriction = TimeRestriction(first, last, catchup=True)
    found, interval = [], None
    while True:
        info = timetable.next_dagrun_info(last_automated_data_interval=interval, restriction=restriction)
        if info is None:
            return found
        interval = info.data_interval
        found.append((interval.start.timestamp(), interval.end.timestamp()))


CHANGES = {
    "UTC": ("2026-03-29",),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Europe/Paris": ("2026-03-29", "2026-10-25"),
    "Asia/Kolkata": ("2026-03-29",),
}
"""Days on which the clocks change there, or some day where they never do."""


def expect_the_intervals_of_airflow(schedule: str, timezone: str, first: str, last: str) -> None:
    window = Window.of_dates(first, last, timezone)
    ours = [(start.timestamp(), end.timestamp()) for start, end in intervals(schedule, timezone, window, LATER)]
    assert ours == by_airflow(schedule, timezone, window.first, window.behind.subtract(seconds=1))
    assert ours


@pytest.mark.parametrize("timezone", CHANGES)
@pytest.mark.parametrize("schedule", ["@daily", "@weekly", "@monthly", "30 1 * * *", "30 2 * * 1-5", "0 */6 * * *"])
def test_intervals_are_counted_as_airflow_cuts_them_also_where_the_clocks_change(schedule: str, timezone: str) -> None:
    for first, last in (("2026-02-28", "2026-03-10"), ("2026-10-23", "2026-11-03"), ("2026-03-27", "2026-04-07")):
        expect_the_intervals_of_airflow(schedule, timezone, first, last)


@pytest.mark.parametrize(("timezone", "day"), [(timezone, day) for timezone, days in CHANGES.items() for day in days])
@pytest.mark.parametrize("schedule", ["@hourly", "*/20 * * * *"])
def test_short_intervals_are_counted_as_airflow_cuts_them_on_the_day_on_which_the_clocks_change(
    schedule: str, timezone: str, day: str
) -> None:
    expect_the_intervals_of_airflow(schedule, timezone, day, day)


@pytest.mark.parametrize(
    ("schedule", "timezone", "runs"),
    [("@daily", "UTC", 3), ("@daily", "America/New_York", 3), ("@daily", "Europe/Paris", 3), ("@hourly", "UTC", 72)],
)
def test_the_printed_instants_make_every_interval_of_the_window(schedule: str, timezone: str, runs: int) -> None:
    pipeline = dataclasses.replace(FLIGHTS, schedule=schedule, timezone=timezone)
    request = asked(pipeline, "2026-03-06", "2026-03-08")
    told = commands(pipeline, request, LATER)
    assert told.by_interval is not None
    words = shlex.split(told.by_interval)
    first, last = (pendulum.parse(words[words.index(option) + 1]) for option in ("--from-date", "--to-date"))
    assert isinstance(first, pendulum.DateTime)
    assert isinstance(last, pendulum.DateTime)
    made = by_airflow(schedule, timezone, first, last)
    assert len(made) == told.runs == runs
    assert request.window is not None
    assert (made[0][0], made[-1][1]) == (request.window.first.timestamp(), request.window.behind.timestamp())
    assert told.note == ""
    assert words[-4:] == ["--reprocess-behavior", "completed", "--max-active-runs", "1"]
    assert any(f"in {runs} runs" in line for line in told.lines())


def test_of_very_many_runs_one_for_all_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = dataclasses.replace(FLIGHTS, schedule="*/15 * * * *")
    told = commands(pipeline, asked(pipeline, "2026-03-06", "2026-03-07"), LATER)
    assert (told.by_interval, told.runs) == (None, 192)
    assert "would make 192 runs" in told.note
    monkeypatch.setattr(backfill, "_COUNTED", 190)  # else counting them takes seconds
    endless = commands(pipeline, asked(pipeline, "2025-01-01", "2025-12-31"), LATER)
    assert endless.runs == 191
    assert "more than 190 runs" in endless.note


def test_a_window_in_which_no_interval_begins_or_is_over_has_no_backfill() -> None:
    weekly = dataclasses.replace(FLIGHTS, schedule="@weekly")
    told = commands(weekly, asked(weekly, "2026-03-03", "2026-03-05"), LATER)
    assert (told.by_interval, told.runs) == (None, 0)
    assert "would make no run" in told.note
    daily = dataclasses.replace(FLIGHTS, schedule="@daily")
    today = commands(daily, asked(daily, "2026-03-03", "2026-03-05"), pendulum.datetime(2026, 3, 5, 12))
    assert today.runs == 2
    assert "up to 2026-03-05T00:00:00+00:00, which is not the whole window" in today.note


@pytest.mark.parametrize("schedule", [None, AfterTables("silver.clicks")])
def test_without_a_cron_schedule_no_backfill_is_printed_because_airflow_refuses_it(
    schedule: AfterTables | None,
) -> None:
    pipeline = dataclasses.replace(FLIGHTS, schedule=schedule)
    told = commands(pipeline, asked(pipeline, "2026-03-03", "2026-03-05"), LATER)
    assert (told.by_interval, told.runs, told.note) == (None, None, "")
    assert len(told.single) == 2


def test_an_increment_is_started_without_a_conf_and_flows_are_named_where_they_were() -> None:
    assert commands(FLIGHTS, RunRequest.check(FLIGHTS, "r", {})).single == (
        "airflow dags trigger flights",
        "tidegate run flights",
    )
    told = commands(FLIGHTS, asked(FLIGHTS, "2013-01-01", "2013-01-02", flows=["gold"]))
    assert '"flows": ["gold"]' in told.single[0]
    assert "--flow gold" in told.single[1]
    assert told.by_interval is None
