"""One flow's run: what it refuses before it reads, what it reads once, and where a new version is built."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import flow_context as orders
from tidegate.checkpoints import checkpoint, progress, refusal
from tidegate.checkpoints.lease import holder
from tidegate.errors import (
    CheckpointCorruptError,
    CheckpointIncompatibleError,
    ContractRefusedError,
    GateRefusedError,
    OffsetsExpiredError,
    SpecDriftError,
    SpecError,
)
from tidegate.layout import Layout
from tidegate.ops import store
from tidegate.report import BatchRecord, Verdict
from tidegate.spark import flow
from tidegate.spark.batch import ledger
from tidegate.spark.context import FlowContext
from tidegate.spark.lake import sinks, tables
from tidegate.spark.reprocessing import replay, swap
from tidegate.spec import ChangeFeed, Table
from tidegate.status import backlog
from tidegate.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spec import Flow

pytestmark = pytest.mark.jvm

WINDOW = Window.of_dates("2026-03-01", "2026-03-02", "UTC")


def land(folder: Path, name: str, *records: dict[str, Any]) -> None:
    path = folder / "landing" / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def run(spark: SparkSession, folder: Path, declared: Flow, **more: Any) -> FlowContext:
    """Run a flow with the checkpoint that its declaration uses now, as a job does."""
    context = orders.flow_context(spark, folder, declared, version=declared.checkpoint_version, **more)
    context.ref = checkpoint.current(context.layout, context.pipeline, declared)
    flow.run_flow(context)
    return context


def in_version_two(declared: Flow) -> Flow:
    return dataclasses.replace(declared, checkpoint_version=2)


def written(context: FlowContext, path: Path, batch_id: int, app_id: str | None = None) -> None:
    """A table that holds a batch."""
    txn = sinks.Transaction(app_id=app_id or context.app_id, batch_id=batch_id, planned={})
    sinks.append(context.spark.createDataFrame([(1,)], "id int"), path, txn)


def commit(context: FlowContext, batch_id: int) -> None:
    path = context.checkpoint / "commits" / str(batch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("v1\n{}")


def test_a_flow_whose_source_is_not_there_yet_touches_nothing(spark: SparkSession, tmp_path: Path) -> None:
    context = run(spark, tmp_path, orders.SILVER)

    assert (context.report.batches, context.report.seconds) == ([], 0.0)
    assert not context.layout.lake.exists()


def test_an_increment_takes_what_is_new_once_in_bounded_batches_under_the_flows_leases(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = dataclasses.replace(orders.BRONZE.source, max_files_per_trigger=2)
    bronze = dataclasses.replace(orders.BRONZE, source=source)
    for number in range(3):
        land(tmp_path, f"{number}.json", {"id": number, "at": 1, "amount": 5})
    seen: list[str | None] = []

    def transform(rows: Any) -> Any:
        layout = Layout(tmp_path / "lake", tmp_path / "landing")
        seen.extend(holder(layout, each) for each in ("checkpoint:orders/silver", "table:silver.orders"))
        return rows

    first = run(spark, tmp_path, bronze)
    silver = run(spark, tmp_path, orders.SILVER, transform=transform)

    assert [(line.batch_id, line.files_opened) for line in first.report.batches] == [(0, 2), (1, 1)]
    assert (silver.report.batches[0].read, silver.report.target_version) == (3, 0)
    assert seen and all(str(told).startswith("attempt a1 of orders") for told in seen)
    land(tmp_path, "new.json", {"id": 2, "at": 2, "amount": 6})
    (line,) = run(spark, tmp_path, bronze).report.batches
    assert (line.batch_id, line.files_listed) == (2, 1)
    (line,) = run(spark, tmp_path, orders.SILVER).report.batches
    assert (line.batch_id, line.read, line.written) == (1, 1, 1)


def test_changes_that_vacuum_removed_are_told_and_the_next_version_derives_the_table_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    for number in range(3):
        land(tmp_path, f"{number}.json", {"id": number, "at": 1, "amount": 5})
        bronze = run(spark, tmp_path, orders.BRONZE)
        if number == 0:
            silver = run(spark, tmp_path, orders.SILVER)
    table = DeltaTable(str(bronze.live))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    assert isinstance(orders.SILVER.source, ChangeFeed)
    read = progress.planned_batch(silver.checkpoint, 0)
    with pytest.raises(
        OffsetsExpiredError, match=r"versions 1 to 2 were removed by VACUUM .* raise checkpoint_version"
    ):
        backlog.of_table(bronze.live, orders.SILVER.source, read)
    with pytest.raises(OffsetsExpiredError, match="raise checkpoint_version"):
        run(spark, tmp_path, orders.SILVER)
    run(spark, tmp_path, in_version_two(orders.SILVER))
    assert [row["id"] for row in orders.table(silver.live)] == [0, 1, 2]


def test_what_a_batch_raises_ends_the_flow_by_its_own_name_and_the_batch_waits(
    spark: SparkSession, tmp_path: Path
) -> None:
    land(tmp_path, "a.json", {"id": 1, "at": 1, "amount": 5})
    run(spark, tmp_path, orders.BRONZE)

    with pytest.raises(SpecError, match="does not return id"):
        run(spark, tmp_path, orders.SILVER, transform=lambda rows: rows.drop("id"))

    (line,) = run(spark, tmp_path, orders.SILVER).report.batches
    assert (line.batch_id, line.written) == (0, 1)


def test_a_new_version_of_a_keyed_table_is_built_beside_it_and_swapped_in(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "a.json", {"id": 1, "at": 1, "amount": 5}, {"id": None, "at": 1}, {"id": 2, "at": 1, "amount": 6})
    run(spark, tmp_path, orders.BRONZE)
    run(spark, tmp_path, orders.SILVER)
    silver = in_version_two(orders.SILVER)

    def anew(rows: Any) -> Any:
        return rows.selectExpr("* EXCEPT (amount)", "amount + 100 AS amount")

    bumped = run(spark, tmp_path, silver, transform=anew)

    kinds = [(line.kind, line.upserted, line.unchanged) for line in bumped.report.batches]
    assert kinds == [("upsert", 0, 0), ("swap", 2, 0)]
    assert [row["amount"] for row in orders.table(bumped.live)] == [105, 106]
    assert bumped.target == bumped.live and not swap.staging(bumped).exists()
    states = {row["_checkpoint_version"]: row["state"] for row in orders.table(bumped.quarantine)}
    assert states == {1: "expired", 2: "open"}, "the new version has judged the same records anew"


def test_a_new_version_of_a_table_without_keys_behind_a_feed_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    log = dataclasses.replace(in_version_two(orders.SILVER), target=Table("silver.log"), transform="orders:clean")
    context = orders.flow_context(spark, tmp_path, log, version=2)
    written(context, context.live, 0, "orders/silver/v1/0")

    with pytest.raises(SpecDriftError, match="would write every row twice"):
        flow._prepare(context)

    bronze = orders.flow_context(spark, tmp_path, in_version_two(orders.BRONZE), version=2)
    written(bronze, bronze.live, 0, "orders/bronze/v1/0")
    flow._prepare(bronze)
    assert bronze.target == bronze.live, "a bronze table is the history, and stays"


@pytest.mark.parametrize("own", [False, True], ids=["never wrote it", "wrote it too"])
def test_a_table_that_another_flow_filled_is_refused_unless_it_is_ours_already(
    spark: SparkSession, tmp_path: Path, own: bool
) -> None:
    context = orders.flow_context(spark, tmp_path, orders.SILVER)
    written(context, context.live, 0, "orders/silver_of_old/v1/0")
    if own:
        orders.plan_batch(context, 0)
        written(context, context.live, 0)
        flow._prepare(context)
        return
    with pytest.raises(SpecDriftError, match="was filled by orders/silver_of_old"):
        flow._prepare(context)
    assert not context.layout.sidecar("orders", "silver", 1).exists(), "what is refused is not remembered"


def test_a_table_that_is_gone_is_not_filled_from_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    context = orders.flow_context(spark, tmp_path, orders.SILVER)
    orders.plan_batch(context, 0)
    flow._prepare(context)
    commit(context, 0)
    flow._prepare(context)
    ledger.record_batch(context, BatchRecord(flow="silver", batch_id=0, app_id=context.app_id, kind="upsert"))

    with pytest.raises(CheckpointCorruptError, match="gone or was replaced"):
        flow._prepare(context)

    written(context, context.live, 0)
    flow._prepare(context)
    shutil.rmtree(context.live)
    written(context, swap.staging(context), 0)
    flow._prepare(context)


@pytest.mark.parametrize("where", ["live", "quarantine"])
def test_a_bump_waits_for_a_batch_of_the_old_version_that_is_half_written(
    spark: SparkSession, tmp_path: Path, where: str
) -> None:
    old = orders.flow_context(spark, tmp_path, orders.SILVER)
    new = orders.flow_context(spark, tmp_path, in_version_two(orders.SILVER), version=2)
    orders.plan_batch(old, 0)
    commit(old, 0)
    written(old, getattr(old, where), 0)
    orders.plan_batch(old, 1)
    flow._check_old_versions_finished(new)

    written(old, getattr(old, where), 1)

    with pytest.raises(CheckpointIncompatibleError, match="finish it with the old declaration first") as refused:
        flow._prepare(new)
    assert refused.value.version == 1
    commit(old, 1)
    flow._check_old_versions_finished(new)


@pytest.mark.parametrize("where", ["live", "quarantine"])
def test_a_checkpoint_that_knows_less_than_a_table_is_refused(spark: SparkSession, tmp_path: Path, where: str) -> None:
    context = orders.flow_context(spark, tmp_path, orders.SILVER)
    orders.plan_batch(context, 0)
    written(context, getattr(context, where), 0)
    flow._prepare(context)
    written(context, getattr(context, where), 1)

    with pytest.raises(CheckpointCorruptError, match="restored from an older copy"):
        flow._prepare(context)


def test_a_swap_whose_commit_is_there_is_recorded_before_anything_else(spark: SparkSession, tmp_path: Path) -> None:
    context = orders.flow_context(spark, tmp_path, in_version_two(orders.SILVER), version=2)
    for batch_id in (0, 1):
        orders.plan_batch(context, batch_id)
    rows = spark.createDataFrame([(1,)], "id int")
    told = {"kind": "swap", "replaced": True, "rows": 1, "rows_before": 1}
    sinks.append(rows, context.live, orders.transaction(dataclasses.replace(context, ref=first_version(context)), 3))
    sinks.append(rows, swap.staging(context), orders.transaction(context, 1))
    sinks.replace_table(rows, context.live, sinks.Transaction(app_id=context.app_id, batch_id=1, planned=told))

    flow._prepare(context)

    assert [line.kind for line in context.report.batches] == ["swap"]
    assert (context.target == context.live, swap.staging(context).exists()) == (True, False)


def first_version(context: FlowContext) -> checkpoint.CheckpointRef:
    return dataclasses.replace(context.ref, version=1)


def asked(spark: SparkSession, folder: Path, declared: Flow, **more: Any) -> FlowContext:
    """A context of a request, with the checkpoint that is in use now."""
    made = orders.flow_context(spark, folder, declared, **more)
    made.ref = checkpoint.current(made.layout, made.pipeline, declared)
    return made


def test_a_full_refresh_opens_a_checkpoint_of_its_own_once_per_request(spark: SparkSession, tmp_path: Path) -> None:
    def refreshed(request_id: str, mode: str = "full_refresh", **more: Any) -> FlowContext:
        context = asked(spark, tmp_path, orders.SILVER, mode=mode, request_id=request_id, **more)
        flow._refresh_as_asked(context)
        return context

    assert refreshed("q0").ref.refresh == 0, "a checkpoint that was never used is fresh"
    orders.plan_batch(orders.flow_context(spark, tmp_path, orders.SILVER), 0)

    first = refreshed("q1")
    assert (first.ref.refresh, first.report.refresh) == (1, 1)
    told = checkpoint.opened(first.layout, first.ref)
    assert (told["request_id"], told["requested_by"], told["mode"]) == ("q1", "ada", "full_refresh")
    orders.plan_batch(first, 0)
    retried = refreshed("q1")
    assert (retried.ref.refresh, retried.report.notes) == (1, []), "it goes on with what it had opened"
    written(first, first.live, 0)
    commit(first, 0)
    assert refreshed("q1").report.notes == [replay.ONCE], "and says so when all is done"
    second = refreshed("q2")
    assert second.ref.refresh == 2
    orders.plan_batch(second, 0)
    for mode in ("incremental", "replay", "reingest"):
        assert refreshed("q3", mode).ref.refresh == 2, mode


def test_a_reingest_opens_a_checkpoint_of_its_own_for_bronze_alone_and_not_for_a_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = {}
    for declared in (orders.BRONZE, orders.SILVER):
        orders.plan_batch(orders.flow_context(spark, tmp_path, declared), 0)
        for window in (WINDOW, None):
            context = asked(spark, tmp_path, declared, mode="reingest", window=window)
            flow._refresh_as_asked(context)
            found[declared.name, window is None] = context.ref.refresh

    assert found == {("bronze", False): 0, ("bronze", True): 1, ("silver", False): 0, ("silver", True): 0}


def verdict(context: FlowContext, batch_id: int) -> Verdict:
    return Verdict(
        flow="silver",
        batch_id=batch_id,
        app_id=context.app_id,
        suite="orders/silver",
        suite_fingerprint="s1",
        code_fingerprint="c1",
        outcome="refused",
    )


def test_a_refusal_is_noted_for_plan_while_its_batch_waits(spark: SparkSession, tmp_path: Path) -> None:
    context = orders.flow_context(spark, tmp_path, orders.SILVER)
    orders.plan_batch(context, 0)
    commit(context, 0)
    flow.note_refusal(context, GateRefusedError(verdict(context, 0)))
    assert refusal.noted(context.layout, context.ref) == {}, "no batch waits"
    orders.plan_batch(context, 1)

    flow.note_refusal(context, GateRefusedError(verdict(context, 1)))

    assert refusal.noted(context.layout, context.ref) == {
        **{"batch_id": 1, "suite_fingerprint": "s1", "code_fingerprint": "c1"}
    }
    assert refusal.waiting(context.layout, context.ref) == 1
    drifted = ContractRefusedError("orders", "silver", 1, drift="d1", changes=("new field x",), declared="f1")
    flow.note_refusal(context, drifted)
    assert refusal.noted(context.layout, context.ref) == {"batch_id": 1, "drift": "d1", "declared": "f1"}


def test_a_table_keeps_no_line_of_a_flow_that_was_turned_away(spark: SparkSession, tmp_path: Path) -> None:
    context = orders.flow_context(spark, tmp_path, orders.SILVER)
    land(tmp_path, "a.json", {"id": 1, "at": 1, "amount": 5})
    run(spark, tmp_path, orders.BRONZE)
    written(context, context.live, 0, "orders/another/v1/0")

    with pytest.raises(SpecDriftError):
        flow.run_flow(context)

    assert tables.version(spark, context.live) == 0
    assert store.select(context.layout.ops("orders", "ledger"), "SELECT flow FROM held") == [{"flow": "bronze"}]
    assert [holder(context.layout, each) for each in ("checkpoint:orders/silver", "table:silver.orders")] == [
        None,
        None,
    ]
