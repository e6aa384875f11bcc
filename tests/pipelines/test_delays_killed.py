"""Increments of the delays pipeline, which joins three tables, that are killed at random moments."""

from datetime import timedelta

import pytest

from demo import flights_feed, weather_feed
from tidegate.testing import Lake, kill_at_random

pytestmark = [pytest.mark.jvm, pytest.mark.chaos, pytest.mark.nightly, pytest.mark.usefixtures("spark")]


def a_day_with_a_wrong_wind(lake: Lake) -> None:
    landing = lake.environment.landing
    flights_feed.land_day(landing, weather_feed.WRONG_DAY)
    weather_feed.land_first(landing, weather_feed.WRONG_DAY, weather_feed.WRONG_DAY)


def the_next_day_and_the_correction(lake: Lake) -> None:
    landing, day = lake.environment.landing, weather_feed.WRONG_DAY + timedelta(days=1)
    flights_feed.land_day(landing, day)
    weather_feed.land_day(landing, day)
    weather_feed.land_correction(landing)


def test_no_group_misses_a_change_of_a_joined_table(lake: Lake) -> None:
    steps = (a_day_with_a_wrong_wind, the_next_day_and_the_correction)
    assert kill_at_random(lake, "delays", *steps, follows=("flights",), seed=3, kills=2)
