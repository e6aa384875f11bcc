"""The transforms of the flights pipeline on a few rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from tidegate.testing import transform_rows

pytestmark = [pytest.mark.jvm, pytest.mark.usefixtures("spark")]

FLIGHT = {
    **{"year": "2013", "month": "1", "day": "1", "dep_time": "517", "sched_dep_time": "515", "dep_delay": "2"},
    **{"arr_time": "830", "sched_arr_time": "819", "arr_delay": "11", "carrier": "UA", "flight": "1545"},
    **{"tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": "227", "distance": "1400"},
    **{"time_hour": "2013-01-01T10:00:00Z", "published_on": "2013-01-02T11:00:00Z"},
}
CHANGES: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "in summer": {"month": "7"},
    "late in the evening": {"sched_dep_time": "2359", "dep_delay": "3"},
    "cancelled": {"dep_time": None, "dep_delay": None},
    "at 25:75": {"sched_dep_time": "2575"},
    "in month 13": {"month": "13"},
    "at a negative time": {"sched_dep_time": "-5"},
    "of no year": {"year": None},
    "of nulls": dict.fromkeys(FLIGHT),
    "ferry": {"dest": "LGA"},
    "with an unknown field": {"gate": "B12"},
}
DELAYS: dict[str, tuple[int | None, ...]] = {
    "mixed": (-5, 14, 15, 100, None),
    "one to ten": tuple(range(1, 11)),
    "one to eleven": tuple(range(1, 12)),
    "all cancelled": (None, None),
}
"""Departure delays of the flights of a day, None for a cancelled one."""
Cleaned = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def cleaned() -> Cleaned:
    """The output of the transform for a flight with each of `CHANGES`, by name."""
    rows = transform_rows("flights", "silver", *({**FLIGHT, **change} for change in CHANGES.values()))
    return dict(zip(CHANGES, rows, strict=True))


def test_the_id_of_a_flight_has_hour_carrier_and_number(cleaned: Cleaned) -> None:
    row = cleaned["ordinary"]
    assert row["flight_id"] == "20130101T10Z-UA-1545"
    assert row["day"] == date(2013, 1, 1)
    assert row["cancelled"] is False


def test_new_york_time_is_converted_to_utc_in_winter_and_summer(cleaned: Cleaned) -> None:
    assert cleaned["ordinary"]["scheduled_at"] == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)
    assert cleaned["in summer"]["scheduled_at"] == datetime(2013, 7, 1, 9, 15, tzinfo=UTC)


def test_a_late_evening_departure_belongs_to_new_yorks_day(cleaned: Cleaned) -> None:
    row = cleaned["late in the evening"]
    assert row["day"] == date(2013, 1, 1)
    assert row["scheduled_at"] == datetime(2013, 1, 2, 4, 59, tzinfo=UTC)
    assert row["departed_at"] == datetime(2013, 1, 2, 5, 2, tzinfo=UTC)


def test_a_flight_without_departure_time_is_cancelled(cleaned: Cleaned) -> None:
    row = cleaned["cancelled"]
    assert row["cancelled"] is True
    assert row["departed_at"] is None


def test_an_invalid_time_is_null_and_not_an_exception(cleaned: Cleaned) -> None:
    rows = [cleaned[name] for name in ("at 25:75", "in month 13", "at a negative time", "of no year")]
    assert [row["scheduled_at"] for row in rows] == [None] * 4
    assert [row["day"] for row in rows] == [date(2013, 1, 1), None, date(2013, 1, 1), None]


def test_every_row_keeps_its_id(cleaned: Cleaned) -> None:
    assert [row["_row_id"] for row in cleaned.values()] == [f"r{number}" for number in range(len(CHANGES))]
    assert cleaned["of nulls"]["flight_id"] is None


def test_ferry_flights_are_filtered(cleaned: Cleaned) -> None:
    assert cleaned["ordinary"]["_filtered"] is None
    assert cleaned["ferry"]["_filtered"] == "ferry_flight"


def test_undeclared_fields_are_in_rescued_as_json(cleaned: Cleaned) -> None:
    assert cleaned["ordinary"]["rescued"] is None
    assert cleaned["with an unknown field"]["rescued"] == '{"gate":"B12"}'


@pytest.fixture(scope="module")
def statistics() -> dict[str, dict[str, Any]]:
    """The daily statistics of `DELAYS`, whose names are used as carriers."""
    flights = [
        {"day": date(2013, 1, 1), "carrier": name, "cancelled": delay is None, "dep_delay": delay}
        for name, delays in DELAYS.items()
        for delay in delays
    ]
    return {row["carrier"]: row for row in transform_rows("flights", "gold", *flights)}


def test_delays_are_those_of_departed_flights(statistics: dict[str, dict[str, Any]]) -> None:
    assert statistics["mixed"] == {
        **{"day": date(2013, 1, 1), "carrier": "mixed", "flights": 5, "cancelled": 1, "late": 2},
        **{"mean_delay": 31.0, "p90_delay": 100, "max_delay": 100},
    }


def test_the_percentile_is_a_delay_that_occurred(statistics: dict[str, dict[str, Any]]) -> None:
    assert statistics["one to ten"]["p90_delay"] == 9
    assert statistics["one to eleven"]["p90_delay"] == 10


def test_a_day_without_departures_has_no_delay(statistics: dict[str, dict[str, Any]]) -> None:
    row = statistics["all cancelled"]
    assert (row["flights"], row["cancelled"], row["late"]) == (2, 2, 0)
    assert row["mean_delay"] is row["p90_delay"] is row["max_delay"] is None
