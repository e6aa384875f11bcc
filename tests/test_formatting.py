"""Numbers, sizes, ages and durations as text."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from tidegate import formatting


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1_204, "1,204 files"), (-1, "-1 files")]
)
def test_a_count_uses_the_singular_or_the_plural(number: int, text: str) -> None:
    assert formatting.count(number, "file") == text


def test_a_plural_can_be_irregular() -> None:
    assert [formatting.count(number, "entry is", "entries are") for number in (1, 2)] == ["1 entry is", "2 entries are"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (10**15, "1.0 PB"),
        (10**19, "10000.0 PB"),
    ],
)
def test_a_size_has_the_largest_unit_with_a_digit_before_the_decimal_point(number: int, text: str) -> None:
    assert formatting.size(number) == text


def test_an_estimate_has_a_tilde() -> None:
    assert (formatting.approximate("5", exact=True), formatting.approximate("5", exact=False)) == ("5", "~5")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-60, "0 s ago"), (59, "59 s ago"), (60, "1 min ago"), (7_300, "2 h ago"), (190_000, "2 d ago")],
)
def test_an_age_has_its_largest_unit(seconds: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)
    assert formatting.age((1_800_000_000 - seconds) * 1000) == text


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=61), "1 min 1 s"),
        (timedelta(hours=1), "1 h"),
        (timedelta(days=3, hours=4, minutes=59), "3 d 4 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(length: timedelta, text: str) -> None:
    assert formatting.span(length) == text


@pytest.mark.parametrize(
    ("mode", "by", "text"),
    [
        (None, "ada", ""),
        ("incremental", "ada", ""),
        ("full_refresh", "ada", "full refresh by ada"),
        ("replay", None, "replay"),
        ("backfill", "", "backfill"),
    ],
)
def test_an_ordinary_increment_has_no_request_label(mode: str | None, by: str | None, text: str) -> None:
    assert formatting.request_label(mode, by) == text
