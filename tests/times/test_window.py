"""Windows: whole days in the pipeline's time zone, or an interval."""

from __future__ import annotations

import datetime

import pendulum
import pytest

from tidegate.errors import RequestError
from tidegate.times.window import Window


def test_both_days_are_included() -> None:
    window = Window.of_dates("2026-03-01", "2026-03-07", "UTC")
    assert (window.start, window.end) == ("2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z")
    assert window.dates == (datetime.date(2026, 3, 1), datetime.date(2026, 3, 7))
    assert window.summary() == "2026-03-01 to 2026-03-07"


def test_the_summary_of_one_day_is_the_day() -> None:
    assert Window.of_dates("2026-03-01", "2026-03-01", "Europe/Berlin").summary() == "2026-03-01"


def test_the_summary_of_part_of_a_day_has_its_instants() -> None:
    window = Window.of_interval(pendulum.datetime(2026, 3, 1, 10), pendulum.datetime(2026, 3, 1, 11), "UTC")
    assert window.summary() == "2026-03-01T10:00:00Z up to 2026-03-01T11:00:00Z"
    assert window.dates == (datetime.date(2026, 3, 1), datetime.date(2026, 3, 1))


@pytest.mark.parametrize("day", ["2026-3-1", "2026-02-30", "", None, "2026-03-01T00:00:00Z", "20260301"])
def test_an_invalid_date_is_refused_with_the_format(day: object) -> None:
    with pytest.raises(RequestError, match="write it as YYYY-MM-DD"):
        Window.of_dates(day, "2026-03-01", "UTC")


def test_an_empty_interval_is_refused() -> None:
    moment = pendulum.datetime(2026, 3, 1)
    with pytest.raises(RequestError, match="is empty"):
        Window.of_interval(moment, moment, "UTC")
