"""Fixtures: parsed rows, the input of a transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate import registry
from tidegate.schema.ddl import parse_ddl
from tidegate.spec import ChangeFeed

Rows = Callable[..., DataFrame]


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
        )

    return make
