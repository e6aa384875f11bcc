"""The interval of a pipeline's schedule."""

from __future__ import annotations

import dataclasses
from typing import Any

import pendulum
import pytest

from tests.cli.project import orders
from tidegate.errors import SpecError
from tidegate.spec import AfterTables, ChangeFeed, FileSource, Flow, Intervals, Pipeline, Table
from tidegate.status.interval import interval_of

NOW = pendulum.datetime(2026, 3, 2, 12)


def follower(name: str, *tables: str) -> Pipeline:
    flow = Flow(
        name="silver",
        source=ChangeFeed(tables[0]),
        transform=f"{name}:clean",
        target=Table(f"silver.{name}", keys=("id",), sequence_by=("at",)),
    )
    return Pipeline(name=name, schedule=AfterTables(*tables), flows=(flow,))


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [("@hourly", 3600.0), ("*/15 * * * *", 900.0), ("0 9 * * 1-5", 3 * 86_400.0), (None, None)],
)
def test_an_interval_is_the_longest_between_two_runs(schedule: Any, seconds: float | None) -> None:
    assert interval_of(dataclasses.replace(orders(), schedule=schedule), NOW) == seconds


@pytest.mark.parametrize(
    ("schedule", "now", "hours"),
    [
        ("@hourly", pendulum.datetime(2026, 3, 28, 22), 1),
        ("@hourly", pendulum.datetime(2026, 10, 24, 22), 1),
        ("@daily", pendulum.datetime(2026, 10, 24, 10), 25),
    ],
    ids=["an hour is skipped", "an hour is repeated", "a day of 25 hours"],
)
def test_an_interval_is_the_time_that_passes_also_when_clocks_change(
    schedule: str, now: pendulum.DateTime, hours: int
) -> None:
    pipeline = dataclasses.replace(orders(), schedule=schedule, timezone="Europe/Paris")
    assert interval_of(pipeline, now) == hours * 3600


def test_a_pipeline_that_follows_tables_has_the_longest_interval_of_their_writers() -> None:
    hourly = dataclasses.replace(orders(), schedule="@hourly")
    daily = dataclasses.replace(orders(topic="clicks"), schedule="@daily")
    one, both = follower("one", "gold.orders"), follower("both", "silver.one", "gold.clicks")
    declared = {each.name: each for each in (hourly, daily, one, both)} | {"broken": SpecError("line 3")}
    assert interval_of(one, NOW, declared) == 3600.0
    assert interval_of(both, NOW, declared) == 86_400.0
    assert interval_of(one, NOW) is None


@pytest.mark.parametrize(("path", "seconds"), [("%Y-%m-%d", 86_400.0), ("%Y-%m-%dT%H", 3600.0)])
def test_a_pipeline_that_waits_for_complete_intervals_has_at_least_their_length(path: str, seconds: float) -> None:
    bronze = Flow(
        name="bronze",
        source=FileSource(path="trips", format="csv", schema="id INT", intervals=Intervals(path, files=1)),
        target=Table("bronze.trips"),
    )
    trips = Pipeline(name="trips", schedule="*/10 * * * *", flows=(bronze,))
    report = dataclasses.replace(
        follower("report", "bronze.trips"), schedule=AfterTables("bronze.trips", intervals=True)
    )

    assert interval_of(report, NOW, {"trips": trips, "report": report}) == seconds


def test_pipelines_that_follow_each_other_have_no_interval() -> None:
    one, two = follower("one", "silver.two"), follower("two", "silver.one")
    assert interval_of(one, NOW, {"one": one, "two": two}) is None
