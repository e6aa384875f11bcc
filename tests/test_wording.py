"""Numbers as people read them."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from tidegate import wording


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1_204, "1,204 files"), (-1, "-1 files")]
)
def test_a_number_of_things_is_one_or_many(number: int, told: str) -> None:
    assert wording.count(number, "file") == told


def test_many_may_have_a_word_of_their_own() -> None:
    assert [wording.count(number, "entry is", "entries are") for number in (1, 2)] == ["1 entry is", "2 entries are"]


@pytest.mark.parametrize(
    ("number", "told"),
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
def test_bytes_are_told_in_the_largest_unit_that_keeps_a_digit_before_the_point(number: int, told: str) -> None:
    assert wording.size(number) == told


def test_an_estimate_is_marked() -> None:
    assert (wording.marked("5", exact=True), wording.marked("5", exact=False)) == ("5", "~5")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-60, "0 s ago"), (59, "59 s ago"), (60, "1 min ago"), (7_300, "2 h ago"), (190_000, "2 d ago")],
)
def test_an_age_is_told_in_its_largest_unit(seconds: int, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)
    assert wording.age((1_800_000_000 - seconds) * 1000) == told


@pytest.mark.parametrize(
    ("length", "told"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=61), "1 min 1 s"),
        (timedelta(hours=1), "1 h"),
        (timedelta(days=3, hours=4, minutes=59), "3 d 4 h"),
    ],
)
def test_a_length_of_time_is_told_in_its_two_largest_units(length: timedelta, told: str) -> None:
    assert wording.span(length) == told


@pytest.mark.parametrize(
    ("mode", "by", "told"),
    [
        (None, "ada", ""),
        ("incremental", "ada", ""),
        ("full_refresh", "ada", "full refresh by ada"),
        ("quarantine", None, "replay"),
        ("replay", "", "replay"),
    ],
)
def test_only_what_is_no_ordinary_increment_was_asked_for_by_somebody(
    mode: str | None, by: str | None, told: str
) -> None:
    assert wording.asked(mode, by) == told
