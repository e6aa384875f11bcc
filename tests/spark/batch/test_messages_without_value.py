"""A message without value is no row: it goes to quarantine, unless the transform deletes or filters its row."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.batch.splits import NEW, counts, refused
from tests.spark.job import job_of
from tidegate.spark.batch.rows import split_rows
from tidegate.spec import ChangeFeed, Flow, KafkaSource, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.batch.split import Split
    from tidegate.spark.job import Transform

pytestmark = pytest.mark.jvm

APPENDED = Flow(
    name="silver",
    source=ChangeFeed("bronze.clicks"),
    transform="orders:clean",
    target=Table("silver.clicks"),
)
KEYED = dataclasses.replace(APPENDED, target=Table("silver.clicks", keys=("id",), sequence_by=("at",)))
NOW = datetime(2026, 3, 1, tzinfo=UTC)
COLUMNS = (
    "_row_id string, key binary, value binary, _topic string, _partition int, _offset bigint, _timestamp timestamp, "
    "_ingested_at timestamp, _change_type string"
)


def split(
    spark: SparkSession, folder: Path, flow: Flow, schema: str, transform: Transform | None, *values: bytes | None
) -> Split:
    job = job_of(spark, folder, flow, transform=transform or (lambda rows: rows))
    assert job.resolved.writer is not None
    writer = dataclasses.replace(job.resolved.writer, source=KafkaSource(topic="clicks", schema=schema))
    job = dataclasses.replace(job, resolved=dataclasses.replace(job.resolved, writer=writer))
    rows = [(str(n), b"7", value, "clicks", 0, n, NOW, NOW, "insert") for n, value in enumerate(values)]
    result = split_rows(job, spark.createDataFrame(rows, COLUMNS), 0, NEW)
    assert result is not None
    assert result.prepared.imbalance() == 0
    return result


@pytest.mark.parametrize("schema", ["id INT NOT NULL, at INT NOT NULL", "id INT, at INT"])
def test_a_message_without_value_is_quarantined_also_where_no_changes_are_declared(
    spark: SparkSession, tmp_path: Path, schema: str
) -> None:
    result = split(spark, tmp_path, APPENDED, schema, None, b'{"id": 1, "at": 1}', None)

    assert refused(result) == {"1": ["no_value"]}
    assert counts(result.prepared) == {"read": 2, "written": 1, "quarantined": 1}


def test_a_transform_may_delete_or_filter_the_row_of_a_message_without_value(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    def by_key(rows: DataFrame) -> DataFrame:
        empty = F.col("at").isNull()
        deleted = rows.withColumn("id", F.coalesce("id", F.col("_key").cast("int"))).withColumn("_deleted", empty)
        return deleted.withColumn("at", F.coalesce("at", F.unix_timestamp("_timestamp").cast("int"))).drop(
            "_key", "_timestamp"
        )

    result = split(spark, tmp_path, KEYED, "id INT NOT NULL, at INT NOT NULL", by_key, b'{"id": 1, "at": 1}', None)
    assert counts(result.prepared) == {"read": 2, "written": 2}

    result = split(
        spark,
        tmp_path,
        APPENDED,
        "id INT NOT NULL, at INT NOT NULL",
        lambda rows: rows.withColumn("_filtered", F.when(F.col("id").isNull(), F.lit("empty"))),
        b'{"id": 1, "at": 1}',
        None,
    )
    assert result.prepared.filtered == {"empty": 1}
