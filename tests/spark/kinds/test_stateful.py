"""A stateful flow gives in increments what one stream would give, whatever crashes; what would break that is refused."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fault_points import fault
from tests.slices import of_week
from tests.spark.kinds.large_state import BOUND_MB, CARDS
from tests.spark.kinds.payments import DECISIONS, FIRSTS, TOTALS, WINDOWS, Payments, Row, sums, windows
from tests.spark.queries import expect_idle
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.errors import (
    LateRowsDroppedError,
    RewriteRefusedError,
    SpecError,
    StateCodeChangedError,
    StateLostError,
    StateSchemaChangedError,
    TableInDoubtError,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spec import Flow

pytestmark = pytest.mark.jvm

STEPS = (
    "before:evaluate_batch",
    "after:evaluate_batch",
    "before:write_target",
    "after:write_target",
    "after:record_batch",
)
"""Before the state of a batch is stored, before and after its results are in the table, and before Spark's commit of the batch."""


def test_windows_close_once_in_increments_that_crash_between_state_table_and_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 1), ("b", "c2", 2, 2), ("c", "c1", 4, 9))
    payments.add(("d", "c1", 8, 25))
    payments.run_and_crash("after:write_target")
    assert payments.plan().has_work
    payments.code = tmp_path / "edited.py"
    payments.code.write_text("other code would not make the state of the results in the table")
    with pytest.raises(StateCodeChangedError):
        payments.run()
    payments.code = None
    payments.run()
    assert payments.table() == sums(payments.rows, 15) != []
    assert not payments.plan().has_work
    payments.add(("e", "c2", 16, 24), ("f", "c2", 32, 61))
    payments.run_and_crash("after:evaluate_batch")
    payments.run_and_crash("after:record_batch", batch=0)
    job = payments.run()

    assert payments.table() == sums(payments.rows, 51)
    lines = payments.ledger()
    assert {line["kind"] for line in lines} == {"emit"}
    assert sum(line["written"] for line in lines) == sum(line["results"] for line in lines) == len(payments.table())
    assert [line["read"] for line in lines] == [4, 2], "also those of batches without results"
    assert lines[-1]["state_rows"] == 1
    assert job.run.report.state != "failed"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("flow", "step"),
    # Each week another step for each flow, not the same one for all.
    [
        (flow, step)
        for number, flow in enumerate((WINDOWS, TOTALS, DECISIONS))
        for step in of_week(STEPS[number:] + STEPS[:number], 1)
    ],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_crash_at_any_step_changes_no_result(spark: SparkSession, tmp_path: Path, flow: Flow, step: str) -> None:
    commits: list[list[Row]] = [
        [("a", "c1", 1, 1), ("b", "c2", 2, 2)],
        [("c", "c1", 4, 30)],
        [("d", "c2", 8, 45), ("e", "c1", 16, 75)],
    ]
    crashed, undisturbed = Payments(spark, tmp_path / "crashed", flow), Payments(spark, tmp_path / "undisturbed", flow)
    for number, rows in enumerate(commits):
        crashed.add(*rows)
        undisturbed.add(*rows)
        undisturbed.run()
        if number:
            crashed.run_and_crash(step)
        if number != 1:
            crashed.run()

    assert crashed.table() == undisturbed.table() != []
    assert sum(line["written"] for line in crashed.ledger()) >= len(crashed.table())


def test_the_clock_closes_the_last_window_by_a_heartbeat(spark: SparkSession, tmp_path: Path) -> None:
    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 1))
    payments.run()
    for row in (("b", "c1", 2, 3), ("c", "c2", 4, 4), ("d", "c1", 8, 5)):
        payments.add(row)
    assert payments.table() == []
    payments.beat(21)
    assert payments.plan().has_work
    payments.run()

    assert payments.table() == sums(payments.rows, 11) != [], "it overtook no row that was there before it"
    expect_idle(payments.run, "windows")
    payments.beat(31)
    payments.run()
    assert payments.table() == sums(payments.rows, 21)


@pytest.mark.nightly
def test_batches_are_bounded_and_hold_whole_commits(spark: SparkSession, tmp_path: Path) -> None:
    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 1), ("b", "c2", 2, 25))
    payments.add(("c", "c1", 4, 26), ("d", "c1", 8, 15))
    payments.add(("e", "c2", 16, 60))
    report = payments.run().run.report
    payments.add(("f", "c1", 32, 70))
    payments.add(("g", "c1", 64, 90))
    payments.run()

    assert payments.table() == sums(payments.rows, 79)
    assert len({batch.batch_id for batch in report.batches}) > 1, "the feed admits one file to a batch"


