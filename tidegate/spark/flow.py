"""Runs one flow: one increment of its source through micro-batches, then stops.

A version bump or a full refresh of a keyed table builds the new table in staging from the feed's initial snapshot,
and swaps it in with one commit once the feed is drained, so that readers never see it empty.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints import checkpoint, progress, refusal
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.errors import (
    CheckpointCorruptError,
    CheckpointIncompatibleError,
    ContractRefusedError,
    GateRefusedError,
    SpecDriftError,
)
from tidegate.ops import ledger
from tidegate.probes import delta
from tidegate.quarantine import decision
from tidegate.report import BatchRecord
from tidegate.spark.batch import ledger as batch_ledger
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.split import check_not_ahead
from tidegate.spark.driver.failures import translate
from tidegate.spark.driver.listener import recorded_progress
from tidegate.spark.driver.turn import turn
from tidegate.spark.intake import contracts, sources
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import reentry, reingest, replay, swap
from tidegate.spec import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext


def run_flow(context: FlowContext) -> None:
    """Run a flow until its source is drained.

    Args:
        context: The flow; its report tells what happened.

    Raises:
        TidegateError: See `tidegate.errors`. Finished batches stay; the batch in hand is finished by the next run.
    """
    if context.source_table is not None and not tables.exists(context.source_table):
        return
    name = context.flow.name
    with turn(context, work=f"flow {name!r}", holder=f"attempt {context.attempt} of {context.pipeline.name}"):
        _prepare(context)
        if context.target == context.live:
            reentry.finish_interrupted(context)
        (replay if context.flow.target.keys else reingest).finish_pending(context)
        _drain(context)
        if context.target != context.live:
            swap.swap_in(context)
        if context.target == context.live and (context.ref.version, context.ref.refresh) != (1, 0):
            decision.retire(context.layout, context.ref)
            reentry.finish_interrupted(context)
        if context.request.window is not None and context.request.concerns(context.flow):
            again = replay.replay if context.request.mode == "replay" else reingest.reingest
            again(context, context.request.window)


def _prepare(context: FlowContext) -> None:
    """Check what the lake holds against the checkpoint, remember the declaration, choose live table or staging."""
    checkpoint.check_compatible(context.layout, context.pipeline, context.flow)
    if swap.is_past_replacement(context):
        context.refresh(swap.next_refresh(context.ref))
    else:
        _refresh_as_asked(context)
        _refresh_past_gap(context)
    state = progress.read(context.checkpoint)
    held = tables.transactions(context.spark, context.live)
    own = f"{context.pipeline.name}/{context.flow.name}/"
    strangers = sorted({app_id.rsplit("/", 2)[0] for app_id in held if not app_id.startswith(own)})
    if strangers and context.app_id not in held:
        raise SpecDriftError(
            f"flow {context.flow.name!r}: table {context.flow.target.name!r} was filled by {', '.join(strangers)}. Keep that "
            "flow's name, or give this one another target: two writers' transactions do not mix."
        )
    _check_gone(context, state.last_committed is not None, held)
    if state.last_planned is None and context.ref.refresh == 0:
        _check_old_versions_finished(context)
    checkpoint.write_sidecar(context.layout, context.pipeline, context.flow)
    contracts.record_declared(context)
    earlier = [app_id for app_id in held if app_id.startswith(own) and app_id != context.app_id]
    if earlier and context.app_id not in held and context.flow.target.keys:
        context.target = swap.staging(context)
    elif earlier and context.app_id not in held and context.source_table is not None:
        raise SpecDriftError(
            f"flow {context.flow.name!r}: table {context.flow.target.name!r} has no keys, so a new checkpoint version would write "
            "every row twice. Give it keys, or another table name."
        )
    elif context.app_id in held and swap.staging(context).exists():
        swap.finish(context)
    last = -1 if state.last_planned is None else state.last_planned
    quarantined = tables.transactions(context.spark, context.quarantine).get(context.app_id, -1)
    written = tables.transactions(context.spark, context.target).get(context.app_id, -1)
    check_not_ahead(context, {"quarantine": quarantined, "target": written}, last)


def _refresh_as_asked(context: FlowContext) -> None:
    """Open the next refresh for a request that asks for one, once per request however often its run is tried."""
    request = context.request
    # What is asked for a window is done beside the stream, behind its increment.
    asked = request.mode in ("full_refresh", "reingest") and request.window is None and request.concerns(context.flow)
    pending = progress.read(context.checkpoint)
    if not asked or pending.last_planned is None:
        return
    if checkpoint.opened(context.layout, context.ref).get("request_id") == request.request_id:
        if request.mode == "full_refresh" and context.app_id in tables.transactions(context.spark, context.live):
            context.report.notes.append(replay.ONCE)
        return
    if _is_half_written(context, context.ref):
        # Its split is decided and stands in two tables: only its own checkpoint can finish it.
        _drain(context)
    ref = swap.next_refresh(context.ref)
    told = {
        "mode": request.mode,
        "run_key": context.run_key,
        "request_id": request.request_id,
        "requested_by": request.requested_by,
    }
    checkpoint.note_opened(context.layout, ref, told)
    context.refresh(ref)


def _refresh_past_gap(context: FlowContext) -> None:
    """Open the next refresh where messages were given up that the checkpoint would read next.

    Spark's own log of offsets is not touched: the new checkpoint begins behind the gap, at the topic's beginning.
    """
    source = context.flow.source
    if not isinstance(source, KafkaSource):
        return
    ledger.record_gaps(context.layout, context.pipeline.name, context.flow.name)
    if not sources.must_leave_gap(context, source):
        return
    if _is_half_written(context, context.ref):
        _record_written(context, context.ref)
    ref = swap.next_refresh(context.ref)
    checkpoint.note_opened(context.layout, ref, {"mode": "accept_gap", "run_key": context.run_key})
    context.refresh(ref)


def _record_written(context: FlowContext, ref: CheckpointRef) -> None:
    """Record a batch of messages that bronze holds and whose checkpoint did not commit it: nothing else of it is missing."""
    pending = progress.read(ref.path(context.layout)).pending_batch
    assert pending is not None
    commit = tables.find_commit(context.live, ref.app_id, pending, tables.version(context.spark, context.live))
    record = BatchRecord.from_json(commit.metadata["planned"])
    own = dataclasses.replace(context, ref=ref)
    batch_ledger.record_batch(own, dataclasses.replace(record, target_version=commit.version))


def _is_half_written(context: FlowContext, ref: CheckpointRef) -> bool:
    """Whether quarantine or target hold a batch that the checkpoint planned and did not commit."""
    pending = progress.read(ref.path(context.layout)).pending_batch
    tables_of = (context.live, context.quarantine)
    return pending is not None and any(
        tables.transactions(context.spark, path).get(ref.app_id) == pending for path in tables_of
    )


def _check_gone(context: FlowContext, has_history: bool, held: dict[str, int]) -> None:
    if not has_history or context.app_id in held:
        return
    if tables.exists(swap.staging(context)):
        return
    lines = context.layout.ops(context.pipeline.name, "ledger")
    if delta.transaction_version(lines, context.app_id) is not None:
        raise CheckpointCorruptError(
            f"flow {context.flow.name!r}: the checkpoint at {context.checkpoint} has written to table {context.flow.target.name!r}, "
            f"which is gone or was replaced. Restore the table, or set checkpoint_version={context.ref.version + 1} to derive it anew.",
            path=str(context.checkpoint),
        )


def _check_old_versions_finished(context: FlowContext) -> None:
    """A bump is refused while the version before has a half-written batch: only its own declaration can finish it."""
    folder = context.layout.checkpoints(context.pipeline.name, context.flow.name)
    for path in folder.glob("v*/*"):
        version, refresh = path.parent.name.removeprefix("v"), path.name
        if path == context.checkpoint or not (version.isdigit() and refresh.isdigit()):
            continue
        old = CheckpointRef(
            dag_id=context.pipeline.name, flow=context.flow.name, version=int(version), refresh=int(refresh)
        )
        if _is_half_written(context, old):
            if isinstance(context.flow.source, KafkaSource):
                # The topic may be gone from which its own declaration would have to read it once more.
                _record_written(context, old)
                continue
            pending = progress.read(path).pending_batch
            raise CheckpointIncompatibleError(
                context.flow.name,
                old.version,
                {"half-written batch": (pending, "finish it with the old declaration first")},
            )


def _drain(context: FlowContext) -> None:
    def take(batch: DataFrame, batch_id: int) -> None:
        try:
            micro_batch.process(context, batch, batch_id)
        except Exception as error:
            context.error = translate(
                error,
                what=f"flow {context.flow.name!r}",
                checkpoint=str(context.checkpoint),
                feed=str(context.source_table or ""),
            )
            raise

    stream = sources.read_stream(context)
    with recorded_progress(context):
        query = (
            stream.writeStream.queryName(context.app_id)
            .foreachBatch(take)
            .option("checkpointLocation", str(context.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:
            raise (context.error or error) from error
        finally:
            if query.isActive:
                query.stop()


def note_refusal(context: FlowContext, error: GateRefusedError | ContractRefusedError) -> None:
    """Tell `plan` which batch waits, and for a change of what. What a replay brought does not wait."""
    told: dict[str, Any]
    if isinstance(error, ContractRefusedError):
        told = {"batch_id": error.batch_id, "drift": error.drift, "declared": error.declared}
    else:
        verdict = error.verdict
        told = {
            "batch_id": verdict.batch_id,
            "suite_fingerprint": verdict.suite_fingerprint,
            "code_fingerprint": verdict.code_fingerprint,
        }
    refusal.note(context.layout, context.ref, told)
