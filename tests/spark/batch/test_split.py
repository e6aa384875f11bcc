"""Reading what earlier attempts wrote, and the checks that no row is lost."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.job import LATEST, job_of
from tidegate.errors import CheckpointCorruptError, LedgerImbalanceError
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch.checks import check_balance, check_commit, decide
from tidegate.spark.batch.split import Decision, Split, changed_rows, settle
from tidegate.spark.lake import writes
from tidegate.spark.lake.tables import Commit
from tidegate.spark.lake.writes import Transaction
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job


@pytest.fixture
def latest(spark: SparkSession, tmp_path: Path) -> Job:
    return job_of(spark, tmp_path, LATEST)


def write(job: Job, path: Path, batch_id: int, app_id: str | None = None) -> None:
    rows = job.spark.createDataFrame([(batch_id,)], "id int").coalesce(1)
    writes.append(rows, Address.local(path), Transaction(app_id=app_id or job.app_id, batch_id=batch_id, prepared={}))


@pytest.mark.jvm
def test_the_decision_is_read_from_both_tables(latest: Job) -> None:
    nothing, split = Decision(quarantined=False, written=False), Decision(quarantined=True, written=False)

    assert decide(latest, 0) == nothing, "there are no tables"
    write(latest, Path(latest.place.quarantine), 0)
    assert decide(latest, 0) == split
    write(latest, Path(latest.target), 0)
    assert decide(latest, 0) == Decision(quarantined=True, written=True)
    assert decide(latest, 1) == nothing, "they have the batch before"
    write(latest, Path(latest.target), 1)
    assert decide(latest, 1) == Decision(quarantined=False, written=True)


@pytest.mark.jvm
def test_batches_of_another_checkpoint_are_ignored(latest: Job) -> None:
    for path in (latest.place.quarantine, latest.target):
        write(latest, Path(path), 3, "orders/latest/v0/0")

    assert decide(latest, 3) == Decision(quarantined=False, written=False)
    assert decide(latest, 0) == Decision(quarantined=False, written=False)


@pytest.mark.jvm
@pytest.mark.parametrize("ahead", ["target", "quarantine"])
def test_a_table_with_a_later_batch_than_the_checkpoint_is_an_error_that_names_the_table(
    latest: Job, ahead: str
) -> None:
    write(latest, Path(latest.target if ahead == "target" else latest.place.quarantine), 4)

    with pytest.raises(
        CheckpointCorruptError, match=rf"its {ahead} has batch 4 .* tidegate recover silver\.latest"
    ) as caught:
        decide(latest, 3)

    assert caught.value.path == str(latest.place.checkpoint)


def record(**counts: Any) -> LedgerLine:
    return LedgerLine(flow="latest", batch_id=3, app_id="orders/latest/v1/0", kind="upsert", **counts)


@pytest.mark.jvm
def test_a_line_that_does_not_balance_is_an_error_with_its_counts(latest: Job) -> None:
    check_balance(latest, record(read=3, written=2, quarantined=1))

    for wrong in (record(read=3, written=2), record(read=2, written=3)):
        with pytest.raises(
            LedgerImbalanceError, match=r"1 row without a disposition, or with several \(read \d, written \d\)"
        ):
            check_balance(latest, wrong)


@pytest.mark.jvm
def test_a_commit_must_report_as_many_rows_as_expected(latest: Job) -> None:
    def split(expected_rows: int) -> Split:
        return Split(
            prepared=record(read=2, written=2), refused=None, write=lambda _: commit, expected_rows=expected_rows
        )

    commit = Commit(version=5, metrics={"numOutputRows": 2}, metadata={})
    check_commit(latest, split(2), commit)

    for wrong in (1, 3, 0):
        with pytest.raises(
            LedgerImbalanceError, match=rf"{wrong} rows? to be written to .*, but its commit 5 reports 2"
        ):
            check_commit(latest, split(wrong), commit)


def test_copied_rows_of_a_merge_are_not_counted() -> None:
    merged = {
        "numTargetRowsInserted": 1,
        "numTargetRowsUpdated": 20,
        "numTargetRowsDeleted": 300,
        "numTargetRowsCopied": 4000,
        "numOutputRows": 4021,
    }

    assert changed_rows(Commit(version=1, metrics=merged, metadata={})) == 321
    assert changed_rows(Commit(version=1, metrics={"numOutputRows": 7}, metadata={})) == 7
    assert changed_rows(Commit(version=1, metrics={}, metadata={})) == 0


def merge_commit(read: int, *counts: int) -> Commit:
    """The commit of a MERGE that read ``read`` rows; ``counts`` are inserted, updated and deleted rows."""
    names = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    return Commit(version=5, metrics={"numSourceRows": read, **dict(zip(names, counts, strict=True))}, metadata={})


def test_rows_that_a_merge_did_not_change_are_superseded_or_unchanged() -> None:
    rows = settle(record(read=7, written=6, quarantined=1), merge_commit(6, 1, 2, 0), "rows")
    assert (rows.written, rows.superseded, rows.imbalance(), rows.target_version) == (3, 3, 0, 5)

    groups = dataclasses.replace(record(read=0, written=0), kind="recompute", groups=9, upserted=7, deleted=2)
    settled = settle(groups, merge_commit(9, 1, 2, 1), "groups")
    assert (settled.upserted, settled.deleted, settled.unchanged, settled.imbalance()) == (3, 1, 5, 0)

    first = Commit(version=0, metrics={"numOutputRows": 7}, metadata={})
    settled = settle(groups, first, "groups")
    assert (settled.upserted, settled.deleted, settled.unchanged) == (7, 0, 2), "a table's first commit is an append"


@pytest.mark.jvm
@pytest.mark.parametrize(
    "commit",
    [merge_commit(5, 1, 1, 0), merge_commit(7, 1, 1, 0), merge_commit(6, 6, 1, 0)],
    ids=["less", "more", "twice"],
)
def test_a_merge_must_read_as_many_rows_as_expected_and_write_no_more(latest: Job, commit: Commit) -> None:
    prepared = record(read=6, written=6)
    split = Split(prepared=prepared, refused=None, write=lambda _: commit, expected_rows=6, settled="rows")
    check_commit(latest, split, merge_commit(6, 1, 1, 0))

    with pytest.raises(LedgerImbalanceError, match="6 rows to be written"):
        check_commit(latest, split, commit)
