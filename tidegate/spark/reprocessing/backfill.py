"""Backfill: rows and groups of a window of event time are derived again with the present code.

The rows of a key are derived from all of its source rows, not only from those in the window. So a backfill selects every
key that has a row in the window, in the present table or in the output of the present code. All source rows of these
keys go through the steps of a micro-batch. The result replaces the rows of these keys in the table; a key without a
result is deleted.

Before it writes, a backfill stores its number, the version of the source and the keys beside the checkpoint. If the
process dies after the first write, the next run of the flow finishes the same backfill first.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pendulum

from tidegate.spark.batch import micro_batch, quarantine
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import pending_work
from tidegate.spark.reprocessing.pending_work import PendingWork

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.lake.sinks import Transaction
    from tidegate.window import Window

ALREADY_DONE = "An earlier attempt completed this request; to repeat it, clear the whole run, or start a new one"
"""Note in a flow's report when a retry has nothing to do."""


@dataclass(frozen=True, kw_only=True)
class Backfill(PendingWork):
    """One backfill of one flow, as it is stored beside the checkpoint."""

    compares = "never"

    run_key: str
    source_version: int
    seconds: float = 0.0
    """Duration of the search for the keys."""

    def write_refused(self, context: FlowContext, split: Split, batch_id: int, txn: Transaction) -> None:
        """Entries of its rows exist already, where there is a quarantine."""
        assert split.refused is not None and split.passed is not None
        if not tables.exists(context.quarantine):
            super().write_refused(context, split, batch_id, txn)
            return
        passed, planned_ms = split.passed, self.planned_at_ms
        quarantine.apply_backfill(context, split.refused, passed, batch_id, txn, planned_ms)

    def refused_ids(self, context: FlowContext, spark: SparkSession, batch_id: int) -> DataFrame:
        """All entries that it left open."""
        return quarantine.refused_in_backfill(context, spark)


def backfill(context: FlowContext, window: Window) -> None:
    """Derive a window of event time again, once per request, however often the run is retried.

    The flow has read its whole change feed before.

    Raises:
        SpecError: The event time column is missing, or is neither a date nor a timestamp.
        TidegateError: As for a micro-batch. If a critical expectation refuses the result, the table is unchanged.
    """
    last = _last(context)
    if last is not None and last.request_id == context.request.request_id and last.done:
        context.report.notes.append(ALREADY_DONE)
        return
    _run(context, _prepare(context, window, 0 if last is None else last.number + 1))


def finish_pending(context: FlowContext) -> None:
    """Finish a backfill that crashed after its first write; delete one that wrote nothing."""
    last = _last(context)
    if last is None or last.done:
        return
    if pending_work.has_begun(context, last.number):
        _run(context, last)
    else:
        pending_work.drop(context, last.number)
        shutil.rmtree(_keys_path(context, last.number), ignore_errors=True)


def _run(context: FlowContext, pending: Backfill) -> None:
    own = context.doing(pending, context.spark.newSession())

    def split(decision: Decision) -> Split | None:
        keys = own.spark.read.parquet(str(_keys_path(context, pending.number))).persist()
        own.persisted.append(keys)
        return own.kind.split_keys(own, keys, pending, decision)

    micro_batch.run_steps(own, pending.number, split, planning=pending.seconds)
    pending_work.write(context, dataclasses.replace(pending, done=True))
    shutil.rmtree(_keys_path(context, pending.number), ignore_errors=True)


def _prepare(context: FlowContext, window: Window, number: int) -> Backfill:
    """Find the keys, and store the backfill beside the checkpoint."""
    assert context.source_table is not None
    started = time.monotonic()
    pending = Backfill(
        number=number,
        run_key=context.run_key,
        window=dataclasses.asdict(window),
        source_version=tables.version(context.spark, context.source_table),
        planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
        requested_by=context.request.requested_by,
        request_id=context.request.request_id,
    )
    keys = context.kind.keys_in_window(context.doing(pending, context.spark.newSession()), window, pending)
    keys.distinct().write.mode("overwrite").parquet(str(_keys_path(context, number)))
    pending = dataclasses.replace(pending, seconds=round(time.monotonic() - started, 3))
    pending_work.write(context, pending)
    return pending


def _keys_path(context: FlowContext, number: int) -> Path:
    return pending_work.folder(context) / f"{number}.keys"


def _last(context: FlowContext) -> Backfill | None:
    numbers = pending_work.numbers(context)
    return pending_work.read(context, numbers[-1], Backfill) if numbers else None
