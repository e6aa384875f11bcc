"""Python workers import PySpark with its bytecode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pyspark
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


def test_workers_import_pyspark_from_the_installed_package(spark: SparkSession) -> None:
    def where(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyspark.worker

        for _ in batches:
            yield pyarrow.RecordBatch.from_pylist(
                [{"file": pyspark.worker.__file__, "cached": pyspark.worker.__spec__.cached}]
            )

    (row,) = spark.range(1).coalesce(1).mapInArrow(where, "file string, cached string").collect()

    assert Path(row["file"]) == Path(pyspark.__file__).with_name("worker.py")
    assert Path(row["cached"]).exists()
