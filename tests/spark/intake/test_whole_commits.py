"""A flow with a watermark reads batches of bronze as a whole, in bounded batches of its own, and beats when nothing comes."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from pyspark.sql import functions as F

from tests.spark.batch.test_late_rows import SOURCE, TIMED, feed, minute, record, written
from tests.spark.job import job_of, reading, table
from tests.spark.kinds.payments import WINDOWS
from tidegate.checkpoints import progress
from tidegate.checkpoints.lease import checkpoint_resource
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import heartbeats, ledger
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark import flow as flows
from tidegate.spark.driver import lease
from tidegate.spark.lake import writes
from tidegate.spark.lake.writes import Transaction
from tidegate.spec import ChangeFeed, Watermark
from tidegate.times import dates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm


def ingest(
    job: Job, at: float, records: list[str], files: int = 1, clock: float | None = None, version: int = 1
) -> None:
    """Append a batch to bronze as its flow does, in this number of files.

    Args:
        clock: The minute at which a clock says that the batch was planned; the minute at which it came by default.
        version: The checkpoint version of the landing flow.
    """
    path, rows = job.place.layout.table("bronze.orders"), feed(job.spark, (at, records))
    planned_at, app_id = minute(at if clock is None else clock), f"orders/bronze/v{version}/0"
    rows = rows.drop("_change_type", "_commit_version").withColumn("_ingested_at", F.lit(planned_at))
    if not path.exists():
        empty = rows.limit(0).write.format("delta").option("delta.enableChangeDataFeed", "true")
        empty.save(str(path))
    txn = Transaction(app_id=app_id, batch_id=int(at * 10), prepared={})
    commit = writes.append(rows.repartition(files), path, txn)
    line = LedgerLine(
        flow="bronze",
        batch_id=int(at * 10),
        app_id=app_id,
        kind="append",
        read=len(records),
        written=len(records),
        target_version=commit.version,
        planned_at=planned_at,
    )
    ledger.record(PipelinePlace(job.place.layout, "orders"), line, ledger.RunOrigin())


def opened(
    spark: SparkSession,
    folder: Path,
    files: int = 1000,
    idle: str | None = None,
    version: int = 1,
    skew: str = "5 minutes",
) -> Job:
    declared = dataclasses.replace(
        TIMED,
        checkpoint_version=version,
        source=ChangeFeed("bronze.orders", max_files_per_trigger=files),
        watermark=Watermark(delay="10 minutes", idle=idle, skew=skew),
    )
    job = job_of(spark, folder, declared, transform=lambda rows: rows, version=version)
    return reading(job, SOURCE)


def late(job: Job) -> list[int]:
    return sorted(row["id"] for row in table(job.place.late))


def test_rows_are_late_by_whole_batches_of_bronze_in_whatever_batches_the_flow_reads_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each batch of bronze has rows that are older than its own newest row less the delay, but not late."""
    job = opened(spark, tmp_path, files=3)
    ingest(job, 1, [record(number, -number * 3) for number in range(6)], files=2)
    ingest(job, 45, [record(10 + number, 40 - number * 5) for number in range(12)], files=2)

    flows.run_flow(job)

    assert (late(job), written(job)) == ([21], [*range(6), *range(10, 21)]), "21 is at -15, the watermark -10"
    assert [batch.read for batch in job.run.report.batches] == [6, 12], "whole batches of bronze"
    assert progress.planned_batch(job.place.checkpoint, 0).delta.index == 0, "although Delta has cut the second"
    assert len(list(Path(job.target).glob("*.parquet"))) == 2, "each commit of the flow has one file"


@pytest.mark.nightly
def test_a_new_version_finds_the_same_rows_late_in_other_batches(spark: SparkSession, tmp_path: Path) -> None:
    first = opened(spark, tmp_path)
    for at in range(4):
        ingest(first, at * 10 + 20, [record(at * 10 + number, at * 10 - number * 7) for number in range(4)])
        flows.run_flow(first)
    by_first = late(first)
    second = opened(spark, tmp_path, files=3, version=2)

    flows.run_flow(second)

    rows = table(second.place.late)
    assert sorted(row["id"] for row in rows if row["_checkpoint_version"] == 2) == by_first != []
    assert written(second) == sorted({at * 10 + number for at in range(4) for number in range(4)} - set(by_first))
    assert {row["_batch_id"] for row in table(second.target)} == {0, 1}
    assert sum(batch.late for batch in second.run.report.batches) == len(by_first)