@pytest.mark.nightly
def test_unread_heartbeats_do_not_overtake_rows_that_were_added_before_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 1))
    payments.add(("b", "c1", 2, 3))
    # Spark drops late rows from the second batch after the one that moves the watermark.
    payments.add(("c", "c1", 4, 5))
    payments.beat(60)
    payments.add(("d", "c1", 8, 55))
    payments.run()

    assert payments.table() == sums(payments.rows, 50)


@pytest.mark.nightly
def test_results_with_keys_replace_the_earlier_ones(spark: SparkSession, tmp_path: Path) -> None:
    payments = Payments(spark, tmp_path, TOTALS)
    payments.add(("a", "c1", 1, 1), ("b", "c2", 2, 2))
    payments.run()
    payments.add(("c", "c1", 4, 9), ("d", "c2", 0, 9))
    payments.run_and_crash("before:write_target")
    payments.run()

    assert payments.table() == sums(payments.rows, 1000)
    assert [(line["results"], line["written"], line["unchanged"]) for line in payments.ledger()] == [
        (2, 2, 0),
        (2, 1, 1),
    ]


@pytest.mark.nightly
def test_a_processor_of_python_decides_about_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    payments = Payments(spark, tmp_path, DECISIONS)
    payments.add(("a", "c1", 1, 1), ("b", "c2", 2, 2))
    payments.run()
    payments.add(("c", "c1", 4, 30))
    payments.run_and_crash("after:write_target")
    payments.run()
    payments.add(("d", "c1", 8, 75))
    payments.run()

    assert sorted((row["_row_id"], row["payments"], row["amount"]) for row in payments.table()) == [
        ("a", 1, 1),
        ("b", 1, 2),
        ("c", 2, 5),
        ("d", 2, 12),
    ]


def test_a_row_that_spark_would_drop_fails_the_run_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 60))
    payments.run()
    payments.add(("late", "c1", 2, 1))
    with pytest.raises(LateRowsDroppedError, match=r"Spark dropped 1 of the rows of 'silver\.orders'"):
        payments.run()
    assert payments.table() == []


@pytest.mark.nightly
def test_a_batch_in_the_table_is_not_finished_by_other_code(spark: SparkSession, tmp_path: Path) -> None:
    payments = Payments(spark, tmp_path)
    payments.code = tmp_path / "orders.py"
    payments.code.write_text("first")
    payments.add(("a", "c1", 1, 1))
    payments.add(("b", "c1", 2, 60))
    payments.run_and_crash("after:write_target")
    payments.code.write_text("second")
    with pytest.raises(StateCodeChangedError, match="checkpoint_version=2"):
        payments.run()
    payments.flow = dataclasses.replace(WINDOWS, checkpoint_version=2)
    payments.run()

    assert payments.table() == sums(payments.rows, 50)
    assert [line["kind"] for line in payments.ledger()] == ["emit", "emit", "swap"]


@pytest.mark.nightly
def test_a_new_version_derives_the_table_again_from_the_whole_feed_in_its_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 1))
    payments.run()
    payments.add(("b", "c1", 2, 60))
    payments.add(("c", "c1", 4, 55))
    payments.run()
    before = payments.table()

    def doubled(rows: DataFrame) -> DataFrame:
        made = windows(rows)
        return made.withColumn("amount", made["amount"] * 2)

    payments.flow = dataclasses.replace(WINDOWS, checkpoint_version=2)
    payments.add(("d", "c1", 8, 75))
    report = payments.run(transform=doubled).run.report

    assert before == sums(payments.rows[:3], 50)
    assert payments.table() == [{**row, "amount": row["amount"] * 2} for row in sums(payments.rows, 65)]
    assert report.batches[-1].kind == "swap"


@pytest.mark.nightly
def test_a_rebuild_without_results_leaves_an_empty_table_once_it_is_accepted(
    spark: SparkSession, tmp_path: Path
) -> None:
    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 1))
    payments.add(("b", "c1", 2, 45))
    payments.add(("c", "c1", 2, 46))
    payments.run()
    assert payments.table() != []
    payments.flow = dataclasses.replace(WINDOWS, checkpoint_version=2)

    with pytest.raises(RewriteRefusedError, match=r"delete 1 of 1 row"):
        payments.run(transform=lambda rows: windows(rows).where("amount < 0"))
    assert payments.table() != []
    assert payments.plan().wait is not None
    payments.run(transform=lambda rows: windows(rows).where("amount < 0"), accept=("windows:deleted=1",))

    assert payments.table() == []
    assert not payments.plan().has_work


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (lambda rows: rows.select("_row_id", "card"), "has: none"),
        (lambda rows: rows.dropDuplicates(["card"]), "remembers every row for ever"),
        (lambda rows: rows.groupBy("card").count(), "would keep every group for ever"),
        (lambda rows: rows.limit(3), "neither sorted nor limited"),
        (lambda rows: windows(rows.withWatermark("at", "1 hour")), "applies already"),
        (lambda rows: rows.alias("a").join(rows.alias("b"), "card"), "joins its stream with itself"),
        (lambda rows: rows.sparkSession.range(3), "does not return a stream"),
    ],
)
def test_a_plan_that_would_grow_for_ever_or_cannot_run_is_refused_before_its_first_batch(
    spark: SparkSession, tmp_path: Path, transform: Any, message: str
) -> None:
    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 1))
    with pytest.raises(SpecError, match=message):
        payments.run(transform=transform)


