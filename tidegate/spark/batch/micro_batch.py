"""The steps of a micro-batch, numbered as in docs/architecture/batch.md.

0. Decide: read from quarantine, late table and target what an earlier attempt wrote; prove the history of every table.
1. Transform: parse rows to their declared types and transform them; no row is dropped.
2. Judge, count, balance: every row has exactly one disposition before anything is written.
3. Write the quarantine, then the late rows, always before the target.
4. Write the target, in one DML.
5. Record the ledger line, with the metrics of the target's commit.

Every write is idempotent by (``txnAppId``, ``txnVersion``), so after a crash between any two steps a rerun completes the
batch. The split of a batch is decided once: if suite or transform are edited before the rerun, no row moves. It is recorded before
step 3, and every commit names its attempt: of two drivers, of which one was stopped, the one that finds the other's ends.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate import json_codec
from tidegate.checkpoints import refusal
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import ledger, proofs, quarantine
from tidegate.spark.batch.checks import check_balance, check_commit, decide, follow, record_split
from tidegate.spark.batch.split import Decision, Split, settle
from tidegate.spark.lake import tables, writes
from tidegate.spark.lake.writes import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.job import Job


def process(job: Job, batch: DataFrame, batch_id: int) -> None:
    """Run the six steps for one batch. An empty one writes nothing.

    Args:
        batch: The rows to process; their session need not be that of ``job``.
        batch_id: Counted from 0 per ``app_id``.

    Raises:
        TidegateError: See `tidegate.errors`; a rerun completes whatever was written.
    """
    try:
        rows = evaluate_batch(job, batch, batch_id)
        run_steps(job, batch_id, lambda decision: split_batch(job, rows, batch_id, decision))
    finally:
        job.release()


def run_steps(
    job: Job, batch_id: int, make_split: Callable[[Decision], Split | None], *, planning: float = 0.0
) -> None:
    """Run the six steps for what ``make_split`` reads.

    Args:
        job: The flow; its ``app_id`` and ``batch_id`` identify every write.
        make_split: Steps 1 and 2; returns None when there are no rows.
        planning: Seconds spent on the batch before the call; added to its duration.

    Raises:
        TidegateError: See `tidegate.errors`; a rerun completes whatever was written.
    """
    started = time.monotonic() - planning
    try:
        # 0. decide
        reading = job.reading()
        decision = decide(reading, batch_id)
        begun = proofs.begin(job, batch_id, reading=reading)
        decision = follow(job, decision, begun, batch_id)
        if decision.written:
            record = recorded_in_target(job, batch_id)
            job.kind.check_written(job, record)
        else:
            # 1. transform  2. judge, count, balance
            split = make_split(decision)
            if split is None:
                return
            check_balance(job, split.prepared)
            split = dataclasses.replace(split, prepared=job.with_fingerprints(split.prepared))
            txn = split.transaction(job.app_id, begun.value.positions, attempt=job.run.place.attempt)
            record_split(job, begun, split, decision)
            # 3. quarantine, late rows
            if not decision.quarantined:
                write_quarantine(job, split, batch_id, txn, expected=decision.expects_refused)
            if not decision.late:
                write_late(job, split, txn)
            # 4. target
            record = write_target(job, split, txn)
        proofs.end(job)
        # 5. record
        record_batch(job, dataclasses.replace(record, seconds=round(time.monotonic() - started, 3)))
    finally:
        job.release()


def evaluate_batch(job: Job, batch: DataFrame, batch_id: int) -> DataFrame:
    """What the kind of the flow does before step 0; the rows to split."""
    return job.kind.evaluate(job, batch, batch_id)


def split_batch(job: Job, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2, for the kind of the flow; None for an empty batch."""
    split = job.kind.split(job, batch, batch_id, decision)
    if split is None:
        return None
    kind = job.work.line_kind or split.prepared.kind
    return dataclasses.replace(split, prepared=dataclasses.replace(split.prepared, kind=kind))


def write_quarantine(job: Job, split: Split, batch_id: int, txn: Transaction, *, expected: bool = False) -> None:
    """Step 3: write the refused rows.

    Args:
        expected: Whether to commit the transaction also without rows, so that no other attempt writes there later.
    """
    if split.refused is not None:
        job.work.write_refused(job, split, batch_id, txn)
    elif expected:
        quarantine.append_nothing(job, batch_id, txn, job.work.planned_ms(job, batch_id))


def write_late(job: Job, split: Split, txn: Transaction) -> None:
    """Step 3: write the late rows."""
    if split.late is not None:
        writes.append(split.late, job.place.late, txn)


def write_target(job: Job, split: Split, txn: Transaction) -> LedgerLine:
    """Step 4: write the target in one DML, whose commit carries the batch's ids and its prepared ledger line."""
    commit = split.write(txn)
    check_commit(job, split, commit)
    return settle(split.prepared, commit, split.settled)


def record_batch(job: Job, record: LedgerLine) -> None:
    """Step 5: record the ledger line, once."""
    ledger.record_batch(job, record)
    if job.work.decision(job, record.batch_id) is not None:
        refusal.clear_decision(job.place, record.batch_id)
    job.run.record_batch(record)


def recorded_in_target(job: Job, batch_id: int) -> LedgerLine:
    """The ledger line of a batch that the target has, from its commit."""
    newest = tables.version(job.spark, job.target)
    commit = tables.find_commit(job.target, job.app_id, batch_id, newest)
    prepared = commit.metadata["prepared"]
    return settle(json_codec.from_plain(prepared, LedgerLine), commit, prepared.get("settled", ""))
