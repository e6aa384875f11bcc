"""Fixtures: parsed rows, the input of a transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate import registry
from tidegate.schema.ddl import parse_ddl
from tidegate.spec import ChangeFeed, FileSource

Rows = Callable[..., DataFrame]
OF_FILES = (
    "'/landing/sample.csv' AS _path",
    "TIMESTAMP '2026-01-05 10:00:00' AS _modified_at",
    "CAST(map() AS MAP<STRING, STRING>) AS _partitions",
)
OF_MESSAGES = ("'key' AS _key", "TIMESTAMP '2026-01-05 10:00:00' AS _timestamp")
"""Columns beside the fields that a transform may use, with made-up values."""


@pytest.fixture(scope="session")
def parsed(spark: SparkSession) -> Rows:
    """A function ``parsed("flights", {"year": "2013", …}, …)`` that casts strings to the declared types."""

    def make(pipeline: str, *records: dict[str, Any]) -> DataFrame:
        source = registry.load(pipeline).flow("bronze").source
        assert not isinstance(source, ChangeFeed)
        fields = parse_ddl(pipeline, source.schema)
        texts = ", ".join(f"{field.name} STRING" for field in fields)
        schema = f"_row_id STRING, _origin STRUCT<raw: STRING>, {texts}, _rescued MAP<STRING, STRING>"
        rows = [
            (f"r{number}", ("raw",), *(record.get(field.name) for field in fields), record.get("_rescued"))
            for number, record in enumerate(records)
        ]
        frame = spark.createDataFrame(rows, schema)
        return frame.selectExpr(
            "_row_id",
            "_origin",
            *(f"CAST({field.name} AS {field.type}) AS {field.name}" for field in fields),
            "_rescued",
            *(OF_FILES if isinstance(source, FileSource) else OF_MESSAGES),
        )

    return make
