"""Swap: the staging table of a full refresh replaces the live table, in one commit.

Readers see the old table or the new one, never an empty one. If rows can be compared, a MERGE changes only those that
differ, so that the change feed contains real changes only. With other keys, a column of another type or a removed column,
rows cannot be compared, and one change feed cannot describe the change. Then the commit replaces all rows and the schema.
A flow that reads the feed opens its own next refresh when it reaches that commit (`is_past_replacement`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.advice import Command
from tidegate.checkpoints import checkpoint, progress, vector
from tidegate.ops.ledger import rows_read
from tidegate.probes import delta
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import ledger, proofs, quarantine, rewrite
from tidegate.spark.batch.work import Stream
from tidegate.spark.driver.lease import leased_flow
from tidegate.spark.lake import tables, writes
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.checkpoints.progress import DeltaPosition
    from tidegate.spark.job import Job


def swap_in(job: Job) -> Job:
    """Swap staging into the live table, after the whole feed was read. The commit carries the last staged transaction.

    If no batch made a row, there is no staging table, and the live one becomes empty, by the last batch of the checkpoint.

    Returns:
        The flow with its stream into the live table; as it was where nothing was derived again.

    Raises:
        RewriteRefusedError: It would delete or quarantine more rows than the flow's limits allow. What is staged stays.
    """
    folder = job.place.staging
    staged = tables.transactions(job.spark, folder).get(job.app_id)
    has_rows = staged is not None
    if staged is None and job.target == folder:
        staged = progress.read(job.place.checkpoint).last_committed
    if staged is None:
        return job
    started = time.monotonic()
    spark, live = job.spark.newSession(), job.live
    old = tables.read(spark, live)
    rows = tables.read(spark, folder) if has_rows else old.limit(0)
    # Without keys a MERGE could not tell which row replaces which.
    replaced = not job.flow.target.keys or rekeyed(job) or not writes.fits(rows, old)
    try:
        _judge(job, rows, old)
    finally:
        job.release()
    prepared = {
        "kind": "swap",
        "replaced": replaced,
        "rows": rows.count(),
        "rows_before": old.count(),
        "source_versions": dict(tables.source_versions(job.spark, folder, job.app_id)),
    }
    begun, attempt = proofs.begin(job, staged, live), job.run.place.attempt
    txn = writes.Transaction(
        app_id=job.app_id, batch_id=staged, attempt=attempt, prepared=prepared, stands_on=begun.value.positions
    )
    if replaced:
        writes.replace_table(rows, live, txn)
    else:
        writes.swap(rows, live, job.flow.target.keys, txn, job.kind.bookkeeping)
    proofs.end(job, live)
    return finish(job, round(time.monotonic() - started, 3))


def dry_run(job: Job) -> None:
    """Report what the swap of the present staging table does to the live table; write nothing."""
    name = job.flow.name
    job.run.report.dry_run = True
    with leased_flow(job.spark, job.resolved, job.run, work=f"dry run of flow {name!r}", role="dry run"):
        spark = job.spark.newSession()
        rows, old = tables.read(spark, job.place.staging), tables.read(spark, job.live)
        try:
            _judge(job, rows, old)
        finally:
            job.release()


def _delete_staging(job: Job) -> None:
    """Delete staging, and that of earlier refreshes that were refused: nothing reads them again.

    Not that of a later refresh: if this process was stopped, another one may be at work on it.
    """
    folder = job.place.staging.parent
    for entry in folder.list():
        version, _, refresh = entry.name.removeprefix("v").partition("-")
        if (int(version), int(refresh)) <= (job.place.version, job.place.refresh):
            (folder / entry.name).delete_folder()


def finish(job: Job, seconds: float = 0.0) -> Job:
    """Record a committed swap and remove staging, also after a crash that followed the commit; returns as `swap_in`."""
    folder, live = job.place.staging, job.live
    staged = tables.transactions(job.spark, live).get(job.app_id)
    if folder.exists() and staged is not None:
        newest = tables.version(job.spark, live)
        record = _record(job, tables.find_commit(live, job.app_id, staged, newest), staged)
        record = replace(record, seconds=seconds)
        ledger.record_batch(job, record)
        job.run.record_batch(record)
    _delete_staging(job)
    return job.doing(Stream())


def is_past_replacement(job: Job) -> bool:
    """Whether a commit after the checkpoint's position replaced a source table, so that its feed cannot be continued."""
    if not job.query_tables or not all(tables.exists(path) for path in job.query_tables):
        return False
    if not job.flow.kind.follows_feed:
        # Its position is not one in the log of bronze, which is never replaced.
        return False
    state = progress.read(job.place.checkpoint)
    reached = state.last_planned if state.last_committed is None else state.last_committed
    if reached is None:
        return False
    positions = progress.planned_batch(job.place.checkpoint, reached).delta_positions(len(job.query_tables))
    began = {job.place.layout.read_table(table): number for table, number in vector.starts(job.place).items()}
    return any(
        _is_replaced(path, first)
        for path, position in zip(job.query_tables, positions, strict=True)
        if (first := _next_commit(position, began.get(path))) is not None
    )


