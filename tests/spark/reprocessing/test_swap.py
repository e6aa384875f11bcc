"""The swap: staging replaces the live table in one commit that changes only rows that differ."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import job as orders
from tests.with_fields import with_fields
from tidegate.checkpoints import checkpoint, rewrite, vector
from tidegate.errors import RewriteRefusedError
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import store
from tidegate.reports.impact import Impact
from tidegate.spark import flow as flows
from tidegate.spark.batch.work import Staged
from tidegate.spark.job import Job
from tidegate.spark.lake import tables, writes
from tidegate.spark.reprocessing import swap
from tidegate.spec import ChangeFeed, Flow, RewriteLimits, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

COLUMNS = "id int, amount int, _row_id string, _batch_id bigint"
GROUPS = "day int, orders int, _batch_id bigint"
LIVE = [(1, 10, "a", 0), (2, 20, "b", 0), (3, 30, "c", 0)]


def live(spark: SparkSession, folder: Path, flow: Flow, rows: list[Any], columns: str = COLUMNS) -> Job:
    """The live table, written by version 1 of the flow's checkpoint."""
    job = orders.job_of(spark, folder, flow)
    checkpoint.write_sidecar(job.place, flow)
    writes.append(spark.createDataFrame(rows, columns), job.live, orders.transaction(job, 4))
    return job


def staged(
    spark: SparkSession, folder: Path, flow: Flow, rows: list[Any], columns: str = COLUMNS, batches: int = 2
) -> Job:
    """Version 2, with its table in staging; only the first of its batches has rows."""
    job = orders.job_of(spark, folder, dataclasses.replace(flow, checkpoint_version=2), version=2)
    job = job.doing(Staged())
    frame = spark.createDataFrame(rows, columns)
    for batch_id in range(batches):
        part = frame if batch_id == 0 else frame.limit(0)
        writes.append(part, job.target, orders.transaction(job, batch_id))
    return job


def ledger(job: Job) -> list[dict[str, Any]]:
    return store.select(
        PipelinePlace(job.place.layout, "orders").ops("ledger"), "SELECT * FROM delta_table ORDER BY recorded_at"
    )


def test_the_swap_changes_only_rows_that_differ(spark: SparkSession, tmp_path: Path) -> None:
    before = live(spark, tmp_path, orders.SILVER, LIVE)
    rows = [(1, 10, "z", 1), (2, 21, "b", 1), (4, 40, "d", 1)]
    job = staged(spark, tmp_path, orders.SILVER, rows)

    after = swap.swap_in(job)

    swapped = {row["id"]: (row["amount"], row["_row_id"]) for row in orders.table(job.live)}
    assert swapped == {1: (10, "a"), 2: (21, "b"), 4: (40, "d")}, (
        "a difference in the platform's own columns only is not a change"
    )
    (line,) = job.run.report.batches
    assert (line.kind, line.batch_id, line.app_id) == ("swap", 1, job.app_id)
    assert (line.groups, line.upserted, line.deleted, line.unchanged, line.imbalance()) == (4, 2, 1, 1, 0)
    assert line.target_version == tables.version(spark, job.live) == 1, "one commit: no reader sees an empty table"
    assert tables.transactions(spark, job.live) == {before.app_id: 4, job.app_id: 1}, (
        "the commit carries the last staged transaction, so that the checkpoint continues after it"
    )
    assert [(line["kind"], line["batch_id"]) for line in ledger(job)] == [("swap", 1)]
    assert after.target == job.live
    assert not job.place.staging.exists()


@pytest.mark.nightly
def test_all_columns_of_groups_are_compared_also_one_with_the_name_of_a_platform_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    live(spark, tmp_path, orders.GOLD, [(1, 5, 0), (2, 6, 0)], GROUPS)
    job = staged(spark, tmp_path, orders.GOLD, [(1, 5, 0), (2, 6, 1), (None, 1, 1)], GROUPS)

    swap.swap_in(job)

    (line,) = job.run.report.batches
    assert (line.upserted, line.deleted, line.unchanged) == (2, 0, 1)
    assert [(row["day"], row["_batch_id"]) for row in orders.table(job.live)] == [(1, 0), (2, 1), (None, 1)]


