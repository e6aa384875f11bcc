"""A window is what people name: whole days, both included, where the pipeline's days begin."""

from __future__ import annotations

import datetime

import pendulum
import pytest

from tidegate.errors import RequestError
from tidegate.window import Window


def test_days_are_both_included() -> None:
    window = Window.of_dates("2026-03-01", "2026-03-07", "UTC")
    assert (window.start, window.end) == ("2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z")
    assert window.dates == (datetime.date(2026, 3, 1), datetime.date(2026, 3, 7))
    assert window.told() == "2026-03-01 to 2026-03-07"


def test_one_day_is_told_as_one() -> None:
    assert Window.of_dates("2026-03-01", "2026-03-01", "Europe/Berlin").told() == "2026-03-01"


def test_a_part_of_a_day_is_told_with_its_times() -> None:
    window = Window.of_interval(pendulum.datetime(2026, 3, 1, 10), pendulum.datetime(2026, 3, 1, 11), "UTC")
    assert window.told() == "2026-03-01T10:00:00Z up to 2026-03-01T11:00:00Z"
    assert window.dates == (datetime.date(2026, 3, 1), datetime.date(2026, 3, 1))


@pytest.mark.parametrize("day", ["2026-3-1", "2026-02-30", "", None, "2026-03-01T00:00:00Z", "20260301"])
def test_what_is_no_date_is_refused_with_an_example(day: object) -> None:
    with pytest.raises(RequestError, match="write it as YYYY-MM-DD"):
        Window.of_dates(day, "2026-03-01", "UTC")


def test_an_empty_interval_is_refused() -> None:
    moment = pendulum.datetime(2026, 3, 1)
    with pytest.raises(RequestError, match="is empty"):
        Window.of_interval(moment, moment, "UTC")