def _next_commit(position: DeltaPosition | None, began: int | None) -> int | None:
    """The commit of a feed that is read next; None if nothing was read of it, and not from a noted version on."""
    if position is None:
        return None if began is None else began + 1
    # A first load reads its whole version; the commits of the feed begin after it.
    return position.version + 1 if position.of_snapshot else position.version


def _is_replaced(address: Address, first: int) -> bool:
    newest = delta.current_version(address)
    commits = () if newest is None else tables.commits(address, first, newest)
    return any(commit.metadata.get("prepared", {}).get("replaced") for commit in commits)


def _judge(job: Job, rows: DataFrame, old: DataFrame) -> None:
    """Report what the swap does to the table; raises `RewriteRefusedError` if that is too much."""
    refused = None
    if tables.exists(job.place.quarantine):
        refused = quarantine.refused_by(job, rows.sparkSession, job.app_id)
    measured = rewrite.measure(
        job,
        old,
        rows,
        keys=() if rekeyed(job) else job.flow.target.keys,
        refused=refused,
        read=rows_read(job.place.of_pipeline, job.app_id),
    )
    redo = ("run", job.place.pipeline, "--mode", "full_refresh", "--flow", job.flow.name)
    what = f"swap of v{job.place.version}/{job.place.refresh}"
    rewrite.check(job, measured, what, instead=Command.tidegate(*redo, says="derive the table again: {}"))


def _record(job: Job, commit: tables.Commit, staged: int) -> LedgerLine:
    prepared = commit.metadata["prepared"]
    rows = int(prepared["rows"])
    if prepared["replaced"]:
        upserted, deleted = rows, int(prepared["rows_before"])
    else:
        upserted = commit.metrics["numTargetRowsInserted"] + commit.metrics["numTargetRowsUpdated"]
        deleted = commit.metrics["numTargetRowsDeleted"]
    return LedgerLine(
        flow=job.flow.name,
        batch_id=staged,
        app_id=job.app_id,
        kind="swap",
        groups=rows + deleted,
        upserted=upserted,
        deleted=deleted,
        unchanged=rows - upserted,
        target_version=commit.version,
        source_versions=prepared.get("source_versions", {}),
    )


def rekeyed(job: Job) -> bool:
    """Whether the checkpoint version that last wrote the live table had other keys."""
    transactions = tables.transactions(job.spark, job.live)
    written = [place.version for app_id in transactions if (place := job.place.of_stream(app_id)) is not None]
    sidecar = checkpoint.versions(job.place).get(max(written, default=0))
    return sidecar is None or tuple(sidecar.remembered["keys"]) != job.flow.target.keys
