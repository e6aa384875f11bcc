"""Which days and hours of a topic are complete. `tests/spark/test_topics.py` reads them from a broker."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tidegate.spec import TopicIntervals
from tidegate.status import topic_intervals
from tidegate.status.completeness import Completeness

FIRST = datetime(2026, 1, 1, 23, 59, tzinfo=UTC)
NEVER = datetime.fromtimestamp(0, UTC)


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 1, day, hour, tzinfo=UTC)


def states(*unread: datetime, now: datetime, zone: str = "UTC", first: datetime = FIRST, **rule: Any) -> dict[str, str]:
    declared = TopicIntervals(**{"quiet_hours": 6, **rule})
    result = topic_intervals.states(declared, ZoneInfo(zone), first, unread, now)
    return {each.name: each.state + (f": {each.why}" if each.why else "") for each in result}


@pytest.mark.parametrize(
    ("unread", "now", "second"),
    [
        ((), at(3, 5), "incomplete: quiet from 2026-01-03 06:00 UTC on"),
        ((), at(3, 6), "complete"),
        ((at(3, 6), at(3, 7)), at(3, 7), "complete"),
        ((at(3, 5), at(3, 7)), at(3, 7), "not read: 1 partition to read"),
        ((at(2, 6), at(2, 23), at(3, 6)), at(3, 7), "not read: 2 partitions to read"),
    ],
    ids=["quiet hours", "all is read", "all of it is read", "what is next may be late", "a part is read"],
)
def test_a_day_is_complete_when_every_partition_is_read_past_its_quiet_hours(
    unread: tuple[datetime, ...], now: datetime, second: str
) -> None:
    assert states(*unread, now=now) == {
        "2026-01-01": "complete",
        "2026-01-02": second,
        "2026-01-03": "incomplete: quiet from 2026-01-04 06:00 UTC on",
    }


def test_a_partition_that_does_not_say_what_is_next_holds_every_day_back() -> None:
    assert states(NEVER, now=at(2, 12)) == {
        "2026-01-01": "not read: 1 partition to read",
        "2026-01-02": "incomplete: quiet from 2026-01-03 06:00 UTC on",
    }


def test_hours_are_those_of_the_zone_when_clocks_change() -> None:
    first, now = datetime(2025, 10, 25, 23, 30, tzinfo=UTC), datetime(2025, 10, 26, 1, 30, tzinfo=UTC)
    repeated = states(first=first, now=now, zone="Europe/Berlin", unit="hour", quiet_hours=0.25)
    assert repeated == {
        "2025-10-26T01": "complete",
        "2025-10-26T02": "incomplete: quiet from 2025-10-26 02:15 UTC on",
    }
    skipped = datetime(2025, 3, 30, 0, 30, tzinfo=UTC), datetime(2025, 3, 30, 1, 30, tzinfo=UTC)
    names = states(first=skipped[0], now=skipped[1], zone="Europe/Berlin", unit="hour")
    assert list(names) == ["2025-03-30T01", "2025-03-30T03"]


def test_a_message_of_a_wrong_year_adds_no_more_than_a_thousand_days() -> None:
    days = states(first=datetime(1971, 1, 1, tzinfo=UTC), now=at(3))
    assert (len(days), list(days)[-1]) == (1000, "2026-01-03")


def test_an_hour_that_has_messages_is_listed_however_late_it_completes() -> None:
    """The flow was off for two months, and reads what came before and since."""
    now, old = datetime(2026, 3, 10, tzinfo=UTC), at(5, 7)
    spans = [
        (old.replace(minute=10), at(5, 8).replace(minute=5)),
        (NEVER, at(1, 23).replace(minute=59)),
        (now, at(1).replace(year=2099)),
    ]
    declared = TopicIntervals(unit="hour", quiet_hours=1)
    behind = [datetime(2026, 1, 5, 8, 30, tzinfo=UTC)]
    late, complete = (
        {
            each.name: each.state
            for each in topic_intervals.states(declared, ZoneInfo("UTC"), FIRST, unread, now, spans=spans)
        }
        for unread in (behind, [])
    )

    hours = ("2026-01-01T23", "2026-01-05T07", "2026-01-05T08")
    assert [late[hour] for hour in hours] == ["complete", "not read", "not read"]
    assert [complete[hour] for hour in hours] == ["complete"] * 3
    assert list(complete) == sorted(complete)
    assert len(complete) <= 2002, "a file with a message of a wrong year adds no more than a thousand"


def test_a_topic_whose_messages_are_all_in_the_future_has_no_day() -> None:
    assert Completeness(unit="day", intervals=()).complete == ()
    assert states(first=at(9), now=at(3)) == {}
