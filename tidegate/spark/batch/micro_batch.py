"""The steps of a micro-batch, numbered as in docs/architecture.md.

0. Decide: read from quarantine, late table and target what an earlier attempt wrote; prove the history of every table.
1. Transform: parse rows to their declared types and transform them; no row is dropped.
2. Judge, count, balance: every row has exactly one disposition before anything is written.
3. Write the quarantine, then the late rows, always before the target.
4. Write the target, in one DML.
5. Record the ledger line, with the metrics of the target's commit.

Every write is idempotent by (``txnAppId``, ``txnVersion``), so after a crash between any two steps a rerun completes the
batch. The split of a batch is decided once: if suite or transform are edited before the rerun, no row moves.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate import json_codec
from tidegate.checkpoints import refusal
from tidegate.report import BatchRecord
from tidegate.spark.batch import ledger, proofs
from tidegate.spark.batch.split import Decision, Split, check_balance, check_commit, decide, settle
from tidegate.spark.lake import tables, writes
from tidegate.spark.lake.writes import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext


def process(context: FlowContext, batch: DataFrame, batch_id: int) -> None:
    """Run the six steps for one batch. An empty one writes nothing.

    Args:
        batch: The rows to process; their session need not be that of ``context``.
        batch_id: Counted from 0 per ``app_id``.

    Raises:
        TidegateError: See `tidegate.errors`; a rerun completes whatever was written.
    """
    try:
        rows = evaluate_batch(context, batch, batch_id)
        run_steps(context, batch_id, lambda decision: split_batch(context, rows, batch_id, decision))
    finally:
        context.release()


def run_steps(
    context: FlowContext, batch_id: int, make_split: Callable[[Decision], Split | None], *, planning: float = 0.0
) -> None:
    """Run the six steps for what ``make_split`` reads.

    Args:
        context: The flow; its ``app_id`` and ``batch_id`` identify every write.
        make_split: Steps 1 and 2; returns None when there are no rows.
        planning: Seconds spent on the batch before the call; added to its duration.

    Raises:
        TidegateError: See `tidegate.errors`; a rerun completes whatever was written.
    """
    started = time.monotonic() - planning
    try:
        # 0. decide
        decision = decide(context, batch_id)
        stands_on = proofs.begin(context, batch_id)
        if decision.written:
            record = recorded_in_target(context, batch_id)
            context.kind.check_written(context, record)
        else:
            # 1. transform  2. judge, count, balance
            split = make_split(decision)
            if split is None:
                return
            check_balance(context, split.prepared)
            split = dataclasses.replace(split, prepared=context.with_fingerprints(split.prepared))
            txn = split.transaction(context.app_id, stands_on)
            # 3. quarantine, late rows
            if not decision.quarantined:
                write_quarantine(context, split, batch_id, txn)
            if not decision.late:
                write_late(context, split, txn)
            # 4. target
            record = write_target(context, split, txn)
        proofs.end(context)
        # 5. record
        record_batch(context, dataclasses.replace(record, seconds=round(time.monotonic() - started, 3)))
    finally:
        context.release()


def evaluate_batch(context: FlowContext, batch: DataFrame, batch_id: int) -> DataFrame:
    """What the kind of the flow does before step 0; the rows to split."""
    return context.kind.evaluate(context, batch, batch_id)


def split_batch(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2, for the kind of the flow; None for an empty batch."""
    split = context.kind.split(context, batch, batch_id, decision)
    if split is None:
        return None
    kind = context.work.line_kind or split.prepared.kind
    return dataclasses.replace(split, prepared=dataclasses.replace(split.prepared, kind=kind))


def write_quarantine(context: FlowContext, split: Split, batch_id: int, txn: Transaction) -> None:
    """Step 3: write the refused rows."""
    if split.refused is not None:
        context.work.write_refused(context, split, batch_id, txn)


def write_late(context: FlowContext, split: Split, txn: Transaction) -> None:
    """Step 3: write the late rows."""
    if split.late is not None:
        writes.append(split.late, context.late, txn)


def write_target(context: FlowContext, split: Split, txn: Transaction) -> BatchRecord:
    """Step 4: write the target in one DML, whose commit carries the batch's ids and its prepared ledger line."""
    commit = split.write(txn)
    check_commit(context, split, commit)
    return settle(split.prepared, commit, split.settled)


def record_batch(context: FlowContext, record: BatchRecord) -> None:
    """Step 5: record the ledger line, once."""
    ledger.record_batch(context, record)
    if context.work.decision(context, record.batch_id) is not None:
        refusal.clear_decision(context.place, record.batch_id)
    context.record_batch(record)


def recorded_in_target(context: FlowContext, batch_id: int) -> BatchRecord:
    """The ledger line of a batch that the target has, from its commit."""
    newest = tables.version(context.spark, context.target)
    commit = tables.find_commit(context.target, context.app_id, batch_id, newest)
    prepared = commit.metadata["prepared"]
    return settle(json_codec.from_plain(prepared, BatchRecord), commit, prepared.get("settled", ""))
