"""The run of one flow: checks before it reads, increments, new checkpoint versions, refreshes and refusals."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from tests import places
from tests.spark import job as orders
from tests.spark.queries import expect_idle
from tests.with_fields import with_fields
from tidegate.checkpoints import checkpoint, progress, refusal, rewrite
from tidegate.checkpoints.checkpoint import SIDECAR
from tidegate.checkpoints.lease import holder
from tidegate.errors import (
    CheckpointCorruptError,
    CheckpointIncompatibleError,
    ContractRefusedError,
    DeclarationConflictError,
    GateRefusedError,
    OffsetsExpiredError,
    RewriteRefusedError,
    SpecError,
)
from tidegate.errors.refusals import ContractRefusal, GateRefusal
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.ops import store
from tidegate.probes import delta
from tidegate.reports.impact import Impact
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.verdict import Verdict
from tidegate.sources.tables.measure import of_table
from tidegate.spark import flow, runs
from tidegate.spark.batch import ledger
from tidegate.spark.job import Job
from tidegate.spark.lake import tables, writes
from tidegate.spark.reprocessing import backfill
from tidegate.spec import ChangeFeed, Table
from tidegate.store import Address
from tidegate.times.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spec import Flow

pytestmark = pytest.mark.jvm

WINDOW = Window.of_dates("2026-03-01", "2026-03-02", "UTC")


def land(folder: Path, name: str, *records: dict[str, Any]) -> None:
    path = folder / "landing" / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def run(spark: SparkSession, folder: Path, declared: Flow, **more: Any) -> Job:
    """Run a flow with its current checkpoint, as a job does."""
    job = orders.job_of(spark, folder, declared, version=declared.checkpoint_version, **more)
    job = dataclasses.replace(job, place=places.current(job.place.layout, job.resolved.pipeline, declared))
    runs.load(job.run.request, declared)(job)
    return job


def in_version_two(declared: Flow) -> Flow:
    return dataclasses.replace(declared, checkpoint_version=2)


def write_batch(job: Job, path: Address, batch_id: int, app_id: str | None = None) -> None:
    """Write a batch to a table, which is created if needed."""
    txn = writes.Transaction(app_id=app_id or job.app_id, batch_id=batch_id, prepared={})
    writes.append(job.spark.createDataFrame([(1,)], "id int"), path, txn)


def commit(job: Job, batch_id: int) -> None:
    path = job.place.checkpoint / "commits" / str(batch_id)
    Path(path.parent).mkdir(parents=True, exist_ok=True)
    Path(path).write_text("v1\n{}")


def test_a_flow_whose_source_table_does_not_exist_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    job = run(spark, tmp_path, orders.SILVER)

    assert (job.run.report.batches, job.run.report.seconds) == ([], 0.0)
    assert not Path(job.place.layout.root).exists()


def test_an_increment_reads_new_files_once_in_bounded_batches_under_the_leases_of_the_flow(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = with_fields(orders.BRONZE.source, max_files_per_trigger=2)
    bronze = dataclasses.replace(orders.BRONZE, source=source)
    for number in range(3):
        land(tmp_path, f"{number}.json", {"id": number, "at": 1, "amount": 5})
    owners: list[str | None] = []

    def transform(rows: Any) -> Any:
        layout = Layout.local(tmp_path / "lake", tmp_path / "landing")
        owners.extend(holder(layout, each) for each in ("checkpoint:orders/silver", "table:silver.orders"))
        return rows

    first = run(spark, tmp_path, bronze)
    silver = run(spark, tmp_path, orders.SILVER, transform=transform)

    assert [(line.batch_id, line.files_opened) for line in first.run.report.batches] == [(0, 2), (1, 1)]
    assert (silver.run.report.batches[0].read, silver.run.report.target_version) == (3, 0)
    assert owners and all(str(owner).startswith("attempt a1 of orders") for owner in owners)
    land(tmp_path, "new.json", {"id": 2, "at": 2, "amount": 6})
    (line,) = run(spark, tmp_path, bronze).run.report.batches
    assert (line.batch_id, line.files_listed) == (2, 1)
    (line,) = run(spark, tmp_path, orders.SILVER).run.report.batches
    assert (line.batch_id, line.read, line.written) == (1, 1, 1)
    for each in (bronze, orders.SILVER):
        expect_idle(functools.partial(run, spark, tmp_path, each), each.name)


@pytest.mark.nightly
def test_changes_removed_by_vacuum_are_an_error_and_the_next_version_derives_the_table_again(
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
    read = progress.planned_batch(silver.place.checkpoint, 0)
    with pytest.raises(OffsetsExpiredError, match=r"versions 1 to 2 were removed by VACUUM .* tidegate recover"):
        of_table(bronze.live, orders.SILVER.source, read)
    with pytest.raises(OffsetsExpiredError, match="raise checkpoint_version"):
        run(spark, tmp_path, orders.SILVER)
    run(spark, tmp_path, in_version_two(orders.SILVER))
    assert sorted(row["id"] for row in orders.table(silver.live)) == [0, 1, 2]


def test_an_error_in_a_batch_is_raised_with_its_type_and_the_next_run_repeats_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    land(tmp_path, "a.json", {"id": 1, "at": 1, "amount": 5})
    run(spark, tmp_path, orders.BRONZE)

    with pytest.raises(SpecError, match="does not return id"):
        run(spark, tmp_path, orders.SILVER, transform=lambda rows: rows.drop("id"))

    (line,) = run(spark, tmp_path, orders.SILVER).run.report.batches
    assert (line.batch_id, line.written) == (0, 1)


@pytest.mark.nightly
def test_an_error_after_a_refresh_names_the_new_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "a.json", {"id": 1, "at": 1, "amount": 5})
    run(spark, tmp_path, orders.BRONZE)
    run(spark, tmp_path, orders.SILVER)

    def fail(*_: Job) -> Any:
        raise ValueError("Incomplete log file")

    job = job_of_request(spark, tmp_path, orders.SILVER, mode="full_refresh")
    job = dataclasses.replace(job, kind=dataclasses.replace(job.kind, read_stream=fail))
    with pytest.raises(CheckpointCorruptError) as raised:
        runs.load(job.run.request, job.flow)(job)

    assert raised.value.path == str(Place(job.place.layout, "orders", "silver", 1, 1).checkpoint)


@pytest.mark.nightly
def test_a_new_version_of_a_keyed_table_is_built_in_staging_and_swapped_in(spark: SparkSession, tmp_path: Path) -> None:
    land(tmp_path, "a.json", {"id": 1, "at": 1, "amount": 5}, {"id": None, "at": 1}, {"id": 2, "at": 1, "amount": 6})
    run(spark, tmp_path, orders.BRONZE)
    run(spark, tmp_path, orders.SILVER)
    silver = in_version_two(orders.SILVER)

    def increased(rows: Any) -> Any:
        return rows.selectExpr("* EXCEPT (amount)", "amount + 100 AS amount")

    bumped = run(spark, tmp_path, silver, transform=increased)

    kinds = [(line.kind, line.upserted, line.unchanged) for line in bumped.run.report.batches]
    assert kinds == [("upsert", 0, 0), ("swap", 2, 0)]
    assert sorted(row["amount"] for row in orders.table(bumped.live)) == [105, 106]
    assert bumped.target == bumped.live and not bumped.place.staging.exists()
    states = {row["_checkpoint_version"]: row["state"] for row in orders.table(bumped.place.quarantine)}
    assert states == {1: "expired", 2: "open"}, "the new version judged the same records again"
    assert bumped.run.report.impact == Impact(
        before=2, after=2, deleted=0, changed=2, added=0, read=3, quarantined=0
    ), "a row that the first version had refused too is not new in quarantine"


@pytest.mark.nightly
def test_after_a_refused_swap_the_corrected_code_derives_the_table_again(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    land(tmp_path, "a.json", {"id": 1, "at": 1, "amount": 5}, {"id": 2, "at": 1, "amount": 6})
    run(spark, tmp_path, orders.BRONZE)
    run(spark, tmp_path, orders.SILVER)
    silver = in_version_two(orders.SILVER)

    def broken(rows: Any) -> Any:
        return rows.withColumn("_origin", F.col("_origin").withField("broken", F.array(F.lit("too_strict"))))

    dry = run(spark, tmp_path, silver, transform=broken, dry_run=True)
    assert not dry.place.checkpoint.exists(), "a dry run reads nothing by the stream"
    for _ in range(2):
        with pytest.raises(RewriteRefusedError, match=r"delete 2 of 2 rows .* and send 2 of 2 source rows"):
            run(spark, tmp_path, silver, transform=broken)
    note = rewrite.refused(FlowPlace(dry.place.layout, "orders", "silver"))
    assert note is not None and note.impact == dry.run.report.impact, "the dry run had counted the same"
    assert len(orders.table(dry.live)) == 2

    corrected = run(spark, tmp_path, silver, mode="full_refresh", request_id="q1")

    assert (corrected.run.report.refresh, [line.kind for line in corrected.run.report.batches]) == (
        1,
        ["upsert", "swap"],
    )
    assert [row["amount"] for row in orders.table(corrected.live)] == [5, 6]
    assert {row["state"] for row in orders.table(corrected.place.quarantine)} == {"expired"}
    assert rewrite.recorded(FlowPlace(dry.place.layout, "orders", "silver")) is None
    assert not list((tmp_path / "lake" / "staging" / "orders" / "silver").iterdir()), "also what was refused is deleted"


def test_a_new_version_of_a_table_without_keys_is_built_in_staging_and_bronze_is_written_directly(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = dataclasses.replace(in_version_two(orders.SILVER), target=Table("silver.log"), transform="orders:clean")
    job = orders.job_of(spark, tmp_path, log, version=2)
    write_batch(job, job.live, 0, "orders/silver/v1/0")

    assert flow._prepare(job)[0].target == job.place.staging

    bronze = orders.job_of(spark, tmp_path, in_version_two(orders.BRONZE), version=2)
    write_batch(bronze, bronze.live, 0, "orders/bronze/v1/0")
    assert flow._prepare(bronze)[0].target == bronze.live, (
        "bronze is written directly, because it skips what it has read"
    )


@pytest.mark.parametrize("own", [False, True], ids=["never wrote it", "wrote it too"])
def test_a_table_written_by_another_flow_is_refused_unless_this_flow_wrote_it_too(
    spark: SparkSession, tmp_path: Path, own: bool
) -> None:
    job = orders.job_of(spark, tmp_path, orders.SILVER)
    write_batch(job, job.live, 0, "orders/silver_of_old/v1/0")
    assert delta.writers(job.live, job.app_id) == {"orders/silver_of_old/v1/0"}, "known without a JVM"
    if own:
        orders.plan_batch(job, 0)
        write_batch(job, job.live, 0)
        flow._prepare(job)
        return
    with pytest.raises(DeclarationConflictError, match="was written by orders/silver_of_old"):
        flow._prepare(job)
    assert not SIDECAR.path(Place(job.place.layout, "orders", "silver", 1, 0)).exists(), (
        "no sidecar is written for a refused declaration"
    )


def test_a_missing_target_with_an_existing_checkpoint_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    job = orders.job_of(spark, tmp_path, orders.SILVER)
    orders.plan_batch(job, 0)
    flow._prepare(job)
    commit(job, 0)
    flow._prepare(job)
    ledger.record_batch(job, LedgerLine(flow="silver", batch_id=0, app_id=job.app_id, kind="upsert"))

    with pytest.raises(CheckpointCorruptError, match="missing or was replaced"):
        flow._prepare(job)

    write_batch(job, job.live, 0)
    flow._prepare(job)


def test_staging_replaces_a_target_that_exists_and_not_one_that_was_removed(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = orders.job_of(spark, tmp_path, in_version_two(orders.SILVER), version=2)
    orders.plan_batch(job, 0)
    commit(job, 0)
    write_batch(job, job.place.staging, 0)
    ledger.record_batch(job, LedgerLine(flow="silver", batch_id=0, app_id=job.app_id, kind="upsert"))

    with pytest.raises(CheckpointCorruptError, match="missing or was replaced"):
        flow._prepare(job)

    write_batch(job, job.live, 0, "orders/silver/v1/0")
    assert flow._prepare(job)[0].target == job.place.staging


@pytest.mark.parametrize("where", ["live", "quarantine"])
def test_a_new_version_is_refused_while_the_old_one_has_a_half_written_batch(
    spark: SparkSession, tmp_path: Path, where: str
) -> None:
    old = orders.job_of(spark, tmp_path, orders.SILVER)
    new = orders.job_of(spark, tmp_path, in_version_two(orders.SILVER), version=2)
    orders.plan_batch(old, 0)
    commit(old, 0)
    write_batch(old, orders.written(old, where), 0)
    orders.plan_batch(old, 1)
    flow._check_old_versions_finished(new)

    write_batch(old, orders.written(old, where), 1)

    with pytest.raises(CheckpointIncompatibleError, match="finish it with the old declaration first") as refused:
        flow._prepare(new)
    assert refused.value.version == 1
    commit(old, 1)
    flow._check_old_versions_finished(new)


@pytest.mark.parametrize("where", ["live", "quarantine"])
def test_a_checkpoint_older_than_a_table_is_refused(spark: SparkSession, tmp_path: Path, where: str) -> None:
    job = orders.job_of(spark, tmp_path, orders.SILVER)
    orders.plan_batch(job, 0)
    write_batch(job, orders.written(job, where), 0)
    flow._prepare(job)
    write_batch(job, orders.written(job, where), 1)

    with pytest.raises(CheckpointCorruptError, match="restored from an older copy"):
        flow._prepare(job)


def test_a_committed_swap_is_recorded_before_anything_else(spark: SparkSession, tmp_path: Path) -> None:
    job = orders.job_of(spark, tmp_path, in_version_two(orders.SILVER), version=2)
    for batch_id in (0, 1):
        orders.plan_batch(job, batch_id)
    rows = spark.createDataFrame([(1,)], "id int")
    prepared = {"kind": "swap", "replaced": True, "rows": 1, "rows_before": 1}
    writes.append(rows, job.live, orders.transaction(dataclasses.replace(job, place=first_version(job)), 3))
    writes.append(rows, job.place.staging, orders.transaction(job, 1))
    writes.replace_table(rows, job.live, writes.Transaction(app_id=job.app_id, batch_id=1, prepared=prepared))

    job, _ = flow._prepare(job)

    assert [line.kind for line in job.run.report.batches] == ["swap"]
    assert (job.target == job.live, job.place.staging.exists()) == (True, False)


def first_version(job: Job) -> Place:
    return dataclasses.replace(job.place, version=1)


def job_of_request(spark: SparkSession, folder: Path, declared: Flow, **more: Any) -> Job:
    """The job of a request, with the current checkpoint of the flow."""
    job = orders.job_of(spark, folder, declared, **more)
    return dataclasses.replace(job, place=places.current(job.place.layout, job.resolved.pipeline, declared))


def before_of(job: Job) -> Callable[[Job], Job]:
    """What the request does before the stream starts."""
    run = runs.load(job.run.request, job.flow)
    with patch(f"{run.__module__}.run_flow") as run_flow:
        run(job)
    return run_flow.call_args.kwargs.get("before") or (lambda unchanged: unchanged)


def test_a_full_refresh_starts_a_new_refresh_once_per_request(spark: SparkSession, tmp_path: Path) -> None:
    def refreshed(request_id: str, mode: str = "full_refresh", **more: Any) -> Job:
        job = job_of_request(spark, tmp_path, orders.SILVER, mode=mode, request_id=request_id, **more)
        return before_of(job)(job)

    assert refreshed("q0").place.refresh == 0, "an unused checkpoint needs no new refresh"
    orders.plan_batch(orders.job_of(spark, tmp_path, orders.SILVER), 0)

    first = refreshed("q1")
    assert (first.place.refresh, first.run.report.refresh) == (1, 1)
    origin = checkpoint.ORIGIN.read(first.place)
    assert origin is not None
    assert (origin.request_id, origin.requested_by, origin.mode) == ("q1", "ada", "full_refresh")
    orders.plan_batch(first, 0)
    retried = refreshed("q1")
    assert (retried.place.refresh, retried.run.report.notes) == (1, []), "a retry continues with the same refresh"
    write_batch(first, first.live, 0)
    commit(first, 0)
    assert refreshed("q1").run.report.notes == [backfill.ALREADY_DONE], "a retry of a finished request has a note"
    second = refreshed("q2")
    assert second.place.refresh == 2
    orders.plan_batch(second, 0)
    for mode in ("incremental", "backfill", "reingest"):
        assert refreshed("q3", mode, window=WINDOW).place.refresh == 2, mode


def test_a_reingest_starts_a_new_refresh_only_for_bronze_and_not_for_a_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    refreshes = {}
    for declared in (orders.BRONZE, orders.SILVER):
        orders.plan_batch(orders.job_of(spark, tmp_path, declared), 0)
        for window in (WINDOW, None):
            job = job_of_request(spark, tmp_path, declared, mode="reingest", window=window)
            refreshes[declared.name, window is None] = before_of(job)(job).place.refresh

    assert refreshes == {("bronze", False): 0, ("bronze", True): 1, ("silver", False): 0, ("silver", True): 0}


def verdict(job: Job, batch_id: int) -> Verdict:
    return Verdict(
        flow="silver",
        batch_id=batch_id,
        app_id=job.app_id,
        suite="orders/silver",
        suite_fingerprint="s1",
        code_fingerprint="c1",
        outcome="refused",
    )


def test_a_refusal_is_recorded_for_plan_while_its_batch_waits(spark: SparkSession, tmp_path: Path) -> None:
    job = orders.job_of(spark, tmp_path, orders.SILVER)
    orders.plan_batch(job, 0)
    commit(job, 0)
    flow.record_refusal(job, GateRefusedError(verdict(job, 0)))
    assert refusal.REFUSAL.read(job.place) is None, "no batch waits"
    orders.plan_batch(job, 1)

    flow.record_refusal(job, GateRefusedError(verdict(job, 1)))

    assert refusal.REFUSAL.read(job.place) == GateRefusal(batch_id=1, suite_fingerprint="s1", code_fingerprint="c1")
    assert refusal.waiting_batch(job.place) == 1
    refused = ContractRefusedError(
        "orders", "silver", 1, schema_change_id="d1", changes=("new field x",), declared="f1"
    )
    flow.record_refusal(job, refused)
    assert refusal.REFUSAL.read(job.place) == ContractRefusal(batch_id=1, schema_change_id="d1", declared="f1")


def test_a_flow_that_is_refused_its_target_writes_nothing_and_releases_its_leases(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = orders.job_of(spark, tmp_path, orders.SILVER)
    land(tmp_path, "a.json", {"id": 1, "at": 1, "amount": 5})
    run(spark, tmp_path, orders.BRONZE)
    write_batch(job, job.live, 0, "orders/another/v1/0")

    with pytest.raises(DeclarationConflictError):
        flow.run_flow(job)

    assert tables.version(spark, job.live) == 0
    assert store.select(PipelinePlace(job.place.layout, "orders").ops("ledger"), "SELECT flow FROM delta_table") == [
        {"flow": "bronze"}
    ]
    assert [holder(job.place.layout, each) for each in ("checkpoint:orders/silver", "table:silver.orders")] == [
        None,
        None,
    ]
