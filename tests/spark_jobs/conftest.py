"""The session that the tests of `tidegate.spark` use, and rows as the platform hands them to a transform."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate import registry
from tidegate.spec import ChangeFeed, parse_ddl

_place = importlib.util.spec_from_file_location("spark_conftest", Path(__file__).parents[1] / "spark" / "conftest.py")
assert _place is not None and _place.loader is not None
_module = importlib.util.module_from_spec(_place)
_place.loader.exec_module(_module)

spark = _module.spark

Rows = Callable[..., DataFrame]


@pytest.fixture
def parsed(spark: SparkSession) -> Rows:
    """Makes ``parsed("flights", {"year": "2013", …}, …)``: texts become the declared, typed fields."""

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
