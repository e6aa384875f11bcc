"""One micro-batch, step by step. The steps and their numbers are the protocol of docs/architecture.md.

0. Already decided? Quarantine and target say what an earlier attempt wrote.
1. Transform: rows get their declared types and their meaning; none is dropped.
2. Judge, count, balance: every row has exactly one fate before anything is written.
3. Quarantine, always first.
4. Target, one DML.
5. Record: the ledger's line, from what the target's own commit says.

Every write is idempotent by (``txnAppId``, ``txnVersion``), so a crash between any two steps is healed by running the
batch again; and because a split is decided once, an edit of suite or transform in between moves no row.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.checkpoints import refusal
from tidegate.report import BatchRecord
from tidegate.spark.batch import ledger, quarantine
from tidegate.spark.batch.groups import split_groups
from tidegate.spark.batch.raw import split_files, split_messages
from tidegate.spark.batch.rows import split_rows
from tidegate.spark.batch.split import Decision, Split, check_arrived, check_balance, decide, settle
from tidegate.spark.lake import tables
from tidegate.spark.lake.sinks import Transaction
from tidegate.spec import FileSource, KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext


def process(context: FlowContext, batch: DataFrame, batch_id: int) -> None:
    """Take one micro-batch through the six steps. An empty one returns at once and writes nothing.

    Args:
        context: The flow.
        batch: What the stream read; it belongs to a session of its own.
        batch_id: The batch, counted from 0 per checkpoint.

    Raises:
        TidegateError: See `tidegate.errors`; nothing is half done that a rerun does not finish.
    """
    take(
        context,
        batch_id,
        lambda decision: split_batch(context, batch, batch_id, decision),
        lambda: context.planned_ms(batch_id),
    )


def take(
    context: FlowContext,
    batch_id: int,
    split_it: Callable[[Decision], Split | None],
    planned_at_ms: Callable[[], int],
    *,
    planning: float = 0.0,
) -> None:
    """The six steps over rows from wherever: a stream's micro-batch, or what a replay derives anew.

    Args:
        context: The flow; its ``app_id`` and ``batch_id`` are the ids of every write.
        batch_id: The batch.
        split_it: Steps 1 and 2; None for nothing.
        planned_at_ms: When the batch was planned; the same on every rerun.
        planning: Seconds that it took before, to be counted with the batch's own.

    Raises:
        TidegateError: See `tidegate.errors`; nothing is half done that a rerun does not finish.
    """
    started = time.monotonic() - planning
    try:
        # 0. already decided?
        decision = decide(context, batch_id)
        if decision.written:
            record = _recorded_in_target(context, batch_id)
        else:
            # 1. transform  2. judge, count, balance
            split = split_it(decision)
            if split is None:
                return
            check_balance(context, split.planned)
            txn = split.transaction(context.app_id)
            # 3. quarantine
            if not decision.quarantined:
                write_quarantine(context, split, batch_id, txn, planned_at_ms)
            # 4. target
            record = write_target(context, split, txn)
        # 5. record
        record_batch(context, dataclasses.replace(record, seconds=round(time.monotonic() - started, 3)))
    finally:
        context.release()


def split_batch(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2, by the kind of flow; None for an empty micro-batch."""
    split = _split_by_kind(context, batch, batch_id, decision)
    if split is None or context.replay is None:
        return split
    return dataclasses.replace(split, planned=dataclasses.replace(split.planned, kind="replay"))


def _split_by_kind(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    if isinstance(context.flow.source, FileSource):
        return split_files(context, batch, batch_id, decision)
    if isinstance(context.flow.source, KafkaSource):
        return split_messages(context, batch, batch_id, decision, context.planned_ms(batch_id))
    if context.flow.target.write_mode == "recompute":
        return split_groups(context, batch, batch_id, decision)
    return split_rows(context, batch, batch_id, decision)


def write_quarantine(
    context: FlowContext, split: Split, batch_id: int, txn: Transaction, planned_at_ms: Callable[[], int]
) -> None:
    """Step 3: what was refused, with its reasons. Of a replay of entries it is there already, and is marked."""
    if split.refused is None:
        return
    if split.passed is not None and tables.exists(context.quarantine):
        quarantine.judge_anew(context, split.refused, split.passed, batch_id, txn, planned_at_ms())
    elif context.replay is not None:
        quarantine.send_back(context, split.refused, txn)
    else:
        quarantine.append(context, split.refused, batch_id, txn, planned_at_ms())


def write_target(context: FlowContext, split: Split, txn: Transaction) -> BatchRecord:
    """Step 4: the target, in one DML that carries the batch's ids and its planned ledger line."""
    commit = split.write(txn)
    check_arrived(context, split, commit)
    return settle(split.planned, commit, split.settled)


def record_batch(context: FlowContext, record: BatchRecord) -> None:
    """Step 5: the ledger's line, once."""
    ledger.record_batch(context, record)
    if context.taken(record.batch_id) is not None:
        refusal.end(context.layout, context.ref, record.batch_id)
    context.tell_batch(record)


def _recorded_in_target(context: FlowContext, batch_id: int) -> BatchRecord:
    newest = tables.version(context.spark, context.target)
    commit = tables.find_commit(context.target, context.app_id, batch_id, newest)
    planned = commit.metadata["planned"]
    return settle(BatchRecord.from_json(planned), commit, planned.get("settled", ""))
