"""The six steps: their order, which of them a rerun skips, and that a crash between any two of them loses no row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crashes import Crash, crash
from tests.spark.job import (
    LATEST,
    PLANNED_MS,
    backfill,
    changes,
    job_of,
    plan_batch,
    table,
    transaction,
)
from tidegate import json_codec
from tidegate.checkpoints import refusal
from tidegate.errors import CheckpointCorruptError, LedgerImbalanceError
from tidegate.errors.refusals import GateRefusal
from tidegate.lake.place import PipelinePlace
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import micro_batch, quarantine
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.lake import tables, writes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

ORDERS = "id int, at int, amount int"


@pytest.fixture
def latest(spark: SparkSession, tmp_path: Path) -> Callable[..., Job]:
    def make(**more: Any) -> Job:
        return job_of(spark, tmp_path, more.pop("flow", LATEST), **more)

    return make


class Batch:
    """A batch of two good rows and a refused one that can be run several times; it records its decisions."""

    def __init__(self, job: Job, batch_id: int = 0, **line: int) -> None:
        self.job, self.batch_id = job, batch_id
        counts: dict[str, Any] = {"read": 3, "written": 2, "quarantined": 1} | line
        self.expected_rows = counts.pop("expected_rows", 2)
        self.prepared = LedgerLine(
            flow=job.flow.name,
            batch_id=batch_id,
            app_id=job.app_id,
            kind="append",
            rules={"x": counts["quarantined"]},
            **counts,
        )
        self.decisions: list[Decision] = []
        self.crash_in_target = False
        plan_batch(job, batch_id)

    def split(self, decision: Decision) -> Split:
        spark = self.job.spark
        self.decisions.append(decision)
        good = (
            spark.createDataFrame([(1, self.batch_id), (2, self.batch_id)], "id int, batch int").coalesce(1).persist()
        )
        self.job.persisted.append(good)
        refused = spark.createDataFrame([("row", "row", ["x"], "text", "{}")], quarantine.REFUSED)

        def write(txn: writes.Transaction) -> tables.Commit:
            if self.crash_in_target:
                raise Crash
            return writes.append(good, self.job.target, txn)

        return Split(prepared=self.prepared, refused=refused, write=write, expected_rows=self.expected_rows)

    def run(self, **more: Any) -> None:
        try:
            micro_batch.run_steps(self.job, self.batch_id, self.split, **more)
        finally:
            assert self.job.persisted == [], "persisted frames are released, also after a crash"

    def lines(self) -> list[tuple[int, int, int, int | None]]:
        ledger = table(PipelinePlace(self.job.place.layout, "orders").ops("ledger"))
        return [(row["batch_id"], row["written"], row["quarantined"], row["target_version"]) for row in ledger]

    def rows(self) -> tuple[int, int]:
        """Rows in target and in quarantine."""
        return len(table(self.job.target)), len(table(self.job.place.quarantine))


def test_a_batch_is_written_to_quarantine_target_ledger_and_report(latest: Callable[..., Job]) -> None:
    job = latest()
    batch = Batch(job)

    batch.run(planning=1000.0)

    assert batch.decisions == [Decision(quarantined=False, written=False)]
    assert batch.rows() == (2, 1)
    (entry,) = table(job.place.quarantine)
    assert entry["quarantined_at"] == datetime.fromtimestamp(PLANNED_MS / 1000, UTC)
    (line,) = table(PipelinePlace(job.place.layout, "orders").ops("ledger"))
    assert (line["read"], line["written"], line["quarantined"], line["target_version"]) == (3, 2, 1, 0)
    assert dict(line["rules"]) == {"x": 1}
    assert line["seconds"] > 1000, "the time for planning is included"
    assert (line["app_id"], line["requested_by"], line["attempt"], line["checkpoint_version"]) == (
        *("orders/latest/v1/0", "ada", "a1"),
        1,
    )
    (reported,) = job.run.report.batches
    assert (reported.read, reported.target_version) == (3, 0)
    for path in (job.place.quarantine, job.target):
        assert tables.transactions(job.spark, path) == {"orders/latest/v1/0": 0}
        assert tables.find_commit(path, job.app_id, 0, 0).metadata["prepared"] == {
            **json_codec.to_plain(batch.prepared),
            "settled": "",
        }


def test_a_rerun_of_a_finished_batch_changes_nothing_and_does_not_split_it_again(
    latest: Callable[..., Job],
) -> None:
    job = latest()
    batch = Batch(job)
    batch.run()
    before = tables.version(job.spark, job.target), tables.version(job.spark, job.place.quarantine)

    batch.run()

    assert len(batch.decisions) == 1
    assert batch.rows() == (2, 1)
    assert before == (tables.version(job.spark, job.target), tables.version(job.spark, job.place.quarantine))
    assert batch.lines() == [(0, 2, 1, 0)]


def test_after_a_crash_before_the_target_the_split_is_kept_and_only_the_target_is_written(
    latest: Callable[..., Job],
) -> None:
    job = latest()
    batch = Batch(job)
    batch.crash_in_target = True
    with pytest.raises(Crash):
        batch.run()
    assert batch.rows() == (0, 1), "quarantine is always first"
    assert batch.lines() == []
    batch.crash_in_target = False

    batch.run()

    assert batch.decisions == [
        Decision(quarantined=False, written=False),
        Decision(quarantined=True, late=True, written=False, recorded=True),
    ]
    assert batch.rows() == (2, 1)
    assert tables.version(job.spark, job.place.quarantine) == 0, "it was not written again"
    assert batch.lines() == [(0, 2, 1, 0)]


def test_after_a_crash_before_the_ledger_the_line_is_taken_from_the_targets_commit(
    latest: Callable[..., Job],
) -> None:
    job = latest()
    first = Batch(job)
    first.run()
    batch = Batch(job, batch_id=1)
    split = batch.split(Decision(quarantined=False, written=False))
    job.release()
    split.write(transaction(job, 1, dataclasses.replace(batch.prepared, read=4, quarantined=2)))

    batch.run()

    assert len(batch.decisions) == 1, "it was not split again"
    assert first.lines() == [(0, 2, 1, 0), (1, 2, 2, 1)]
    assert [record.read for record in job.run.report.batches] == [3, 4]


def test_a_batch_that_does_not_balance_writes_nothing(latest: Callable[..., Job]) -> None:
    batch = Batch(latest(), written=1)

    with pytest.raises(LedgerImbalanceError, match="nothing was written"):
        batch.run()

    assert batch.rows() == (0, 0)
    assert batch.lines() == []


def test_a_commit_with_fewer_rows_than_expected_is_an_error_and_records_no_line(
    latest: Callable[..., Job],
) -> None:
    job = latest()
    batch = Batch(job, expected_rows=3)

    with pytest.raises(LedgerImbalanceError, match="3 rows to be written"):
        batch.run()

    assert batch.lines() == []
    assert job.run.report.batches == []


def test_a_checkpoint_older_than_its_tables_is_an_error_before_the_split(latest: Callable[..., Job]) -> None:
    job = latest()
    Batch(job, batch_id=2).run()
    older = Batch(job, batch_id=1)

    with pytest.raises(CheckpointCorruptError):
        older.run()

    assert older.decisions == []


def test_an_empty_batch_writes_nothing(latest: Callable[..., Job]) -> None:
    job = latest()
    plan_batch(job, 0)

    micro_batch.run_steps(job, 0, lambda _: None)

    assert not job.target.exists() and not job.place.quarantine.exists()
    assert not PipelinePlace(job.place.layout, "orders").ops("ledger").exists()
    assert job.run.report.batches == []


def test_the_decision_to_take_a_batch_out_is_cleared_once_the_batch_is_recorded(
    latest: Callable[..., Job],
) -> None:
    job = latest()
    plan_batch(job, 1)
    refusal.record(job.place, GateRefusal(batch_id=1, suite_fingerprint="s"))
    refusal.decide(job.place, LATEST, by="ada", reason="of another airport")

    Batch(job).run()
    assert job.work.decision(job, 1, "take") is not None, "another batch was recorded"
    Batch(job, batch_id=1).run()

    assert job.work.decision(job, 1, "take") is None
    assert {row["_batch_id"]: row["changed_by"] for row in table(job.place.quarantine)} == {0: None, 1: "ada"}


@pytest.mark.nightly
def test_a_backfill_updates_the_quarantine_entries_of_its_rows(latest: Callable[..., Job]) -> None:
    job = latest()
    Batch(job).run()
    window = latest(work=backfill())
    batch = Batch(window, batch_id=5, quarantined=0, written=3, expected_rows=2)
    passed = job.spark.createDataFrame([("row",)], "_row_id string")

    def split(decision: Decision) -> Split:
        result = batch.split(decision)
        refused = result.refused.limit(0) if result.refused is not None else None
        return dataclasses.replace(result, passed=passed, refused=refused)

    micro_batch.run_steps(window, 5, split)

    (entry,) = table(job.place.quarantine)
    assert (entry["state"], entry["reason"]) == ("replayed", "backfill 5")
    assert [line["app_id"] for line in table(PipelinePlace(job.place.layout, "orders").ops("ledger"))] == [
        "orders/latest/v1/0",
        "orders/latest/v1/0/window",
    ]


def test_the_first_backfill_creates_the_quarantine_table(latest: Callable[..., Job]) -> None:
    window = latest(work=backfill())
    batch = Batch(window)

    def split(decision: Decision) -> Split:
        return dataclasses.replace(batch.split(decision), passed=window.spark.createDataFrame([], "_row_id string"))

    micro_batch.run_steps(window, 0, split)

    assert [row["state"] for row in table(window.place.quarantine)] == ["open"]


def test_a_micro_batch_of_rows_is_split_judged_and_written(latest: Callable[..., Job]) -> None:
    job = latest()
    plan_batch(job, 0)
    feed = changes(job.spark, ORDERS, (1, 1, 10), (None, 1, 20), (1, 0, 5, "insert", 2))

    micro_batch.process(job, feed, 0)

    (record,) = job.run.report.batches
    assert (record.kind, record.read, record.written, record.quarantined, record.deduplicated) == ("upsert", 3, 1, 1, 1)
    assert [row["amount"] for row in table(job.target)] == [10]
    (entry,) = table(job.place.quarantine)
    assert (entry["rules"], entry["quarantined_at"].timestamp() * 1000) == (["null_key(id)"], PLANNED_MS)


def test_after_a_crash_before_the_ledger_the_counts_are_those_of_the_merge(
    latest: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = latest()
    plan_batch(job, 0)
    micro_batch.process(job, changes(job.spark, ORDERS, (1, 2, 10), (2, 1, 20)), 0)
    plan_batch(job, 1)
    older, new = (1, 1, 5), (3, 1, 30)
    with monkeypatch.context() as patch:
        patch.setattr(micro_batch, "record_batch", crash)
        with pytest.raises(Crash):
            micro_batch.process(job, changes(job.spark, ORDERS, older, new), 1)

    micro_batch.process(job, changes(job.spark, ORDERS, older, new), 1)

    record = job.run.report.batches[-1]
    assert (record.batch_id, record.written, record.superseded) == (1, 1, 1), (
        "before the MERGE, 2 rows were to be written"
    )


def test_a_rerun_with_another_transform_moves_no_row_between_target_and_quarantine(
    latest: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as F

    feed = ((1, 1, 10), (None, 1, 20), (3, 1, 30))
    plan_batch(latest(), 0)
    with monkeypatch.context() as patch:
        patch.setattr(micro_batch, "write_target", crash)
        with pytest.raises(Crash):
            job = latest()
            micro_batch.process(job, changes(job.spark, ORDERS, *feed), 0)
    edited = latest(
        transform=lambda rows: rows.withColumns({"id": F.coalesce("id", F.lit(7)), "amount": -F.col("amount")})
    )

    micro_batch.process(edited, changes(edited.spark, ORDERS, *feed), 0)

    assert [row["id"] for row in table(edited.target)] == [1, 3]
    assert [row["rules"] for row in table(edited.place.quarantine)] == [["null_key(id)"]]
    assert [record.quarantined for record in edited.run.report.batches] == [1]
