"""How long a topic keeps what was not read, by how its beginning moved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.alerting import expiry
from tidegate.alerting.alerts import PlannedLag

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def plans(*begins: int | None, every: timedelta = HOUR) -> list[PlannedLag]:
    """At each the topic began there; None where the broker was away. The last is one interval ago."""
    count = len(begins)
    return [
        PlannedLag(at=NOW - (count - n) * every, behind=1, rows=1, begins={} if begin is None else {0: begin})
        for n, begin in enumerate(begins)
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
    ids=["steady", "broker-away", "jumps", "made-anew", "still", "one-jump", "no-plan", "gone"],
)
def test_it_is_told_by_the_rate_at_which_the_beginning_moved(
    before: tuple[int | None, ...], begin: int, hours: float | None
) -> None:
    left = expiry.time_left(plans(*before), {0: begin}, {0: 100}, NOW)
    assert left == (None if hours is None else hours * HOUR)


def test_the_partition_that_is_worst_counts_and_one_without_unread_messages_does_not() -> None:
    moved = [
        PlannedLag(at=NOW - n * HOUR, behind=1, rows=1, begins={0: 30 - 10 * n, 1: 30 - 10 * n}) for n in (3, 2, 1)
    ]

    def left(unread: Mapping[int, int]) -> timedelta | None:
        return expiry.time_left(moved, {0: 30, 1: 30}, unread, NOW)

    assert (left({0: 100, 1: 50}), left({0: 100}), left({})) == (2 * HOUR, 7 * HOUR, None)
    assert left({0: 100, 5: 50}) == 7 * HOUR, "a new partition has no past"


def test_only_the_last_days_tell_the_rate() -> None:
    old = plans(0, 1, 2, every=240 * HOUR)
    assert expiry.time_left([*old, *plans(3, 10, 20)], {0: 30}, {0: 57}, NOW) == 3 * HOUR
    assert expiry.time_left(old, {0: 30}, {0: 57}, NOW) is None, "one jump since the last plan"


@pytest.mark.parametrize(("seconds", "hours"), [(60.0, 1), (3600.0, 3), (86_400.0, 72), (None, 24)])
def test_the_limit_is_in_intervals_of_the_schedule(seconds: float | None, hours: int) -> None:
    assert expiry.limit(3, seconds) == hours * HOUR
