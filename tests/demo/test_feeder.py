"""The feeder derives its next input from the input so far."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from demo import clicks_feed, feeder, flights_feed

pytestmark = pytest.mark.slow

CORRECTION = "weather_2013-02-12_corrected.csv"
NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def test_a_week_lands_in_an_empty_landing_zone_and_then_one_day_per_call(tmp_path: Path) -> None:
    assert [landed.name for landed in feeder.land_flights(tmp_path)] == [
        f"flights_2013-01-0{day}.csv" for day in range(1, 8)
    ]
    assert [landed.name for landed in feeder.land_flights(tmp_path)] == ["flights_2013-01-08.csv"]


def test_a_removed_day_lands_again(tmp_path: Path) -> None:
    feeder.land_flights(tmp_path)
    (tmp_path / "flights/flights_2013-01-03.csv").unlink()
    assert [landed.name for landed in feeder.land_flights(tmp_path)] == ["flights_2013-01-03.csv"]


def test_the_weather_of_a_day_lands_after_the_flights_of_the_next_and_the_airlines_once(tmp_path: Path) -> None:
    assert feeder.land_weather(tmp_path) == []
    feeder.land_flights(tmp_path)
    assert [landed.name for landed in feeder.land_weather(tmp_path)] == [
        *(f"weather_2013-01-0{day}.csv" for day in range(1, 7)),
        "airlines.csv",
    ]
    feeder.land_flights(tmp_path)
    (landed,) = feeder.land_weather(tmp_path)
    assert (landed.name, landed.rows) == ("weather_2013-01-07.csv", 72), "three airports, 24 hours"
    assert feeder.land_weather(tmp_path) == []


def test_the_wrong_weather_is_corrected_some_days_later(tmp_path: Path) -> None:
    flights_feed.land_day(tmp_path, date(2013, 2, 12))
    for day, names in ((15, ["weather_2013-02-12.csv", "airlines.csv"]), (16, ["weather_2013-02-15.csv", CORRECTION])):
        flights_feed.land_day(tmp_path, date(2013, 2, day))
        assert [landed.name for landed in feeder.land_weather(tmp_path)] == names


def test_live_clicks_have_recent_times_and_unique_event_numbers() -> None:
    first, second = clicks_feed.live(0, NOW), clicks_feed.live(100, NOW)
    views = [json.loads(message.value) for message in [*first, *second] if message.what in ("view", "probe")]
    assert len({view["event_id"] for view in views}) == len(views) == 80
    assert {view["occurred_at"][:16] for view in views} == {"2026-05-04T11:59"}
    assert len(first) >= 40, "at least as many messages as events, so that their number can be the next event's"
