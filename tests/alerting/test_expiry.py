"""The estimated time until a topic deletes unread messages, from how its first offsets moved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.alerting import expiry
from tidegate.ops.plans import PlannedLag

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def plans(*offsets: int | None, every: timedelta = HOUR) -> list[PlannedLag]:
    """One plan per interval with these first offsets, None without a broker. The last one is one interval ago."""
    count = len(offsets)
    return [
        PlannedLag(
            at=NOW - (count - n) * every, behind=1, rows=1, first_offsets={} if offset is None else {"0": offset}
        )
        for n, offset in enumerate(offsets)
    ]


@pytest.mark.parametrize(
    ("before", "begin", "hours"),
    [
        ((0, 10, 20), 30, 7),
        ((0, None, 20), 30, 7),
        ((0, 0, 20, 20), 40, 6),
        ((900, 910, 0, 10), 20, 8),
        ((30, 30, 30), 30, None),
        ((0, 0, 0), 30, None),
        ((), 30, None),
        ((0, 10, 20), 100, 0),
    ],
    ids=["steady", "no-broker", "jumps", "recreated", "still", "one-jump", "no-plan", "already-deleted"],
)
def test_the_estimate_follows_the_rate_at_which_the_first_offset_moved(
    before: tuple[int | None, ...], begin: int, hours: float | None
) -> None:
    remaining = expiry.time_to_expiry(plans(*before), {"0": begin}, {"0": 100}, NOW)
    assert remaining == (None if hours is None else hours * HOUR)


@pytest.mark.parametrize(("kept", "hours"), [(2, 2), (9, 7), (-1, 0)], ids=["age-first", "rate-first", "due"])
def test_the_earlier_of_both_estimates_counts(kept: int, hours: int) -> None:
    assert expiry.time_to_expiry(plans(0, 10, 20), {"0": 30}, {"0": 100}, NOW, NOW + kept * HOUR) == hours * HOUR
    assert expiry.time_to_expiry([], {}, {"0": 100}, NOW, NOW + kept * HOUR) == max(kept, 0) * HOUR


def test_the_worst_partition_with_unread_messages_counts() -> None:
    moved = [
        PlannedLag(at=NOW - n * HOUR, behind=1, rows=1, first_offsets={"0": 30 - 10 * n, "1": 30 - 10 * n})
        for n in (3, 2, 1)
    ]

    def remaining(unread: Mapping[str, int]) -> timedelta | None:
        return expiry.time_to_expiry(moved, {"0": 30, "1": 30}, unread, NOW)

    assert (remaining({"0": 100, "1": 50}), remaining({"0": 100}), remaining({})) == (2 * HOUR, 7 * HOUR, None)
    assert remaining({"0": 100, "5": 50}) == 7 * HOUR, "a new partition has no history"


def test_only_the_last_seven_days_give_the_rate() -> None:
    old = plans(0, 1, 2, every=240 * HOUR)
    assert expiry.time_to_expiry([*old, *plans(3, 10, 20)], {"0": 30}, {"0": 57}, NOW) == 3 * HOUR
    assert expiry.time_to_expiry(old, {"0": 30}, {"0": 57}, NOW) is None, "one jump since the last plan"


@pytest.mark.parametrize(("seconds", "hours"), [(60.0, 1), (3600.0, 3), (86_400.0, 72), (None, 24)])
def test_the_limit_is_in_intervals_of_the_schedule(seconds: float | None, hours: int) -> None:
    assert expiry.limit(3, seconds) == hours * HOUR
