"""Tables with features of Delta that Spark writes are read without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from tidegate.lake.layout import Layout
from tidegate.ops import lake_query
from tidegate.trace import feed

pytestmark = pytest.mark.jvm


def test_deletion_vectors_mapped_columns_and_partitions_are_read(spark: SparkSession, tmp_path: Path) -> None:
    layout = Layout.local(tmp_path / "lake", tmp_path / "landing")
    path = f"delta.`{layout.table('silver.orders')}`"
    spark.sql(
        f"CREATE TABLE {path} (id BIGINT, name STRING, day DATE) USING delta PARTITIONED BY (day) TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO {path} SELECT id, concat('n', id), DATE '2026-01-01' FROM range(0, 6, 1, 1)")
    spark.sql(f"ALTER TABLE {path} RENAME COLUMN name TO `full name`")
    spark.sql(f"DELETE FROM {path} WHERE id IN (1, 4)")
    deleted = spark.read.json(str(layout.table("silver.orders") / "_delta_log" / "*.json"))
    assert deleted.where("add.deletionVector IS NOT NULL").count() == 1, "the delete rewrote the file"
    sql = """SELECT id, "full name", day::VARCHAR FROM silver.orders ORDER BY id"""
    with lake_query.execute(layout, sql, {}) as result:
        rows = list(lake_query.fetched(result, None))
    assert rows == [(id, f"n{id}", "2026-01-01") for id in (0, 2, 3, 5)]
    inserted = feed.rows(layout.table("silver.orders"), 0, 1, ["id", "full name", "day"], "id = 4")
    assert [(row["full name"], row["day"].isoformat(), row["_change_type"]) for row in inserted] == [
        ("n4", "2026-01-01", "insert")
    ]
    # Which rows a new deletion vector deletes is not read, so that version is one that cannot be read, and not one without changes.
    with pytest.raises(DeltaError, match="deletion vector"):
        feed.rows(layout.table("silver.orders"), 0, 3, ["id"], "true")
