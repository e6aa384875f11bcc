"""Increments of the flights pipeline that are killed at random moments."""

from datetime import date

import pytest

from demo import flights_feed
from tidegate.testing import Lake, kill_at_random

pytestmark = [pytest.mark.jvm, pytest.mark.chaos, pytest.mark.nightly, pytest.mark.usefixtures("spark")]


def a_day(lake: Lake) -> None:
    flights_feed.land_day(lake.environment.landing, date(2013, 3, 1))


def another_and_broken_files(lake: Lake) -> None:
    flights_feed.wave_two(lake.environment.landing)


def test_no_row_is_lost_or_there_twice(lake: Lake) -> None:
    assert kill_at_random(lake, "flights", a_day, another_and_broken_files, seed=7, kills=1)
