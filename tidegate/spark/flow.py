"""Runs one increment of a flow: micro-batches until the source is drained.

For a new checkpoint version or a full refresh of a keyed table, the flow builds the new table in staging from the feed's
initial snapshot and swaps it in with one commit when the feed is drained, so readers never see an empty table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.advice import Either, OutsideAct, recover_command
from tidegate.checkpoints import checkpoint, progress, refusal, rewrite
from tidegate.errors import (
    CheckpointCorruptError,
    CheckpointIncompatibleError,
    NotDeliveredError,
    RefusedError,
)
from tidegate.place import Place
from tidegate.probes import delta
from tidegate.quarantine import decision
from tidegate.spark.batch import ledger as batch_ledger
from tidegate.spark.batch import micro_batch, proofs
from tidegate.spark.batch.split import check_not_ahead, last_batches
from tidegate.spark.batch.work import Staged
from tidegate.spark.driver.leased import leased_flow
from tidegate.spark.driver.listener import record_progress
from tidegate.spark.intake import contracts
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import backfill, pending_work, recovery, reingest, replay, swap, undo
from tidegate.spec import KafkaSource
from tidegate.status.sources.source import not_delivered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext
    from tidegate.store import Address


def run_flow(
    context: FlowContext,
    *,
    before: Callable[[FlowContext], FlowContext] | None = None,
    after: Callable[[FlowContext], None] | None = None,
) -> None:
    """Run a flow until its source is drained.

    Args:
        context: The flow; results go to its report.
        before: Called under the flow's leases before the stream starts; may open a new refresh of the checkpoint.
        after: Called when the stream has read everything.

    Raises:
        TidegateError: See `tidegate.errors`. Finished batches stay; the next run completes the pending batch.
    """
    if not all(tables.exists(path) for path in context.source_paths):
        return
    name = context.flow.name
    with leased_flow(context, work=f"flow {name!r}", holder=f"attempt {context.attempt} of {context.pipeline.name}"):
        context = _prepare(context, before)
        _finish_interrupted(context)
        try:
            _drain(context)
        except NotDeliveredError as missing:
            undelivered = not_delivered(missing, context.place, context.live)
            context.report.notes.append(undelivered.summary)
            return
        context = swap.swap_in(context)
        if context.target == context.live and (context.place.version, context.place.refresh) != (1, 0):
            decision.retire(context.place)
            pending_work.settle(context, replay.Replay)
        context.kind.drained(context)
        if after is not None:
            after(context)
        rewrite.clear(context.place)


def _prepare(context: FlowContext, before: Callable[[FlowContext], FlowContext] | None = None) -> FlowContext:
    """Check the tables against the checkpoint, record the declaration and choose the live table or staging as target."""
    checkpoint.check_compatible(context.layout, context.resolved)
    context = context if before is None else before(context)
    replaced = swap.is_past_replacement(context)
    context = context.refreshed(swap.next_refresh(context.place)) if replaced else _refresh_if_needed(context)
    state = progress.read(context.checkpoint)
    transactions = tables.transactions(context.spark, context.live)
    prefix = f"{context.pipeline.name}/{context.flow.name}/"
    checkpoint.check_writers(context.flow, context.place, transactions)
    _check_target_exists(context, state.last_committed is not None, transactions)
    proofs.adopt(context)
    if state.last_planned is None and context.place.refresh == 0:
        _check_old_versions_finished(context)
    checkpoint.write_sidecar(context.layout, context.pipeline, context.flow)
    contracts.record_declared(context)
    earlier = [app_id for app_id in transactions if app_id.startswith(prefix) and app_id != context.app_id]
    if earlier and context.app_id not in transactions and context.flow.is_staged:
        context = context.doing(Staged())
        if not context.flow.kind.snapshots:
            # The swap waits from now on, whether or not a batch makes a row; a snapshot may never come.
            swap.staging(context).make_folder()
    elif context.app_id in transactions and swap.staging(context).exists():
        context = swap.finish(context)
    last = -1 if state.last_planned is None else state.last_planned
    check_not_ahead(context, last_batches(context), last)
    return context


def _finish_interrupted(context: FlowContext) -> None:
    """Finish an undo, a replay, and a backfill or a piece of a reingest, each of which had begun to write."""
    pending_work.settle(context, undo.Undo, replay.Replay, _window_job(context))


def _window_job(context: FlowContext) -> type[pending_work.PendingWork]:
    return backfill.Backfill if context.flow.target.keys else reingest.Piece


def refresh_once(context: FlowContext) -> FlowContext:
    """Start a new refresh for the request; further attempts at the same request continue with it."""
    request = context.request
    if swap.is_past_replacement(context) or progress.read(context.checkpoint).last_planned is None:
        return context
    opened = checkpoint.ORIGIN.read(context.place)
    if opened is not None and opened.request_id == request.request_id:
        # A refreshed bronze table has the id of its writes before it is complete.
        if context.flow.is_staged and context.app_id in tables.transactions(context.spark, context.live):
            context.report.notes.append(backfill.ALREADY_DONE)
        return context
    _finish_of_checkpoint(context)
    if _is_half_written(context, context.place):
        if context.kind.completed_by_target and _is_in_target(context, context.place):
            _record_written(context, context.place)
        else:
            # Its split is decided and partly written: only its own checkpoint can complete it.
            _drain(context)
    place = swap.next_refresh(context.place)
    origin = checkpoint.Origin(
        mode=request.mode,
        run_key=context.run_key,
        request_id=request.request_id,
        requested_by=request.requested_by,
    )
    checkpoint.record_refresh_origin(place, origin)
    return context.refreshed(place)


def renew_damaged(context: FlowContext) -> FlowContext:
    """Open the next refresh if the flow is damaged, for `tidegate.spark.reprocessing.recovery`; else it goes on as it is."""
    damages = recovery.damages_of(context)
    if not damages:
        return context
    lost = recovery.accept_loss(context, damages)
    recovery.set_damaged_aside(context)
    # A batch that the table has lacks at most its ledger line. What else is half-written is judged again.
    if tables.exists(context.live) and _is_in_target(context, context.place):
        _record_written(context, context.place)
    return recovery.open_refresh(context, damages, lost)


def _refresh_if_needed(context: FlowContext) -> FlowContext:
    """Start a new refresh if the checkpoint would next read messages of an accepted gap, or files of a folder that was moved.

    Spark's logs are not edited: the new checkpoint starts after the gap, at the topic's first offset, or lists all files again.
    """
    if not context.kind.needs_refresh(context):
        return context
    _finish_of_checkpoint(context)
    # Of a batch that only quarantine has, the messages that are left are read again by the new refresh.
    if _is_in_target(context, context.place):
        _record_written(context, context.place)
    place = swap.next_refresh(context.place)
    mode = "accept_gap" if isinstance(context.flow.source, KafkaSource) else "accept_move"
    checkpoint.record_refresh_origin(place, checkpoint.Origin(mode=mode, run_key=context.run_key))
    return context.refreshed(place)


def _finish_of_checkpoint(context: FlowContext) -> None:
    """Finish a half-written backfill, or piece of a reingest, before the next refresh opens: its transaction id is the checkpoint's."""
    job = _window_job(context).pending(context)
    if job is not None and job.has_begun(context):
        _finish_interrupted(context)