@pytest.mark.nightly
def test_lost_or_changed_state_is_named_and_a_new_version_makes_it_again(spark: SparkSession, tmp_path: Path) -> None:
    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 1))
    payments.run()
    payments.add(("b", "c1", 2, 31))

    def counted(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        window = F.window("at", "10 minutes")
        totals = rows.groupBy(window, "card").agg(F.sum("amount").alias("amount"), F.count("*").alias("payments"))
        return totals.select("window.start", "card", "amount", "payments")

    with pytest.raises(StateSchemaChangedError, match="raise checkpoint_version"):
        payments.run(transform=counted)
    for file in Path(payments.job().place.checkpoint / "state").rglob("*.changelog"):
        file.unlink()
    with pytest.raises(StateLostError, match="Restore the checkpoint"):
        payments.run()
    payments.flow = dataclasses.replace(WINDOWS, checkpoint_version=2)
    payments.run()

    assert payments.table() == sums(payments.rows, 21)


@pytest.mark.nightly
def test_a_lost_file_of_a_snapshot_is_replaced_by_the_changes_and_without_them_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    payments = Payments(spark, tmp_path)
    state = payments.job().place.checkpoint / "state"

    def snapshot_is_stored(_job: object) -> None:
        wait_until(
            lambda: len(list(Path(state).rglob("*.zip"))) == 2, "maintenance stores a snapshot of both partitions"
        )

    def lose(names: str) -> None:
        # A process that runs on has the state in memory, the next one has not.
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        lost = list(Path(state).rglob(names))
        assert lost
        for file in lost:
            file.unlink()

    deltas = "spark.sql.streaming.stateStore.minDeltasForSnapshot"
    spark.conf.set(deltas, "2")
    try:
        payments.add(("a", "c1", 1, 1), ("b", "c2", 2, 2))
        with fault("after:evaluate_batch:windows", snapshot_is_stored, batch=1):
            payments.run()
    finally:
        spark.conf.unset(deltas)
    lose("*.sst")
    payments.add(("c", "c1", 4, 9))
    payments.run()
    lose("*.changelog")
    payments.add(("d", "c1", 8, 31))
    with pytest.raises(StateLostError, match="Restore the checkpoint"):
        payments.run()
    assert payments.table() == []
    payments.flow = dataclasses.replace(WINDOWS, checkpoint_version=2)
    payments.run()

    assert payments.table() == sums(payments.rows, 21) != []


@pytest.mark.nightly
def test_a_deleted_row_of_the_source_cannot_be_taken_back_from_state(spark: SparkSession, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    payments = Payments(spark, tmp_path)
    payments.add(("a", "c1", 1, 1), ("b", "c1", 2, 2))
    payments.run()
    DeltaTable(str(payments.path)).delete("_row_id = 'a'")
    with pytest.raises(TableInDoubtError, match=r"is a DELETE by another writer .* tidegate recover silver\.orders"):
        payments.run()
    payments.flow = dataclasses.replace(WINDOWS, checkpoint_version=2)
    payments.add(("c", "c1", 4, 60))
    payments.run()

    assert payments.table() == sums(payments.rows[1:], 50)


@pytest.mark.nightly
def test_duplicates_within_the_delay_are_dropped_once(spark: SparkSession, tmp_path: Path) -> None:
    payments = Payments(spark, tmp_path, FIRSTS)
    payments.add(("a", "c1", 1, 1))
    payments.run()
    payments.add(("b", "c1", 2, 2), ("c", "c2", 4, 60))
    payments.run()
    payments.add(("d", "c1", 8, 61))
    payments.run()

    assert sorted(row["_row_id"] for row in payments.table()) == ["a", "c", "d"]


@pytest.mark.nightly
def test_state_larger_than_its_memory_gives_the_same_windows(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.kinds.large_state", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert ended.returncode == 0, ended.stderr[-4000:]
    counted = json.loads(ended.stdout.splitlines()[-1])

    assert (counted["windows"], counted["amount"]) == (CARDS, CARDS * (CARDS - 1) // 2)
    batches, bound = counted["batches"], BOUND_MB * 1024 * 1024
    assert min(batch["tables"] for batch in batches if batch["rows"] >= CARDS) > 4 * bound
    assert 0 < max(batch["memory"] for batch in batches) < 2 * bound
    closing = batches[-1]
    assert closing["rows"] == 1
    assert closing["blocks_read"] > 0, "the windows came from the disk"
