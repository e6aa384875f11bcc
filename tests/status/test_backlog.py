"""The backlog of a change feed equals the rows that a real stream reads afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidegate.checkpoints import progress
from tidegate.probes import delta
from tidegate.sources.tables import measure as tables
from tidegate.spec import ChangeFeed
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm
SOURCE = ChangeFeed("silver.trips")


@pytest.mark.nightly
def test_the_backlog_after_each_batch_equals_the_rows_of_later_batches(spark: SparkSession, tmp_path: Path) -> None:
    from delta.tables import DeltaTable

    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"

    def append(first: int, last: int) -> None:
        rows = spark.range(first, last, 1, 3).selectExpr("id", "id % 7 AS n")
        rows.write.format("delta").mode("append").option("delta.enableChangeDataFeed", "true").save(str(table))

    def merge(select: str) -> None:
        (
            DeltaTable.forPath(spark, str(table))
            .alias("t")
            .merge(spark.sql(select).alias("s"), "t.id = s.id")
            .whenMatchedDelete("s.n < 0")
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )

    read: list[int] = []
    append(0, 10)
    append(10, 20)
    full_table = tables.of_table(Address.local(table), SOURCE, None)
    assert (full_table.rows, full_table.rows_exact, full_table.behind) == (20, True, 2)
    _drain(spark, table, checkpoint, read)
    append(20, 30)
    merge("SELECT id, 100L AS n FROM range(25, 35)")
    merge("SELECT id, -1L AS n FROM range(0, 5)")
    merge("SELECT id, 1L AS n FROM range(900, 903)")
    DeltaTable.forPath(spark, str(table)).delete("id >= 900")
    DeltaTable.forPath(spark, str(table)).update("id = 7", {"n": "n + 1"})
    DeltaTable.forPath(spark, str(table)).optimize().executeCompaction()
    _drain(spark, table, checkpoint, read)

    last = progress.read(Address.local(checkpoint)).last_committed
    assert last is not None
    assert last >= 6, "several batches, so that some positions are within a version"
    newest = delta.current_version(Address.local(table))
    assert newest is not None
    for batch in range(last + 1):
        planned = progress.planned_batch(Address.local(checkpoint), batch)
        if planned.delta.of_snapshot or planned.delta.version <= 1:
            continue  # the later commits did not exist when the first load was read
        remaining = tables.of_table(Address.local(table), SOURCE, planned)
        assert remaining.rows == sum(read[batch + 1 :]), planned.offset
        assert remaining.has_data is (sum(read[batch + 1 :]) > 0)
    assert sum(read) == 20 + 10 + 10 + 5 + 3 + 3 + 1
    assert remaining.rows == 0


def test_a_feed_without_backlog_reads_no_rows_when_it_runs_again(spark: SparkSession, tmp_path: Path) -> None:
    from delta.tables import DeltaTable

    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    rows = spark.range(5).selectExpr("id", "id AS n")
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(table))
    DeltaTable.forPath(spark, str(table)).update("id = 1", {"n": "n + 1"})
    read: list[int] = []
    _drain(spark, table, checkpoint, read)
    DeltaTable.forPath(spark, str(table)).update("id = 2", {"n": "n + 1"})
    _drain(spark, table, checkpoint, read)
    state = progress.read(Address.local(checkpoint))
    assert state.last_committed is not None
    remaining = tables.of_table(
        Address.local(table), SOURCE, progress.planned_batch(Address.local(checkpoint), state.last_committed)
    )
    assert remaining.has_data is False, progress.planned_batch(Address.local(checkpoint), state.last_committed).offset
    before = sum(read)
    _drain(spark, table, checkpoint, read)
    assert sum(read) == before


def _drain(spark: SparkSession, table: Path, checkpoint: Path, read: list[int]) -> None:
    def count_rows(batch: DataFrame, batch_id: int) -> None:
        assert batch_id == len(read)
        read.append(batch.where("_change_type != 'update_preimage'").count())

    (
        spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("maxFilesPerTrigger", 2)
        .load(str(table))
        .writeStream.foreachBatch(count_rows)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