def _record_written(context: FlowContext, place: Place) -> None:
    """Record a batch that is in the table but not committed by its checkpoint; only its ledger line is missing."""
    pending = progress.pending_by_name(place.checkpoint)
    assert pending is not None
    of_batch = dataclasses.replace(context, place=place)
    batch_ledger.record_batch(of_batch, micro_batch.recorded_in_target(of_batch, pending))


def _is_half_written(context: FlowContext, place: Place) -> bool:
    """Whether quarantine, late table or target have a batch that the checkpoint planned and did not commit."""
    return _has_pending(context, place, context.live, context.late, context.quarantine)


def _is_in_target(context: FlowContext, place: Place) -> bool:
    """Whether the target has a batch that the checkpoint planned and did not commit."""
    return _has_pending(context, place, context.live)


def _has_pending(context: FlowContext, place: Place, *paths: Address) -> bool:
    pending = progress.pending_by_name(place.checkpoint)
    return pending is not None and any(
        tables.transactions(context.spark, path).get(place.app_id) == pending for path in paths
    )


def _check_target_exists(context: FlowContext, has_history: bool, transactions: dict[str, int]) -> None:
    if not has_history or context.app_id in transactions or context.flow.kind.sends:
        return
    if transactions and tables.exists(swap.staging(context)):
        return
    lines = context.place.of_pipeline.ops("ledger")
    if delta.transaction_version(lines, context.app_id) is not None:
        raise CheckpointCorruptError(
            f"flow {context.flow.name!r}: the checkpoint at {context.checkpoint} has written to table "
            f"{context.flow.target.name!r}, which is missing or was replaced.",
            Either(OutsideAct("restore the table"), recover_command(*context.flow.recovered_by)),
            path=str(context.checkpoint),
        )


def _check_old_versions_finished(context: FlowContext) -> None:
    """Refuse a new checkpoint version while an earlier one has a half-written batch, which only its declaration can complete."""
    for old in checkpoint.of_flow(context.place):
        if old != context.place and _is_half_written(context, old):
            if context.kind.completed_by_target:
                # A batch that only quarantine has is read again by the new version.
                if _is_in_target(context, old):
                    _record_written(context, old)
                continue
            try:
                pending = progress.read(old.checkpoint).pending_batch
            except CheckpointCorruptError:
                # Nothing can finish it, so that its rows are judged again.
                context.report.notes.append(
                    f"v{old.version}/{old.refresh} is damaged and has a half-written batch: the new checkpoint reads its rows again"
                )
                continue
            raise CheckpointIncompatibleError(
                context.flow.name,
                old.version,
                {"half-written batch": (pending, "finish it with the old declaration first")},
            )


def _drain(context: FlowContext) -> None:
    raised: list[Exception] = []
    """What a batch raised. Spark passes on only the text of an exception."""

    def process_batch(batch: DataFrame, batch_id: int) -> None:
        try:
            micro_batch.process(context, batch, batch_id)
        except Exception as error:
            raised.append(error)
            raise

    stream = context.kind.read_stream(context)
    with record_progress(context):
        query = context.kind.start(
            context,
            stream.writeStream.queryName(context.app_id)
            .foreachBatch(process_batch)
            .option("checkpointLocation", str(context.checkpoint))
            .trigger(availableNow=True),
        )
        try:
            query.awaitTermination()
        except Exception as error:
            if raised and isinstance(raised[0], RefusedError):
                record_refusal(context, raised[0])
            raise (raised[0] if raised else error) from error
        finally:
            if query.isActive:
                query.stop()


def record_refusal(context: FlowContext, error: RefusedError) -> None:
    """Record for `plan` which batch waits, and the fingerprints of what must change before it is tried again."""
    refusal.record(context.place, error.refusal())
