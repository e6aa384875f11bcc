"""A gate does not evaluate the transform a second time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.job import LATEST, changes, job_of, plan_batch
from tidegate.spark.batch import micro_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

RULES: list[tuple[str, str, dict[str, Any]]] = [
    ("expect_column_values_to_be_between", "warning", {"column": "amount", "min_value": 3}),
    ("expect_column_values_to_not_be_null", "critical", {"column": "amount", "mostly": 0.5}),
    ("expect_column_values_to_be_unique", "warning", {"column": "id"}),
    ("expect_column_values_to_be_in_set", "info", {"column": "at", "value_set": [1]}),
    ("expect_column_mean_to_be_between", "warning", {"column": "amount", "min_value": 0}),
    ("expect_table_row_count_to_be_between", "critical", {"min_value": 1}),
]


def test_a_flow_with_a_gate_transforms_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    transformed = spark.sparkContext.accumulator(0)

    def counted(value: Any) -> Any:
        transformed.add(1)
        return value

    def counting(rows: DataFrame) -> DataFrame:
        return rows.withColumn("amount", F.udf(counted, "int")("amount"))

    suite = [{"type": kind, "severity": severity, "kwargs": kwargs} for kind, severity, kwargs in RULES]
    job = job_of(spark, tmp_path, LATEST, transform=counting, suite=suite)
    plan_batch(job, 0)

    micro_batch.process(job, changes(spark, "id int, at int, amount int", *((n, 1, n) for n in range(150))), 0)

    (record,) = job.run.report.batches
    assert (record.read, record.written, record.quarantined) == (150, 147, 3)
    assert len(job.run.report.verdicts[0].results) == len(RULES)
    assert transformed.value == 150
