"""A micro-batch of each kind of flow is split and written by the code for that kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.batch.splits import NEW, ORDERS
from tests.spark.job import BRONZE, CLICKS, GOLD, LATEST, PLANNED_MS, changes, job_of, plan_batch, table
from tidegate.spark.batch import micro_batch
from tidegate.spark.reprocessing.replay import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm


@pytest.fixture
def latest(spark: SparkSession, tmp_path: Path) -> Callable[..., Job]:
    def make(**more: Any) -> Job:
        return job_of(spark, tmp_path, more.pop("flow", LATEST), **more)

    return make


def test_a_micro_batch_of_a_group_flow_recomputes_the_groups(latest: Callable[..., Job]) -> None:
    from pyspark.sql import functions as F

    job = latest(flow=GOLD, transform=lambda rows: rows.groupBy("day").agg(F.count("*").alias("orders")))
    assert job.source_table is not None
    orders = job.spark.createDataFrame([(1, 1)], "id int, day int")
    orders.write.format("delta").save(str(job.source_table))
    plan_batch(job, 0)

    micro_batch.process(job, changes(job.spark, "id int, day int", (1, 1), version=0), 0)

    assert [(record.kind, record.groups) for record in job.run.report.batches] == [("recompute", 1)]
    assert table(job.target) == [{"day": 1, "orders": 1}]


def test_a_micro_batch_of_messages_stores_them_raw(latest: Callable[..., Job]) -> None:
    job = latest(flow=CLICKS)
    plan_batch(job, 0)
    columns = (
        "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string, partition int, "
        "offset bigint, timestamp timestamp"
    )
    batch = job.spark.createDataFrame([(b"k", b"{}", None, "clicks", 0, 5, datetime(2026, 1, 1, tzinfo=UTC))], columns)

    micro_batch.process(job, batch, 0)

    assert [(row["_row_id"], row["value"]) for row in table(job.target)] == [("clicks/0/5", b"{}")]


def test_a_micro_batch_of_files_reads_the_files_that_the_stream_listed(latest: Callable[..., Job]) -> None:
    job = latest(flow=BRONZE)
    file = job.place.layout.landing("orders") / "a.json"
    file.parent.make_folder()
    file.put(b'{"id": 1}\n{"id": 2}\n')
    list_files(job, 0, Path(file))

    micro_batch.process(job, job.spark.range(0), 0)

    assert [row["line"] for row in table(job.target)] == ['{"id": 1}', '{"id": 2}']
    assert [(record.files_listed, record.files_opened, record.written) for record in job.run.report.batches] == [
        (1, 1, 2)
    ]


def list_files(job: Job, batch_id: int, *files: Path) -> None:
    """Write the log of the file source, as Spark does before it plans the batch."""
    plan_batch(job, batch_id, {"logOffset": batch_id})
    log = job.place.checkpoint / "sources" / "0" / str(batch_id)
    Path(log.parent).mkdir(parents=True, exist_ok=True)
    listed = [
        json.dumps({"path": file.as_uri(), "timestamp": file.stat().st_mtime_ns // 1_000_000, "batchId": batch_id})
        for file in files
    ]
    Path(log).write_text("\n".join(["v1", *listed]))


def test_the_ledger_line_of_a_replay_has_the_kind_replay(latest: Callable[..., Job]) -> None:
    claim = Replay(by="ada", number=4, started_ms=PLANNED_MS, entries=())
    job = latest(work=claim)

    split = micro_batch.split_batch(job, changes(job.spark, ORDERS, (1, 1, 10)), 4, NEW)

    assert split is not None
    assert (split.prepared.kind, split.prepared.app_id, split.prepared.batch_id) == (
        "replay",
        "orders/latest/replay",
        4,
    )
