"""The transforms of the flights pipeline on rows that a person can check."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import flights

pytestmark = pytest.mark.jvm

FLIGHT = {
    **{"year": "2013", "month": "1", "day": "1", "dep_time": "517", "sched_dep_time": "515", "dep_delay": "2"},
    **{"arr_time": "830", "sched_arr_time": "819", "arr_delay": "11", "carrier": "UA", "flight": "1545"},
    **{"tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": "227", "distance": "1400"},
    **{"time_hour": "2013-01-01T10:00:00Z", "published_on": "2013-01-02T11:00:00Z"},
}
Rows = Callable[..., DataFrame]


def clean(parsed: Rows, *changes: dict[str, Any]) -> list[dict[str, Any]]:
    made = flights.clean(parsed("flights", *({**FLIGHT, **change} for change in changes)))
    utc = made.selectExpr(
        "* EXCEPT (scheduled_at, departed_at)",
        "CAST(scheduled_at AS TIMESTAMP_NTZ) AS scheduled_at",
        "CAST(departed_at AS TIMESTAMP_NTZ) AS departed_at",
    )
    return [row.asDict() for row in utc.orderBy("_row_id").collect()]


def test_a_flight_is_known_by_its_hour_carrier_and_number(parsed: Rows) -> None:
    (row,) = clean(parsed, {})
    assert row["flight_id"] == "20130101T10Z-UA-1545"
    assert row["day"] == date(2013, 1, 1)
    assert row["cancelled"] is False


def test_new_yorks_clock_becomes_utc_in_winter_and_in_summer(parsed: Rows) -> None:
    winter, summer = clean(parsed, {}, {"month": "7"})
    assert winter["scheduled_at"] == datetime(2013, 1, 1, 10, 15)
    assert summer["scheduled_at"] == datetime(2013, 7, 1, 9, 15)


def test_a_late_evening_departure_belongs_to_new_yorks_day(parsed: Rows) -> None:
    (row,) = clean(parsed, {"sched_dep_time": "2359", "dep_delay": "3"})
    assert row["day"] == date(2013, 1, 1)
    assert row["scheduled_at"] == datetime(2013, 1, 2, 4, 59)
    assert row["departed_at"] == datetime(2013, 1, 2, 5, 2)


def test_a_flight_that_never_left_is_cancelled(parsed: Rows) -> None:
    (row,) = clean(parsed, {"dep_time": None, "dep_delay": None})
    assert row["cancelled"] is True
    assert row["departed_at"] is None


def test_a_time_that_no_clock_shows_is_null_and_never_an_exception(parsed: Rows) -> None:
    rows = clean(parsed, {"sched_dep_time": "2575"}, {"month": "13"}, {"sched_dep_time": "-5"}, {"year": None})
    assert [row["scheduled_at"] for row in rows] == [None] * 4
    assert [row["day"] for row in rows] == [date(2013, 1, 1), None, date(2013, 1, 1), None]


def test_every_row_comes_back_with_its_id_and_origin_also_one_of_nulls(parsed: Rows) -> None:
    rows = clean(parsed, {}, dict.fromkeys(FLIGHT))
    assert [row["_row_id"] for row in rows] == ["r0", "r1"]
    assert rows[1]["_origin"]["raw"] == "raw"
    assert rows[1]["flight_id"] is None


def test_ferry_flights_are_set_aside_by_name(parsed: Rows) -> None:
    ordinary, ferry = clean(parsed, {}, {"dest": "LGA"})
    assert ordinary["_filtered"] is None
    assert ferry["_filtered"] == "ferry_flight"


def test_fields_that_nobody_declared_are_kept_as_json(parsed: Rows) -> None:
    without, with_gate = clean(parsed, {}, {"_rescued": {"gate": "B12"}})
    assert without["rescued"] is None
    assert with_gate["rescued"] == '{"gate":"B12"}'


def statistics(spark: SparkSession, *delays: int | None) -> dict[str, Any]:
    rows = [(date(2013, 1, 1), "UA", delay is None, delay) for delay in delays]
    frame = spark.createDataFrame(rows, "day DATE, carrier STRING, cancelled BOOLEAN, dep_delay INT")
    (row,) = flights.daily_delay(frame).collect()
    found: dict[str, Any] = row.asDict()
    return found


def test_delays_are_those_of_flights_that_left(spark: SparkSession) -> None:
    found = statistics(spark, -5, 14, 15, 100, None)
    assert found == {
        **{"day": date(2013, 1, 1), "carrier": "UA", "flights": 5, "cancelled": 1, "late": 2},
        **{"mean_delay": 31.0, "p90_delay": 100, "max_delay": 100},
    }


def test_the_percentile_is_a_delay_that_occurred(spark: SparkSession) -> None:
    assert statistics(spark, *range(1, 11))["p90_delay"] == 9
    assert statistics(spark, *range(1, 12))["p90_delay"] == 10


def test_a_day_without_departures_has_no_delay(spark: SparkSession) -> None:
    found = statistics(spark, None, None)
    assert (found["flights"], found["cancelled"], found["late"]) == (2, 2, 0)
    assert found["mean_delay"] is found["p90_delay"] is found["max_delay"] is None
