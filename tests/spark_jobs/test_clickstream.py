"""The transforms of the clickstream pipeline on a few rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import clickstream

pytestmark = pytest.mark.jvm

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
Rows = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def cleaned(parsed: Rows) -> dict[str, dict[str, Any]]:
    """The output of the transform for each of `EVENTS`, by name."""
    output = clickstream.clean(parsed("clickstream", *EVENTS.values()))
    utc = output.selectExpr("* EXCEPT (hour)", "CAST(hour AS TIMESTAMP_NTZ) AS hour")
    rows = utc.orderBy("_row_id").collect()
    return {name: row.asDict() for name, row in zip(EVENTS, rows, strict=True)}


def test_a_view_has_hour_page_without_query_and_seconds(cleaned: dict[str, dict[str, Any]]) -> None:
    row = cleaned["view"]
    assert row["hour"] == datetime(2026, 3, 2, 8)
    assert (row["page"], row["seconds"], row["_deleted"], row["_filtered"]) == ("/boats", 1.5, False, None)


def test_a_deletion_is_marked_and_needs_only_its_id(cleaned: dict[str, dict[str, Any]]) -> None:
    row = cleaned["deletion"]
    assert row["_deleted"] is True
    assert (row["event_id"], row["sequence"], row["page"]) == ("e1", 2, None)


def test_requests_of_the_availability_check_are_filtered(cleaned: dict[str, dict[str, Any]]) -> None:
    assert cleaned["probe"]["_filtered"] == "uptime_probe"


def test_a_row_of_nulls_keeps_its_id_and_is_no_deletion(cleaned: dict[str, dict[str, Any]]) -> None:
    row = cleaned["nulls"]
    assert (row["_row_id"], row["_origin"]["raw"], row["_deleted"]) == ("r3", "raw", False)


def test_views_and_distinct_users_are_counted_per_page_and_hour(spark: SparkSession) -> None:
    hour, next_hour = datetime(2026, 3, 2, 8), datetime(2026, 3, 2, 9)
    rows = [("/a", hour, "u1", 1.0), ("/a", hour, "u1", 9.0), ("/a", hour, "u2", None), ("/a", next_hour, "u1", None)]
    frame = spark.createDataFrame(rows, "page STRING, hour TIMESTAMP, user_id STRING, seconds DOUBLE")
    counts = clickstream.page_views(frame).orderBy("hour").select("page", "views", "users", "longest_stay").collect()
    assert [tuple(row) for row in counts] == [("/a", 3, 2, 9.0), ("/a", 1, 1, None)]


def test_views_of_a_user_with_at_most_half_an_hour_between_them_are_a_session(spark: SparkSession) -> None:
    start = datetime(2026, 3, 2, 8)
    minutes = {"u1": (0, 30, 60.25, 65), "u2": (10,)}
    rows = [(user, start + timedelta(minutes=minute)) for user, times in minutes.items() for minute in times]
    made = clickstream.sessions(spark.createDataFrame(rows, "user_id STRING, occurred_at TIMESTAMP"))
    columns = ("user_id", "started_at", "ended_at", "pages", "seconds", "bounce")
    assert [tuple(row[name] for name in columns) for row in made.orderBy("user_id", "started_at").collect()] == [
        ("u1", start, start + timedelta(minutes=30), 2, 1800.0, False),
        ("u1", start + timedelta(minutes=60.25), start + timedelta(minutes=65), 2, 285.0, False),
        ("u2", start + timedelta(minutes=10), start + timedelta(minutes=10), 1, 0.0, True),
    ]
