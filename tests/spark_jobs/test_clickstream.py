"""The transforms of the clickstream pipeline on a few rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_jobs import clickstream
from tidegate.testing import transform_rows

pytestmark = [pytest.mark.jvm, pytest.mark.usefixtures("spark")]

VIEW = {
    **{"event_id": "e1", "sequence": "1", "kind": "view", "occurred_at": "2026-03-02T08:59:59.5Z", "user_id": "u1"},
    **{"page": "/Boats?ref=mail", "duration_ms": "1500", "agent": "firefox"},
}
NULLS = dict.fromkeys(VIEW)
EVENTS: dict[str, dict[str, Any]] = {
    "view": VIEW,
    "deletion": {**NULLS, "event_id": "e1", "sequence": "2", "kind": "delete"},
    "probe": {**VIEW, "agent": clickstream.PROBE},
    "nulls": NULLS,
}


@pytest.fixture(scope="module")
def cleaned() -> dict[str, dict[str, Any]]:
    """The output of the transform for each of `EVENTS`, by name."""
    return dict(zip(EVENTS, transform_rows("clickstream", "silver", *EVENTS.values()), strict=True))


def test_a_view_has_its_time_page_without_query_and_seconds(cleaned: dict[str, dict[str, Any]]) -> None:
    row = cleaned["view"]
    assert row["occurred_at"] == datetime(2026, 3, 2, 8, 59, 59, 500_000, tzinfo=UTC)
    assert (row["page"], row["seconds"], row["_deleted"], row["_filtered"]) == ("/boats", 1.5, False, None)


def test_a_deletion_is_marked_and_needs_only_its_id(cleaned: dict[str, dict[str, Any]]) -> None:
    row = cleaned["deletion"]
    assert row["_deleted"] is True
    assert (row["event_id"], row["sequence"], row["page"]) == ("e1", 2, None)


def test_requests_of_the_availability_check_are_filtered(cleaned: dict[str, dict[str, Any]]) -> None:
    assert cleaned["probe"]["_filtered"] == "uptime_probe"


def test_a_row_of_nulls_keeps_its_id_and_is_no_deletion(cleaned: dict[str, dict[str, Any]]) -> None:
    row = cleaned["nulls"]
    assert (row["_row_id"], row["_deleted"]) == ("r3", False)


def test_views_and_distinct_users_are_counted_per_page_and_hour() -> None:
    hour, next_hour = datetime(2026, 3, 2, 8, tzinfo=UTC), datetime(2026, 3, 2, 9, tzinfo=UTC)
    last = next_hour - timedelta(microseconds=1)
    views = [(hour, "u1", 1.0), (last, "u1", 9.0), (hour, "u2", None), (next_hour, "u1", None)]
    rows = [{"page": "/a", "occurred_at": at, "user_id": user, "seconds": seconds} for at, user, seconds in views]
    counts = {row["window_start"]: row for row in transform_rows("clickstream", "gold", *rows)}
    assert [[counts[at][name] for name in ("page", "views", "users", "longest_stay")] for at in (hour, next_hour)] == [
        ["/a", 3, 2, 9.0],
        ["/a", 1, 1, None],
    ]


def test_views_of_a_user_with_at_most_half_an_hour_between_them_are_a_session() -> None:
    start = datetime(2026, 3, 2, 8, tzinfo=UTC)
    minutes = {"u1": (0, 30, 60.25, 65), "u2": (10,)}
    views = [
        {"user_id": user, "occurred_at": start + timedelta(minutes=minute)}
        for user, times in minutes.items()
        for minute in times
    ]
    made = transform_rows("clickstream", "sessions", *views)
    columns = ("user_id", "started_at", "ended_at", "pages", "seconds", "bounce")
    assert sorted(tuple(row[name] for name in columns) for row in made) == [
        ("u1", start, start + timedelta(minutes=30), 2, 1800.0, False),
        ("u1", start + timedelta(minutes=60.25), start + timedelta(minutes=65), 2, 285.0, False),
        ("u2", start + timedelta(minutes=10), start + timedelta(minutes=10), 1, 0.0, True),
    ]
