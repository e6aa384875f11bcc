"""The transforms of the clickstream pipeline on rows that a person can check."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import clickstream

pytestmark = pytest.mark.jvm

VIEW = {
    **{"event_id": "e1", "sequence": "1", "kind": "view", "occurred_at": "2026-03-02T08:59:59.5Z", "user_id": "u1"},
    **{"page": "/Boats?ref=mail", "duration_ms": "1500", "agent": "firefox"},
}
NOTHING = dict.fromkeys(VIEW)
EVENTS: dict[str, dict[str, Any]] = {
    "view": VIEW,
    "deletion": {**NOTHING, "event_id": "e1", "sequence": "2", "kind": "delete"},
    "probe": {**VIEW, "agent": clickstream.PROBE},
    "nothing": NOTHING,
}
Rows = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def cleaned(parsed: Rows) -> dict[str, dict[str, Any]]:
    """What the transform makes of `EVENTS`, by their names."""
    made = clickstream.clean(parsed("clickstream", *EVENTS.values()))
    utc = made.selectExpr("* EXCEPT (hour)", "CAST(hour AS TIMESTAMP_NTZ) AS hour")
    rows = utc.orderBy("_row_id").collect()
    return {name: row.asDict() for name, row in zip(EVENTS, rows, strict=True)}


def test_a_view_gets_its_hour_its_plain_page_and_its_seconds(cleaned: dict[str, dict[str, Any]]) -> None:
    row = cleaned["view"]
    assert row["hour"] == datetime(2026, 3, 2, 8)
    assert (row["page"], row["seconds"], row["_deleted"], row["_filtered"]) == ("/boats", 1.5, False, None)


def test_a_deletion_is_marked_and_needs_nothing_but_its_id(cleaned: dict[str, dict[str, Any]]) -> None:
    row = cleaned["deletion"]
    assert row["_deleted"] is True
    assert (row["event_id"], row["sequence"], row["page"]) == ("e1", 2, None)


def test_the_shops_own_probe_is_set_aside_by_name(cleaned: dict[str, dict[str, Any]]) -> None:
    assert cleaned["probe"]["_filtered"] == "uptime_probe"


def test_a_row_of_nulls_comes_back_with_its_id_and_deletes_nothing(cleaned: dict[str, dict[str, Any]]) -> None:
    row = cleaned["nothing"]
    assert (row["_row_id"], row["_origin"]["raw"], row["_deleted"]) == ("r3", "raw", False)


def test_views_and_distinct_users_are_counted_per_page_and_hour(spark: SparkSession) -> None:
    hour, next_hour = datetime(2026, 3, 2, 8), datetime(2026, 3, 2, 9)
    rows = [("/a", hour, "u1", 1.0), ("/a", hour, "u1", 9.0), ("/a", hour, "u2", None), ("/a", next_hour, "u1", None)]
    frame = spark.createDataFrame(rows, "page STRING, hour TIMESTAMP, user_id STRING, seconds DOUBLE")
    found = clickstream.page_views(frame).orderBy("hour").select("page", "views", "users", "longest_stay").collect()
    assert [tuple(row) for row in found] == [("/a", 3, 2, 9.0), ("/a", 1, 1, None)]
