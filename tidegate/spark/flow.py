"""Runs one increment of a flow: micro-batches until the source is drained.

For a new checkpoint version or a full refresh of a keyed table, the flow builds the new table in staging from the feed's
initial snapshot and swaps it in with one commit when the feed is drained, so readers never see an empty table.

Longer than 300 lines: in which order checkpoint, tables and notes are made consistent is read in one place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.advice import Either, OutsideAct, recover_command
from tidegate.checkpoints import checkpoint, pending_jobs, progress, refusal, rewrite
from tidegate.errors import CheckpointCorruptError, CheckpointIncompatibleError, NotDeliveredError, RefusedError
from tidegate.lake.place import Place
from tidegate.probes import delta
from tidegate.spark.batch import ledger as batch_ledger
from tidegate.spark.batch import micro_batch, proofs
from tidegate.spark.batch.checks import check_not_ahead, last_batches
from tidegate.spark.batch.work import Staged
from tidegate.spark.driver.lease import leased_flow
from tidegate.spark.driver.listener import record_progress
from tidegate.spark.intake import declared_schema
from tidegate.spark.lake import tables
from tidegate.status.source import not_delivered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.job import Job
    from tidegate.store import Address


def run_flow(
    job: Job, *, before: Callable[[Job], Job] | None = None, after: Callable[[Job], None] | None = None
) -> None:
    """Run a flow until its source is drained.

    Args:
        job: The flow; results go to its report.
        before: Called under the flow's leases before the stream starts; may open a new refresh of the checkpoint.
        after: Called when the stream has read everything.

    Raises:
        TidegateError: See `tidegate.errors`. Finished batches stay; the next run completes the pending batch.
    """
    if not all(tables.exists(path) for path in job.source_tables):
        return
    name = job.flow.name
    with leased_flow(job.spark, job.resolved, job.run, work=f"flow {name!r}"):
        job, reading = _prepare(job, before)
        try:
            _drain(job, reading)
        except NotDeliveredError as missing:
            undelivered = not_delivered(missing, job.place, job.live)
            job.run.report.notes.append(undelivered.what)
            return
        job.kind.caught_up(job)
        job = _swap_in(job)
        if job.target == job.live and (job.place.version, job.place.refresh) != (1, 0):
            from tidegate.spark.reprocessing import interrupted

            interrupted.retire_entries(job)
        job.kind.drained(job)
        if after is not None:
            after(job)
        rewrite.clear(job.place)


def _prepare(job: Job, before: Callable[[Job], Job] | None = None) -> tuple[Job, Job]:
    """Check the tables against the checkpoint, record the declaration, choose the target and settle what a crash has interrupted.

    Returns:
        The job, and the same in the reading in which its tables were proven.
    """
    reading = job.reading()
    checkpoint.check_compatible(reading.place.layout, job.resolved)
    if before is not None:
        job = before(job)
        reading = job.reading()
    renewed = (
        job.refreshed(job.place.next_refresh) if _is_past_replacement(reading) else _refresh_if_needed(job, reading)
    )
    if renewed is not job:
        job, reading = renewed, renewed.reading()
    state = progress.read(reading.place.checkpoint)
    transactions = tables.transactions(job.spark, reading.live)
    prefix = f"{job.place.pipeline}/{job.flow.name}/"
    checkpoint.check_writers(job.flow, reading.place, transactions)
    _check_target_exists(reading, state.last_committed is not None, transactions)
    proofs.adopt(job, reading)
    if state.last_planned is None and job.place.refresh == 0:
        _check_old_versions_finished(job)
    checkpoint.write_sidecar(reading.place, job.flow)
    declared_schema.record_declared(reading.place, job.resolved, job.run)
    earlier = [app_id for app_id in transactions if app_id.startswith(prefix) and app_id != job.app_id]
    if earlier and job.app_id not in transactions and job.flow.is_staged:
        job = job.doing(Staged())
        if job.flow.kind.follows_feed:
            # The swap waits from now on, whether or not a batch makes a row; what follows no feed may never have a batch.
            job.place.staging.make_folder()
        reading = job.reading()
    elif job.app_id in transactions and reading.place.staging.exists():
        from tidegate.spark.reprocessing import swap

        job = swap.finish(job)
        reading = job.reading()
    last = -1 if state.last_planned is None else state.last_planned
    check_not_ahead(job, last_batches(reading), last)
    _finish_interrupted(job, reading)
    return job, reading


def _swap_in(job: Job) -> Job:
    """As `tidegate.spark.reprocessing.swap.swap_in`; no table that is staged is derived by a landing flow or sent by one with a sink."""
    if not job.flow.is_staged:
        return job
    from tidegate.spark.reprocessing import swap

    return swap.swap_in(job)


def _is_past_replacement(job: Job) -> bool:
    """As `tidegate.spark.reprocessing.swap.is_past_replacement`; a landing flow reads no table that could be replaced."""
    if not job.flow.feeds:
        return False
    from tidegate.spark.reprocessing import swap

    return swap.is_past_replacement(job)


def _finish_interrupted(job: Job, reading: Job) -> None:
    """Settle what a crash has interrupted. Few runs find any: its code is imported only then."""
    if pending_jobs.read(reading.place):
        from tidegate.spark.reprocessing import interrupted

        interrupted.settle_all(job)


def refresh_once(job: Job) -> Job:
    """Start a new refresh for the request; further attempts at the same request continue with it."""
    request = job.run.request
    if _is_past_replacement(job) or progress.read(job.place.checkpoint).last_planned is None:
        return job
    opened = checkpoint.ORIGIN.read(job.place)
    if opened is not None and opened.request_id == request.request_id:
        # A refreshed bronze table has the id of its writes before it is complete.
        if job.flow.is_staged and job.app_id in tables.transactions(job.spark, job.live):
            from tidegate.spark.reprocessing.backfill import ALREADY_DONE

            job.run.report.notes.append(ALREADY_DONE)
        return job
    _finish_of_checkpoint(job)
    if _is_half_written(job, job.place):
        if job.kind.completed_by_target and _is_in_target(job, job.place):
            _record_written(job, job.place)
        else:
            # Its split is decided and partly written: only its own checkpoint can complete it.
            _drain(job, job.reading())
    place = job.place.next_refresh
    origin = checkpoint.Origin(
        mode=request.mode,
        run_key=job.run.request.run_key,
        request_id=request.request_id,
        requested_by=request.requested_by,
    )
    checkpoint.record_refresh_origin(place, origin)
    return job.refreshed(place)


def renew_damaged(job: Job) -> Job:
    """Open the next refresh if the flow is damaged, for `tidegate.spark.reprocessing.recovery`; else it goes on as it is."""
    from tidegate.spark.reprocessing import recovery

    damages = recovery.damages_of(job)
    if not damages:
        return job
    lost = recovery.accept_loss(job, damages)
    recovery.set_damaged_aside(job)
    # A batch that the table has lacks at most its ledger line. What else is half-written is judged again.
    if tables.exists(job.live) and _is_in_target(job, job.place):
        _record_written(job, job.place)
    return recovery.open_refresh(job, damages, lost)


def _refresh_if_needed(job: Job, reading: Job) -> Job:
    """Start a new refresh if the checkpoint would next read messages that are deleted, or files of a folder that was moved.

    Spark's logs are not edited: the new checkpoint starts after the gap, at the topic's first offset, or lists all files again.
    """
    origin = job.kind.renewed_by(reading)
    if origin is None:
        return job
    _finish_of_checkpoint(job)
    # Of a batch that only quarantine has, the messages that are left are read again by the new refresh.
    if _is_in_target(job, job.place):
        _record_written(job, job.place)
    place = job.place.next_refresh
    checkpoint.record_refresh_origin(place, origin)
    return job.refreshed(place)


def _finish_of_checkpoint(job: Job) -> None:
    """Finish what is half-written under the transaction id of the checkpoint, before the next refresh opens."""
    job.kind.finish(job)
    if pending_jobs.read(job.place):
        from tidegate.spark.reprocessing import interrupted

        interrupted.finish_window(job)


def _record_written(job: Job, place: Place) -> None:
    """Record a batch that is in the table but not committed by its checkpoint; only its ledger line is missing."""
    pending = progress.pending_by_name(place.checkpoint)
    assert pending is not None
    of_batch = dataclasses.replace(job, place=place)
    batch_ledger.record_batch(of_batch, micro_batch.recorded_in_target(of_batch, pending))


def _is_half_written(job: Job, place: Place) -> bool:
    """Whether quarantine, late table or target have a batch that the checkpoint planned and did not commit."""
    return _has_pending(job, place, job.live, job.place.late, job.place.quarantine)


def _is_in_target(job: Job, place: Place) -> bool:
    """Whether the target has a batch that the checkpoint planned and did not commit."""
    return _has_pending(job, place, job.live)


def _has_pending(job: Job, place: Place, *paths: Address) -> bool:
    pending = progress.pending_by_name(place.checkpoint)
    return pending is not None and any(
        tables.transactions(job.spark, path).get(place.app_id) == pending for path in paths
    )


def _check_target_exists(job: Job, has_history: bool, transactions: dict[str, int]) -> None:
    if not has_history or job.app_id in transactions or job.flow.kind.sends:
        return
    if transactions and tables.exists(job.place.staging):
        return
    lines = job.place.of_pipeline.ops("ledger")
    if delta.transaction_version(lines, job.app_id) is not None:
        raise CheckpointCorruptError(
            f"flow {job.flow.name!r}: the checkpoint at {job.place.checkpoint} has written to table "
            f"{job.flow.target.name!r}, which is missing or was replaced.",
            Either(OutsideAct("restore the table"), recover_command(*job.flow.recovered_by)),
            path=str(job.place.checkpoint),
        )


def _check_old_versions_finished(job: Job) -> None:
    """Refuse a new checkpoint version while an earlier one has a half-written batch, which only its declaration can complete."""
    for old in checkpoint.of_flow(job.place):
        if old != job.place:
            job.kind.finish(dataclasses.replace(job, place=old))
        if old != job.place and _is_half_written(job, old):
            if job.kind.completed_by_target:
                # A batch that only quarantine has is read again by the new version.
                if _is_in_target(job, old):
                    _record_written(job, old)
                continue
            try:
                pending = progress.read(old.checkpoint).pending_batch
            except CheckpointCorruptError:
                # Nothing can finish it, so that its rows are judged again.
                job.run.report.notes.append(
                    f"v{old.version}/{old.refresh} is damaged and has a half-written batch: the new checkpoint reads its rows again"
                )
                continue
            raise CheckpointIncompatibleError(
                job.flow.name,
                old.version,
                {"half-written batch": (pending, "finish it with the old declaration first")},
            )


def _drain(job: Job, reading: Job) -> None:
    """Run the query until its source is drained; start none if it would have no batch."""
    stream = job.kind.read_stream(job, reading)
    if stream is None:
        return
    raised: list[Exception] = []
    """What a batch raised. Spark passes on only the text of an exception."""

    def process_batch(batch: DataFrame, batch_id: int) -> None:
        try:
            micro_batch.process(job, batch, batch_id)
        except Exception as error:
            raised.append(error)
            raise

    with record_progress(job.spark, job.place, job.run, job.app_id):
        query = job.kind.start(
            job,
            stream.writeStream.queryName(job.app_id)
            .foreachBatch(process_batch)
            .option("checkpointLocation", job.place.checkpoint.written_uri)
            .trigger(availableNow=True),
        )
        try:
            query.awaitTermination()
        except Exception as error:
            if raised and isinstance(raised[0], RefusedError):
                record_refusal(job, raised[0])
            raise (raised[0] if raised else error) from error
        finally:
            if query.isActive:
                query.stop()


def record_refusal(job: Job, error: RefusedError) -> None:
    """Record for `plan` which batch waits, and the fingerprints of what must change before it is tried again."""
    refusal.record(job.place, error.refusal())
