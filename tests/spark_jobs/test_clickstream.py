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
Rows = Callable[..., DataFrame]


def clean(parsed: Rows, *changes: dict[str, Any]) -> list[dict[str, Any]]:
    made = clickstream.clean(parsed("clickstream", *({**VIEW, **change} for change in changes)))
    utc = made.selectExpr("* EXCEPT (hour)", "CAST(hour AS TIMESTAMP_NTZ) AS hour")
    return [row.asDict() for row in utc.orderBy("_row_id").collect()]


def test_a_view_gets_its_hour_its_plain_page_and_its_seconds(parsed: Rows) -> None:
    (row,) = clean(parsed, {})
    assert row["hour"] == datetime(2026, 3, 2, 8)
    assert (row["page"], row["seconds"], row["_deleted"], row["_filtered"]) == ("/boats", 1.5, False, None)


def test_a_deletion_is_marked_and_needs_nothing_but_its_id(parsed: Rows) -> None:
    nothing = dict.fromkeys(VIEW)
    (row,) = clean(parsed, {**nothing, "event_id": "e1", "sequence": "2", "kind": "delete"})
    assert row["_deleted"] is True
    assert (row["event_id"], row["sequence"], row["page"]) == ("e1", 2, None)


def test_the_shops_own_probe_is_set_aside_by_name(parsed: Rows) -> None:
    (row,) = clean(parsed, {"agent": clickstream.PROBE})
    assert row["_filtered"] == "uptime_probe"


def test_a_row_of_nulls_comes_back_with_its_id_and_deletes_nothing(parsed: Rows) -> None:
    (row,) = clean(parsed, dict.fromkeys(VIEW))
    assert (row["_row_id"], row["_origin"]["raw"], row["_deleted"]) == ("r0", "raw", False)


def test_views_and_distinct_users_are_counted_per_page_and_hour(spark: SparkSession) -> None:
    hour, next_hour = datetime(2026, 3, 2, 8), datetime(2026, 3, 2, 9)
    rows = [("/a", hour, "u1", 1.0), ("/a", hour, "u1", 9.0), ("/a", hour, "u2", None), ("/a", next_hour, "u1", None)]
    frame = spark.createDataFrame(rows, "page STRING, hour TIMESTAMP, user_id STRING, seconds DOUBLE")
    found = clickstream.page_views(frame).orderBy("hour").select("page", "views", "users", "longest_stay").collect()
    assert [tuple(row) for row in found] == [("/a", 3, 2, 9.0), ("/a", 1, 1, None)]
