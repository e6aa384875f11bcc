"""Which rows are late: a function of the batches of bronze, whatever batches the flow made of them; and when a heartbeat is due."""

from __future__ import annotations

import random

import pytest

from tidegate.times.lateness import Arrival, due_heartbeat, watermarks

SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000


def arrivals(*newest: int, every: int = 10) -> list[Arrival]:
    """Batches of bronze with these highest event times; the first has the version ``every``."""
    return [Arrival(version=(number + 1) * every, newest=each) for number, each in enumerate(newest)]


def test_the_watermark_of_a_batch_is_the_highest_event_time_of_earlier_batches_less_the_delay() -> None:
    marks = watermarks(arrivals(100 * SECOND, 70 * SECOND, 130 * SECOND, 120 * SECOND), 10)

    assert marks.before == {20: 90 * SECOND, 30: 90 * SECOND, 40: 120 * SECOND}, "the first batch has none"
    assert marks.after == 120 * SECOND


def test_batches_count_in_the_order_in_which_they_came_whatever_their_order_in_the_list() -> None:
    rows = arrivals(*(number * SECOND for number in (5, 90, 20, 40, 300)))
    shuffled = random.Random(14).sample(rows, len(rows))

    assert watermarks(shuffled, 10) == watermarks(rows, 10)


def test_rows_of_one_commit_do_not_move_each_others_watermark() -> None:
    marks = watermarks([Arrival(version=1, newest=50), Arrival(version=1, newest=90), Arrival(version=2, newest=10)], 0)

    assert (marks.before, marks.after) == ({2: 90}, 90)


@pytest.mark.parametrize("seed", range(20))
def test_the_watermark_does_not_depend_on_how_batches_of_bronze_are_divided_into_batches_of_the_flow(seed: int) -> None:
    source = random.Random(seed)
    rows = arrivals(*(source.randint(0, 1000) * SECOND for _ in range(12)))
    whole = watermarks(rows, 60)

    before: dict[int | None, int] = {}
    start, left = None, list(rows)
    while left:
        cut = source.randint(1, len(left))
        part = watermarks(left[:cut], 60, start)
        before |= {version: mark for version, mark in part.before.items() if version is not None}
        start, left = part.after, left[cut:]

    assert (before, start) == (whole.before, whole.after)


def test_the_watermark_does_not_go_back_when_the_delay_grows() -> None:
    marks = watermarks(arrivals(200 * SECOND, 210 * SECOND), 150, start=180 * SECOND)

    assert (set(marks.before.values()), marks.after) == ({180 * SECOND}, 180 * SECOND)


def test_without_rows_the_watermark_stays_as_it_was() -> None:
    assert watermarks([], 10, start=7).after == 7
    assert watermarks([], 10).after is None


@pytest.mark.parametrize(
    ("last_arrival", "watermark", "event_time"),
    [
        (9 * HOUR, 8 * HOUR, 9 * HOUR),
        (9 * HOUR, None, 9 * HOUR),
        (9 * HOUR + 1, 8 * HOUR, None),
        (None, None, None),
        (2 * HOUR, 9 * HOUR - 10 * MINUTE, None),
        (2 * HOUR, 9 * HOUR - 10 * MINUTE - 1, 9 * HOUR),
    ],
    ids=["idle", "no watermark yet", "not idle yet", "no rows ever", "would not move it", "moves it a little"],
)
def test_a_heartbeat_of_one_hour_ago_is_due_after_an_hour_without_rows(
    last_arrival: int | None, watermark: int | None, event_time: int | None
) -> None:
    beat = due_heartbeat(
        10 * HOUR, last_arrival=last_arrival, watermark=watermark, delay_seconds=600, idle_seconds=3600
    )

    assert beat == event_time


def test_a_row_that_takes_no_longer_than_idle_and_delay_is_not_late_by_a_heartbeat() -> None:
    beat = due_heartbeat(10 * HOUR, last_arrival=HOUR, watermark=None, delay_seconds=600, idle_seconds=3600)
    assert beat is not None

    marks = watermarks([Arrival(version=7, newest=beat, is_heartbeat=True), Arrival(version=8, newest=0)], 600)

    assert marks.before[8] == 10 * HOUR - HOUR - 10 * MINUTE


def test_a_heartbeat_comes_after_the_newest_commit_before_it_and_before_all_later_ones() -> None:
    beat = Arrival(version=7, newest=500, is_heartbeat=True)

    marks = watermarks([Arrival(version=8, newest=90), beat, Arrival(version=7, newest=50)], 0)

    assert (marks.before, marks.after) == ({8: 500}, 500)


def test_a_batch_whose_order_is_not_known_is_late_by_none_and_makes_none_late() -> None:
    marks = watermarks(
        [Arrival(version=None, newest=900), Arrival(version=1, newest=50), Arrival(version=2, newest=0)], 0
    )

    assert (marks.before, marks.after) == ({2: 50}, 900), "it is later than no row that follows"
    assert watermarks([Arrival(version=None, newest=9)], 0, start=7).before == {None: 7}
