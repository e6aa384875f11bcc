"""The source records of quarantine entries are read from the flow's source, by id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import job as orders
from tidegate.sources.files import read as bronze_files
from tidegate.spark.lake import writes
from tidegate.spark.reprocessing.replay import Replay
from tidegate.spec import ChangeFeed, Flow, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

CLICKS = Flow(
    name="silver", source=ChangeFeed("bronze.clicks"), target=Table("silver.clicks", keys=("id",), sequence_by=("at",))
)
"""A flow that parses messages."""


def job_of_replay(spark: SparkSession, folder: Path, flow: Flow, *entries: tuple[str, dict[str, Any]]) -> Job:
    claimed = tuple({"_row_id": row_id, "source": json.dumps(source)} for row_id, source in entries)
    replay = Replay(by="ada", number=0, started_ms=orders.PLANNED_MS, entries=claimed)
    return orders.job_of(spark, folder, flow, work=replay)


def append(job: Job, rows: DataFrame, batch_id: int = 0) -> None:
    assert job.source_table is not None
    writes.append(rows, job.source_table, writes.Transaction(app_id="upstream", batch_id=batch_id, prepared={}))


def read_entries(job: Job) -> DataFrame:
    assert isinstance(job.work, Replay)
    return job.kind.read_entries(job, job.spark, job.work.entries)


def read(job: Job) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in read_entries(job).orderBy("_row_id").collect()]
    assert job.persisted, "it is unpersisted with the batch"
    job.release()
    return rows


def test_lines_are_read_from_bronze_by_id_as_inserts(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of_replay(
        spark, tmp_path, orders.SILVER, ("a@1#2", {"path": "file:///a"}), ("lost@1#1", {"path": "file:///lost"})
    )
    rows = [("a@1#1", "one", "file:///a"), ("a@1#2", "two", "file:///a"), ("b@1#2", "three", "file:///b")]
    append(job, spark.createDataFrame(rows, "_row_id string, line string, _path string"))

    (row,) = read(job)

    assert (row["_row_id"], row["line"], row["_change_type"]) == ("a@1#2", "two", "insert")


def test_records_of_many_files_are_read_without_listing_their_paths(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bronze_files, "_MAX_PATHS", 1)
    job = job_of_replay(spark, tmp_path, orders.SILVER, *((f"{n}#1", {"path": f"file:///{n}"}) for n in "ab"))
    rows = [(f"{n}#1", f"file:///{n}") for n in "abc"]
    append(job, spark.createDataFrame(rows, "_row_id string, _path string"))

    assert [row["_row_id"] for row in read(job)] == ["a#1", "b#1"]


def test_messages_are_read_by_id_within_the_range_of_the_offsets(spark: SparkSession, tmp_path: Path) -> None:
    offsets = [(0, 3), (0, 5), (1, 9)]
    job = job_of_replay(spark, tmp_path, CLICKS, *((f"c/{p}/{o}", {"partition": p, "offset": o}) for p, o in offsets))
    rows = [(f"c/{p}/{o}", p, o) for p in (0, 1) for o in (2, 3, 5, 9, 10)]
    append(job, spark.createDataFrame(rows, "_row_id string, _partition int, _offset bigint"))

    assert [row["_row_id"] for row in read(job)] == ["c/0/3", "c/0/5", "c/1/9"]


def test_a_flow_that_reads_files_has_no_source_rows(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of_replay(spark, tmp_path, orders.BRONZE, ("a@1", {"path": "a"}))

    assert read_entries(job).collect() == []


@pytest.fixture(scope="module")
def keyed_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of a keyed table: 0 has keys 1 and 2, 1 changes key 1, 2 adds key 3."""
    folder = tmp_path_factory.mktemp("keyed")
    job = orders.job_of(spark, folder, orders.LATEST)
    columns = "id int, amount int, _order int"
    assert job.source_table is not None
    for batch_id, rows in enumerate(([(1, 10, 0), (2, 20, 0)], [(1, 11, 1)], [(3, 30, 2)])):
        txn = writes.Transaction(app_id="upstream", batch_id=batch_id, prepared={})
        writes.upsert(spark.createDataFrame(rows, columns), job.source_table, ("id",), txn)
    return folder


def changes(spark: SparkSession, folder: Path, *ids: str) -> list[dict[str, Any]]:
    entries = [(row_id, {"version": int(row_id.split("|")[1])}) for row_id in ids]
    return read(job_of_replay(spark, folder, orders.LATEST, *entries))


def test_changes_of_a_keyed_table_are_read_from_its_feed_by_key_version_and_type(
    spark: SparkSession, keyed_table: Path
) -> None:
    rows = changes(spark, keyed_table, "2|0|insert", "1|1|update_postimage", "3|2|insert", "9|1|insert")

    assert [(row["_row_id"], row["amount"], row["_change_type"], row["_commit_version"]) for row in rows] == [
        ("1|1|update_postimage", 11, "update_postimage", 1),
        ("2|0|insert", 20, "insert", 0),
        ("3|2|insert", 30, "insert", 2),
    ]


def test_rows_of_a_first_load_are_read_from_the_table_at_the_loaded_version(
    spark: SparkSession, keyed_table: Path
) -> None:
    """For a flow that began at version 1, a row of version 0 was inserted by version 1."""
    rows = changes(spark, keyed_table, "2|1|insert", "1|1|insert", "3|1|insert", "1|1|update_postimage")

    assert [(row["_row_id"], row["amount"]) for row in rows] == [
        ("1|1|insert", 11),
        ("1|1|update_postimage", 11),
        ("2|1|insert", 20),
    ], "version 1 does not contain key 3"