def test_a_swap_that_crashed_after_its_commit_is_recorded_once_and_not_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(spark, tmp_path, orders.SILVER, LIVE)
    job = staged(spark, tmp_path, orders.SILVER, [(1, 11, "a", 1)])
    with monkeypatch.context() as patched:
        patched.setattr(swap, "finish", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("simulated crash")))
        with pytest.raises(ConnectionError):
            swap.swap_in(job)
    assert not PipelinePlace(job.place.layout, "orders").ops("ledger").exists()
    again = orders.job_of(spark, tmp_path, job.flow, version=2, work=Staged())

    swap.swap_in(again)

    assert tables.version(spark, again.live) == 1, "Delta skips a known transaction"
    assert [(line["kind"], line["upserted"], line["deleted"]) for line in ledger(again)] == [("swap", 1, 2)]
    assert not again.place.staging.exists()


@pytest.mark.nightly
def test_a_crash_while_staging_is_removed_leaves_nothing_that_stops_the_next_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(spark, tmp_path, orders.SILVER, LIVE)
    job = staged(spark, tmp_path, orders.SILVER, [(1, 11, "a", 1)])

    def crash(folder: Path, **_: Any) -> None:
        """Removes the files of a folder in any order, as the operating system lists them, and dies on the way."""
        if folder.exists():
            next(folder.rglob("00000000000000000001.json")).unlink()
            raise ConnectionError("simulated crash")

    with monkeypatch.context() as patched, pytest.raises(ConnectionError):
        patched.setattr(shutil, "rmtree", crash)
        swap.swap_in(job)
    assert not job.place.staging.exists(), "the next run would take a part of the table for the table"
    again = orders.job_of(spark, tmp_path, job.flow, version=2, work=Staged())

    swap.swap_in(again)

    assert [(line["kind"], line["upserted"], line["deleted"]) for line in ledger(again)] == [("swap", 1, 2)]


def test_a_swap_that_deletes_too_many_rows_is_refused_and_waits_until_that_number_is_accepted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = dataclasses.replace(orders.SILVER, rewrite_limits=RewriteLimits(rows=0))
    live(spark, tmp_path, limited, LIVE)
    job = staged(spark, tmp_path, limited, [(1, 11, "a", 1)])

    with pytest.raises(RewriteRefusedError, match=r"swap of v2/0 refused .* delete 2 of 3 rows \(66.7%\)"):
        swap.swap_in(job)

    loss = Impact(before=3, after=1, deleted=2, changed=1, added=0, read=0, quarantined=0)
    assert len(orders.table(job.live)) == 3
    note = rewrite.refused(FlowPlace(job.place.layout, "orders", "silver"))
    assert note is not None and (note.app_id, note.impact) == (job.app_id, loss)

    def again(**request: Any) -> Job:
        return orders.job_of(spark, tmp_path, job.flow, version=2, work=Staged(), **request)

    dry = again(dry_run=True)
    swap.dry_run(dry)
    assert (dry.run.report.impact, dry.run.report.dry_run) == (loss, True)
    with pytest.raises(RewriteRefusedError):
        swap.swap_in(again(accept=("silver:deleted=3",)))
    with monkeypatch.context() as patched:
        patched.setattr(writes, "swap", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("simulated crash")))
        with pytest.raises(ConnectionError):
            swap.swap_in(again(accept=("silver:deleted=2",)))
    assert rewrite.refused(FlowPlace(job.place.layout, "orders", "silver")) is None, "it was accepted"

    swap.swap_in(again())

    assert [row["id"] for row in orders.table(job.live)] == [1], "the number stays accepted after a crash"