@pytest.mark.nightly
def test_a_new_checkpoint_reads_the_present_table_in_one_batch_if_the_log_of_bronze_was_cleaned(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = opened(spark, tmp_path, files=1)
    ingest(job, 1, [record(1, 0)])
    ingest(job, 2, [record(2, -11), record(3, -9)], files=2)

    with patch("tidegate.probes.delta.served_ranges", return_value=[(1, 1)]):
        flows.run_flow(job)

    assert (late(job), written(job)) == ([2], [1, 3])
    assert [batch.read for batch in job.run.report.batches] == [3]


@pytest.mark.nightly
def test_a_rebuild_from_the_present_rows_finds_the_same_rows_late_whatever_the_clocks_said(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The clock that plans batches goes two days back, then an hour forward; it decides nothing."""
    job = opened(spark, tmp_path, skew="3 days")
    commits = [
        (10, 10, [record(1, 0), record(2, -5)]),
        (20, -2860, [record(3, 9), record(4, -11)]),
        (30, 90, [record(5, 29), record(6, -2)]),
        (40, 40, [record(7, 18), record(8, 20), record(9, 39)]),
    ]
    for number, (at, clock, records) in enumerate(commits):
        ingest(job, at, records, clock=clock, version=1 + number % 2)
        flows.run_flow(job)
    by_increments = late(job)
    assert by_increments == [4, 6, 7], "before -10, -1 and 19, by the commits before their own"
    ahead = dates.micros(minute(1000))
    beat = heartbeats.Heartbeat(event_time=ahead, at=dates.micros(minute(-5000)), app_id="an earlier one", version=9)
    heartbeats.append(job.place, beat)
    rebuild = opened(spark, tmp_path, version=2, skew="3 days")

    with patch("tidegate.probes.delta.served_ranges", return_value=[(1, 1)]):
        flows.run_flow(rebuild)

    rows = table(rebuild.place.late)
    assert sorted(row["id"] for row in rows if row["_checkpoint_version"] == 2) == by_increments
    assert written(rebuild) == sorted({*range(1, 10)} - set(by_increments))


def test_an_idle_flow_writes_a_heartbeat_after_which_older_rows_are_late(spark: SparkSession, tmp_path: Path) -> None:
    job = opened(spark, tmp_path, idle="1 hour")
    ingest(job, 1, [record(1, 0)])
    start = datetime.now(UTC)

    flows.run_flow(job)

    [beat] = table(FlowPlace(job.place.layout, "orders", "silver").heartbeats)
    assert start - timedelta(hours=1) <= beat["event_time"] == beat["at"] - timedelta(hours=1)
    assert job.run.report.notes[0].startswith(
        "no new rows of bronze.orders for 1 hour: a heartbeat moved the watermark to "
    )
    after = (beat["at"] - minute(0)).total_seconds() / 60
    ingest(job, after + 1, [record(2, after - 71), record(3, after - 69)])
    flows.run_flow(job)
    assert (late(job), written(job)) == ([2], [1, 3])
    assert len(heartbeats.read(job.place)) == 1, "the next is due in an hour"


def test_a_heartbeat_waits_while_a_flow_that_reads_heartbeats_runs(spark: SparkSession, tmp_path: Path) -> None:
    """That flow has found out how many rows a batch may have, by whether heartbeats are unread."""
    job = opened(spark, tmp_path, idle="1 hour")
    pipeline = dataclasses.replace(job.resolved.pipeline, flows=(*job.resolved.pipeline.flows, WINDOWS))
    job = dataclasses.replace(job, resolved=dataclasses.replace(job.resolved, pipeline=pipeline))
    ingest(job, 1, [record(1, 0)])

    with lease.hold(
        spark, job.place.layout, (checkpoint_resource("orders", WINDOWS.name),), what="attempt a2 of orders"
    ):
        flows.run_flow(job)

    assert heartbeats.read(job.place) == []
    [note] = job.run.report.notes
    assert note.startswith("a heartbeat is due and waits for the next run: checkpoint:orders/windows is held by")
    flows.run_flow(job)
    assert len(heartbeats.read(job.place)) == 1
