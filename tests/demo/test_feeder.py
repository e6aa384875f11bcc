"""The feeder derives its next input from the input so far."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from demo import clicks_feed, feeder

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


def test_live_clicks_have_recent_times_and_unique_event_numbers() -> None:
    first, second = clicks_feed.live(0, NOW), clicks_feed.live(100, NOW)
    views = [json.loads(message.value) for message in [*first, *second] if message.what in ("view", "probe")]
    assert len({view["event_id"] for view in views}) == len(views) == 80
    assert {view["occurred_at"][:16] for view in views} == {"2026-05-04T11:59"}
    assert len(first) >= 40, "at least as many messages as events, so that their number can be the next event's"