def test_a_rebuild_of_which_no_batch_makes_a_row_leaves_an_empty_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is not that of the old version, with rows that nothing makes any more; it becomes empty within the limits."""
    live(spark, tmp_path, orders.SILVER, LIVE)
    job = staged(spark, tmp_path, orders.SILVER, LIVE, batches=0)
    position(job, 3, 1)
    committed(job, 3)
    job.target.make_folder()

    with pytest.raises(RewriteRefusedError, match=r"delete 3 of 3 rows \(100.0%\)"):
        swap.swap_in(job)
    assert len(orders.table(job.live)) == 3
    again = orders.job_of(spark, tmp_path, job.flow, version=2, work=Staged(), accept=("silver:deleted=3",))
    with monkeypatch.context() as patched, pytest.raises(ConnectionError):
        patched.setattr(swap, "finish", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("simulated crash")))
        swap.swap_in(again)
    after = swap.finish(again)

    assert (orders.table(job.live), tables.version(spark, job.live)) == ([], 1)
    (line,) = again.run.report.batches
    assert (line.kind, line.batch_id, line.deleted, line.imbalance()) == ("swap", 3, 3, 0)
    assert tables.transactions(spark, job.live)[job.app_id] == 3, "the checkpoint continues after it"
    assert (after.target == job.live, job.place.staging.exists()) == (True, False)


@pytest.mark.nightly
def test_a_new_version_over_a_source_without_rows_leaves_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    first = orders.job_of(spark, tmp_path, orders.LATEST)
    assert first.source_table is not None
    rows = spark.createDataFrame([(1, 1, 10), (2, 1, 20)], "id int, at int, amount int")
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(first.source_table))
    flows.run_flow(first)
    assert len(orders.table(first.live)) == 2
    spark.sql(f"DELETE FROM delta.`{first.source_table}`")
    flow = dataclasses.replace(orders.LATEST, checkpoint_version=2)
    second = orders.job_of(spark, tmp_path, flow, version=2, accept=("latest:deleted=2",))

    flows.run_flow(second)

    assert orders.table(second.live) == []
    assert second.run.report.impact == Impact(before=2, after=0, deleted=2, changed=0, added=0, read=0, quarantined=0)
    rows.write.format("delta").mode("append").save(str(first.source_table))
    flows.run_flow(orders.job_of(spark, tmp_path, flow, version=2))
    assert len(orders.table(second.live)) == 2, "the next rows go into the live table"


def test_without_a_batch_the_live_table_is_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    live(spark, tmp_path, orders.SILVER, LIVE)
    job = staged(spark, tmp_path, orders.SILVER, LIVE, batches=0)

    after = swap.swap_in(job)

    assert len(orders.table(job.live)) == 3
    assert (job.run.report.batches, after.target == job.live) == ([], False)


@pytest.mark.nightly
def test_with_other_keys_all_rows_are_replaced_and_the_commit_is_marked(spark: SparkSession, tmp_path: Path) -> None:
    live(spark, tmp_path, orders.SILVER, LIVE)
    target = with_fields(orders.SILVER.target, keys=("amount",))
    rekeyed = dataclasses.replace(orders.SILVER, target=target)
    job = staged(spark, tmp_path, rekeyed, [(1, 10, "a", 1)])

    swap.swap_in(job)

    (line,) = job.run.report.batches
    assert (line.upserted, line.deleted, line.unchanged, line.groups) == (1, 3, 0, 4)
    commit = next(iter(tables.commits(job.live, 1, 1)))
    assert (commit.metadata["prepared"]["replaced"], commit.metadata["batch_id"]) == (True, 1)
    assert tables.transactions(spark, job.live)[job.app_id] == 1


@pytest.mark.nightly
def test_rows_that_cannot_be_compared_replace_the_table_and_its_schema(spark: SparkSession, tmp_path: Path) -> None:
    live(spark, tmp_path, orders.SILVER, LIVE)
    retyped = "id int, amount string, _row_id string, _batch_id bigint"
    job = staged(spark, tmp_path, orders.SILVER, [(1, "10", "a", 1)], retyped)

    swap.swap_in(job)

    assert [row["amount"] for row in orders.table(job.live)] == ["10"]
    assert [commit.metadata["prepared"]["replaced"] for commit in tables.commits(job.live, 1, 1)] == [True]


def test_keys_are_those_of_the_newest_version_that_wrote_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """Versions are compared as numbers (v10 is newer than v9); the transaction id of a replay contains none."""
    job = orders.job_of(spark, tmp_path, orders.SILVER, version=11)
    other = with_fields(orders.SILVER.target, keys=("amount",))
    for version, target in ((9, other), (10, orders.SILVER.target)):
        flow = dataclasses.replace(orders.SILVER, target=target, checkpoint_version=version)
        checkpoint.write_sidecar(job.place, flow)
    rows = spark.createDataFrame(LIVE, COLUMNS)
    for batch_id, app_id in enumerate(("orders/silver/v9/0", "orders/silver/v10/0", "orders/silver/v99/0/window")):
        writes.append(rows, job.live, writes.Transaction(app_id=app_id, batch_id=batch_id, prepared={}))

    assert not swap.rekeyed(job)


def position(job: Job, batch_id: int, version: int, *, of_snapshot: bool = False) -> None:
    offset = {"reservoirId": "t", "reservoirVersion": version, "index": -1, "isStartingVersion": of_snapshot}
    orders.plan_batch(job, batch_id, offset)


def committed(job: Job, batch_id: int) -> None:
    path = job.place.checkpoint / "commits" / str(batch_id)
    Path(path.parent).mkdir(parents=True, exist_ok=True)
    Path(path).write_text("v1\n{}")


def replaced_at_two(spark: SparkSession, folder: Path) -> Job:
    """A flow whose source has three ordinary commits and, as version 2, a replacement."""
    job = orders.job_of(spark, folder, orders.GOLD)
    assert job.source_table is not None
    rows = spark.createDataFrame([(1,)], "id int")
    for batch_id in range(4):
        txn = writes.Transaction(app_id="orders/silver/v1/0", batch_id=batch_id, prepared={"replaced": batch_id == 2})
        (writes.replace_table if batch_id == 2 else writes.append)(rows, job.source_table, txn)
    return job


def test_a_replacement_of_the_source_after_the_position_is_detected(spark: SparkSession, tmp_path: Path) -> None:
    """The version of a position is read next; a first load has read its whole version."""
    job = replaced_at_two(spark, tmp_path)
    assert not swap.is_past_replacement(job), "the flow has no position yet"
    past = {}
    for version, of_snapshot in ((1, False), (2, False), (3, False), (1, True), (2, True)):
        position(job, 0, version, of_snapshot=of_snapshot)
        past[version, of_snapshot] = swap.is_past_replacement(job)

    assert past == {(1, False): True, (2, False): True, (3, False): False, (1, True): True, (2, True): False}
    position(job, 0, 3)
    committed(job, 0)
    position(job, 1, 1)
    assert not swap.is_past_replacement(job), "the committed position counts; the planned one only without it"


def test_a_replacement_of_a_joined_source_of_which_nothing_was_read_is_detected(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark has no position of it; the version from which it is read is noted beside the checkpoint."""
    replaced_at_two(spark, tmp_path)
    joined = Flow(
        name="gold",
        sources=(ChangeFeed("silver.latest"), ChangeFeed("silver.orders", on={"id": "id"})),
        transform="orders:joined",
        target=Table("gold.orders", keys=("id",)),
    )
    past = {}
    for began in (1, 2):
        job = orders.job_of(spark, tmp_path, joined, version=began)
        assert job.source_table is not None
        orders.write_table(job.source_table, "id int", (1,))
        vector.note_starts(job.place, {"silver.latest": 0, "silver.orders": began})
        position(job, 0, 3)
        with Path(job.place.checkpoint / "offsets" / "0").open("a") as offsets:
            offsets.write("\n-")
        past[began] = swap.is_past_replacement(job)

    assert past == {1: True, 2: False}


def test_without_a_source_table_there_is_no_replacement(spark: SparkSession, tmp_path: Path) -> None:
    assert not swap.is_past_replacement(orders.job_of(spark, tmp_path, orders.BRONZE))
    assert not swap.is_past_replacement(orders.job_of(spark, tmp_path, orders.GOLD))


def test_the_next_refresh_has_its_own_transaction_id(spark: SparkSession, tmp_path: Path) -> None:
    place = orders.job_of(spark, tmp_path, orders.GOLD, version=3, refresh=1).place.next_refresh
    assert (place.app_id, json.dumps([place.version, place.refresh])) == ("orders/gold/v3/2", "[3, 2]")
