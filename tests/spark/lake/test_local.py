"""Rows of every type are unchanged after collecting them to the driver and creating a frame from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegate.spark.lake import local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

VALUES = (
    "7",
    "7L",
    "7Y",
    "7S",
    "true",
    "'text'",
    "X'00FF'",
    "0.1F",
    "-0.0D",
    "double('NaN')",
    "1.10BD",
    "12345678901234567890.123456789012345678BD",
    "date'0001-01-01'",
    "timestamp'2026-01-01 09:30:00.123456'",
    "timestamp'1677-01-01 00:00:00'",
    "timestamp_ntz'2026-10-25 02:30:00'",
    "interval '1' day",
    "array('a', null)",
    "map('a', 1.5BD)",
    "named_struct('at', timestamp'2026-01-01 00:00:00', 'names', array('x'))",
)


def test_values_of_each_type_are_unchanged(spark: SparkSession) -> None:
    columns = ", ".join(f"{value} AS c{number}" for number, value in enumerate(VALUES))
    values = spark.sql(f"SELECT {columns}")
    nulls = spark.range(1).selectExpr(*[f"CAST(NULL AS {kind}) AS {name}" for name, kind in values.dtypes])
    frame = values.unionAll(nulls)

    rows = local.collect(frame)

    assert rows is not None and rows.num_rows == 2
    result = local.to_frame(spark, rows, frame.schema)
    assert result.schema == frame.schema
    assert "LocalRelation" in result._jdf.queryExecution().optimizedPlan().toString()
    assert [repr(row) for row in result.collect()] == [repr(row) for row in frame.collect()]


def test_many_rows_and_types_without_arrow_equivalent_are_not_collected(spark: SparkSession) -> None:
    assert local.collect(spark.range(3), 3) is not None
    assert local.collect(spark.range(4), 3) is None
    assert local.collect(spark.sql("SELECT make_interval(1) AS i")) is None


def test_an_empty_frame_is_collected(spark: SparkSession) -> None:
    rows = local.collect(spark.range(0))
    assert rows is not None and rows.num_rows == 0
    assert local.to_frame(spark, rows, spark.range(0).schema).count() == 0


def test_rows_of_the_driver_become_a_local_relation_without_a_python_worker(spark: SparkSession) -> None:
    rows = [("a", 1, ["x", "y"]), (None, None, None)]

    frame = local.from_rows(spark, rows, "name string, number bigint, tags array<string>")

    assert "LocalRelation" in frame._jdf.queryExecution().optimizedPlan().toString()
    assert [tuple(row) for row in frame.collect()] == rows
    assert local.from_rows(spark, [], "name string").collect() == []
