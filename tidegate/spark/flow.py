"""Runs one flow: one increment of its source through micro-batches, then stops.

A version bump or a full refresh of a keyed table builds the new table in staging from the feed's initial snapshot,
and swaps it in with one diff MERGE once the feed is drained, so that readers never see it empty.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import checkpoint, progress
from tidegate.checkpoint import CheckpointRef
from tidegate.errors import (
    CheckpointCorruptError,
    CheckpointIncompatibleError,
    ContractRefusedError,
    GateRefusedError,
    SpecDriftError,
    TidegateError,
)
from tidegate.report import BatchRecord
from tidegate.spark import contracts, lease, ledger, micro_batch, sinks, sources, tables
from tidegate.spark.failures import translate
from tidegate.spark.split import check_not_ahead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext

_BOOKKEEPING = ("_batch_id", "_ingested_at", "_row_id")
"""Columns of a silver table in which a difference alone is no change of the row."""


def run_flow(context: FlowContext) -> None:
    """Run a flow until its source is drained.

    Args:
        context: The flow; its report tells what happened.

    Raises:
        TidegateError: See `tidegate.errors`. Finished batches stay; the batch in hand is finished by the next run.
    """
    started = time.monotonic()
    resources = (f"checkpoint:{context.pipeline.name}/{context.flow.name}", f"table:{context.flow.target.name}")
    try:
        if context.source_table is not None and not tables.exists(context.source_table):
            return
        with lease.hold(
            context.spark, context.layout, resources, what=f"attempt {context.attempt} of {context.pipeline.name}"
        ):
            _prepare(context)
            _drain(context)
            if context.target != _live(context):
                _swap(context)
    except TidegateError:
        raise
    except Exception as error:
        raise translate(error, what=f"flow {context.flow.name!r}", checkpoint=str(context.checkpoint)) from error
    finally:
        context.report.seconds = round(time.monotonic() - started, 3)
        if tables.exists(_live(context)):
            context.report.target_version = tables.version(context.spark, _live(context))


def _live(context: FlowContext) -> Path:
    return context.layout.table(context.flow.target.name)


def _prepare(context: FlowContext) -> None:
    """Check what the lake holds against the checkpoint, remember the declaration, choose live table or staging."""
    checkpoint.check_compatible(context.layout, context.pipeline, context.flow)
    state = progress.read(context.checkpoint)
    held = tables.transactions(context.spark, _live(context))
    own = f"{context.pipeline.name}/{context.flow.name}/"
    strangers = sorted({app_id.rsplit("/", 2)[0] for app_id in held if not app_id.startswith(own)})
    if strangers and context.app_id not in held:
        raise SpecDriftError(
            f"flow {context.flow.name!r}: table {context.flow.target.name!r} was filled by {', '.join(strangers)}. Keep that "
            "flow's name, or give this one another target: two writers' transactions do not mix."
        )
    _check_gone(context, state.last_committed is not None, held)
    if state.last_planned is None:
        _check_old_versions_finished(context, held)
    checkpoint.write_sidecar(context.layout, context.pipeline, context.flow)
    contracts.record_declared(context)
    earlier = [app_id for app_id in held if app_id.startswith(own) and app_id != context.app_id]
    if earlier and context.app_id not in held and context.flow.target.keys:
        context.target = context.layout.staging(
            context.pipeline.name, context.flow.name, context.ref.version, context.ref.refresh
        )
    elif earlier and context.app_id not in held and context.source_table is not None:
        raise SpecDriftError(
            f"flow {context.flow.name!r}: table {context.flow.target.name!r} has no keys, so a new checkpoint version would write "
            "every row twice. Give it keys, or another table name."
        )
    last = -1 if state.last_planned is None else state.last_planned
    quarantined = tables.transactions(context.spark, context.quarantine).get(context.app_id, -1)
    written = tables.transactions(context.spark, context.target).get(context.app_id, -1)
    check_not_ahead(context, {"quarantine": quarantined, "target": written}, last)


def _check_gone(context: FlowContext, has_history: bool, held: dict[str, int]) -> None:
    if not has_history or context.app_id in held:
        return
    ledger_path = context.layout.ops(context.pipeline.name, "ledger")
    staging = context.layout.staging(context.pipeline.name, context.flow.name, context.ref.version, context.ref.refresh)
    if tables.exists(staging):
        return
    from deltalake import DeltaTable

    if (
        DeltaTable.is_deltatable(str(ledger_path))
        and DeltaTable(str(ledger_path)).transaction_version(context.app_id) is not None
    ):
        raise CheckpointCorruptError(
            f"flow {context.flow.name!r}: the checkpoint at {context.checkpoint} has written to table {context.flow.target.name!r}, "
            f"which is gone or was replaced. Restore the table, or set checkpoint_version={context.ref.version + 1} to derive it anew.",
            path=str(context.checkpoint),
        )


def _check_old_versions_finished(context: FlowContext, held: dict[str, int]) -> None:
    """A bump is refused while the version before has a half-written batch: only its own declaration can finish it."""
    quarantined = tables.transactions(context.spark, context.quarantine)
    folder = context.layout.checkpoints(context.pipeline.name, context.flow.name)
    for path in folder.glob("v*/*"):
        version, refresh = path.parent.name.removeprefix("v"), path.name
        if path == context.checkpoint or not (version.isdigit() and refresh.isdigit()):
            continue
        old = CheckpointRef(
            dag_id=context.pipeline.name, flow=context.flow.name, version=int(version), refresh=int(refresh)
        )
        pending = progress.read(path).pending_batch
        if pending is not None and pending in (held.get(old.app_id), quarantined.get(old.app_id)):
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
            context.error = translate(error, what=f"flow {context.flow.name!r}", checkpoint=str(context.checkpoint))
            raise

    stream = sources.read_stream(context)
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


def _swap(context: FlowContext) -> None:
    """Make the live table what staging holds, once the feed is drained. The last staged batch's ids go with it."""
    staged = tables.transactions(context.spark, context.target).get(context.app_id)
    if staged is None:
        return
    started = time.monotonic()
    spark, live = context.spark.newSession(), _live(context)
    rows = tables.read(spark, context.target)
    recompute = context.flow.target.write_mode == "recompute"
    txn = sinks.Transaction(app_id=context.app_id, batch_id=staged, planned={"kind": "swap"})
    commit = sinks.swap(rows, live, context.flow.target.keys, txn, () if recompute else _BOOKKEEPING)
    upserted = commit.metrics["numTargetRowsInserted"] + commit.metrics["numTargetRowsUpdated"]
    deleted, total = commit.metrics["numTargetRowsDeleted"], rows.count()
    record = BatchRecord(
        flow=context.flow.name,
        batch_id=staged,
        app_id=context.app_id,
        kind="swap",
        groups=total + deleted,
        upserted=upserted,
        deleted=deleted,
        unchanged=total - upserted,
        target_version=commit.version,
        seconds=round(time.monotonic() - started, 3),
    )
    ledger.record_batch(context, record)
    context.tell_batch(record)
    shutil.rmtree(context.target)
    context.target = live


def note_refusal(context: FlowContext, refusal: GateRefusedError | ContractRefusedError) -> None:
    """Tell `plan` which batch waits, and for a change of what."""
    if isinstance(refusal, ContractRefusedError):
        told = {"batch_id": refusal.batch_id, "drift": refusal.drift, "declared": refusal.declared}
    else:
        verdict = refusal.verdict
        told = {
            "batch_id": verdict.batch_id,
            "suite_fingerprint": verdict.suite_fingerprint,
            "code_fingerprint": verdict.code_fingerprint,
        }
    path = context.layout.refusal(context.pipeline.name, context.flow.name, context.ref.version, context.ref.refresh)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(told))
    draft.replace(path)
