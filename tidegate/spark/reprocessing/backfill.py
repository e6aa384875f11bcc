"""Backfill: rows and groups of a window of event time are derived again with the present code.

The rows of a key are derived from all of its source rows, not only from those in the window. So a backfill selects every
key that has a row in the window, in the present table or in the output of the present code. All source rows of these
keys go through the steps of a micro-batch. The result replaces the rows of these keys in the table; a key without a
result is deleted.

Before it writes, a backfill stores its number, the version of the source and the keys beside the checkpoint, and is judged
(`tidegate.spark.batch.rewrite`). If the process dies after the first write, the next run of the flow finishes the same
backfill first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pendulum

from tidegate import json_codec
from tidegate.checkpoints import checkpoint
from tidegate.checkpoints.pending_jobs import last_window
from tidegate.impact import Impact
from tidegate.spark.batch import groups, micro_batch, quarantine, rewrite, transform_errors
from tidegate.spark.batch.split import Decision, check_balance
from tidegate.spark.driver.leased import leased_flow
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import pending_work, swap
from tidegate.spark.reprocessing.pending_work import PendingWork
from tidegate.store import Address
from tidegate.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.batch.split import Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.lake.writes import Transaction
    from tidegate.spec import Flow

ALREADY_DONE = "An earlier attempt completed this request; to repeat it, clear the whole run, or start a new one"
"""Note in a flow's report when a retry has nothing to do."""
_DRY_RUN = -1
"""The number of a backfill that is only judged; nothing but its keys is stored, until it ends."""


@dataclass(frozen=True, kw_only=True)
class Backfill(PendingWork):
    """One backfill of one flow, as it is stored beside the checkpoint."""

    compares = "never"

    run_key: str
    source_version: int
    """Of the source, or the first of several."""
    other_versions: Mapping[str, int] = field(default_factory=dict)
    """Of the other sources, by table."""
    seconds: float = 0.0
    """Duration of the search for the keys."""
    judged: Impact | None = None
    """What was judged, and accepted, before the first write; None before."""

    def source_versions(self, flow: Flow) -> dict[str, int]:
        """The version of each source table at which it reads them."""
        return {flow.source_tables[0]: self.source_version, **self.other_versions}

    def finish(self, context: FlowContext) -> None:
        """Derive its keys once more, or record what the table has."""
        _run(context, self)

    def drop(self, context: FlowContext) -> None:
        """With its keys."""
        super().drop(context)
        _remove_files(context, self.number)

    @property
    def is_whole(self) -> bool:
        """Whether it derives the whole table and not a window, which only a dry run does."""
        return not self.window

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
        RewriteRefusedError: It would delete or quarantine more rows than the flow's limits allow; nothing was written.
        TidegateError: As for a micro-batch. If a critical expectation refuses the result, the table is unchanged.
    """
    last = last_window(context.place, Backfill)
    if last is not None and last.request_id == context.request.request_id and last.done:
        context.report.notes.append(ALREADY_DONE)
        return
    _run(context, _prepare(context, window, 0 if last is None else last.number + 1))


def dry_run(context: FlowContext, window: Window | None) -> None:
    """Report what a backfill of the window, or without one a full refresh, does to the table; write nothing.

    The result is derived from the present source table, without the increment that precedes a backfill.

    Raises:
        TidegateError: As for `backfill`.
    """
    name = context.flow.name
    context.report.dry_run = True
    with leased_flow(context, work=f"dry run of flow {name!r}", holder=f"dry run {context.attempt} of {name}"):
        checkpoint.check_compatible(context.layout, context.resolved)
        if not context.source_paths or not all(tables.exists(path) for path in (*context.source_paths, context.live)):
            context.report.notes.append("dry run: nothing to judge, because the table or its source does not exist yet")
            return
        own = context.doing(_planned(context, window, _DRY_RUN), context.spark.newSession())
        assert isinstance(own.work, Backfill)
        try:
            _write_keys(own, window, own.work)
            keys = own.spark.read.parquet(str(_keys_path(context, _DRY_RUN))).persist()
            own.persisted.append(keys)
            split = own.kind.split_keys(own, keys, own.work, Decision(quarantined=False, written=False))
            if split is not None:
                check_balance(own, split.prepared)
                _judge(own, own.work, split)
                _name_rewritten_source(context)
            else:
                context.report.notes.append("dry run: nothing to judge, because the source has no row to derive")
        finally:
            own.release()
            _remove_files(context, _DRY_RUN)


def _name_rewritten_source(context: FlowContext) -> None:
    """Note which sources the run itself would rewrite before this flow."""
    request, selected = context.request, context.request.selected(context.pipeline)
    above = [
        flow for flow in context.pipeline.upstream_of(context.flow) if flow in selected and request.applies_to(flow)
    ]
    for flow in above:
        context.report.notes.append(
            f"counted from {flow.target.name} as it is now: without the changes that this run would make there before (flow "
            f"{flow.name}), so the numbers of the run may differ"
        )


def _run(context: FlowContext, pending: Backfill) -> None:
    own = context.doing(pending, context.spark.newSession())

    def split(decision: Decision) -> Split | None:
        keys = own.spark.read.parquet(str(_keys_path(context, pending.number))).persist()
        own.persisted.append(keys)
        made = own.kind.split_keys(own, keys, pending, decision)
        if made is not None:
            impact = _judge(own, pending, made)
            if pending.judged is None:
                pending_work.write(context, dataclasses.replace(pending, judged=impact))
        return made

    micro_batch.run_steps(own, pending.number, split, planning=pending.seconds)
    judged = pending_work.read(context, pending.number, Backfill)
    pending_work.write(context, dataclasses.replace(judged, done=True))
    _remove_files(context, pending.number)


def _judge(context: FlowContext, pending: Backfill, split: Split) -> Impact:
    """What the backfill does to the table; raises `RewriteRefusedError` if that is too much."""
    assert split.changes is not None
    keys = context.flow.target.keys
    before = tables.read(split.changes.sparkSession, context.live)
    if not pending.is_whole:
        before = groups.join_on_keys(before, split.changes, keys, "left_semi")
    measured = rewrite.measure(
        context,
        before,
        split.changes.where("_op = 'upsert'"),
        keys=() if pending.is_whole and swap.rekeyed(context) else keys,
        refused=split.refused,
        read=split.prepared.read,
    )
    what = "a full refresh"
    if not pending.is_whole:
        what = f"backfill {pending.number} of {json_codec.from_plain(pending.window, Window).summary()}"
    rewrite.check(context, measured, what, judged=pending.judged)
    return measured.impact


def _prepare(context: FlowContext, window: Window, number: int) -> Backfill:
    """Find the keys, and store the backfill beside the checkpoint."""
    started = time.monotonic()
    pending = _planned(context, window, number)
    _write_keys(context.doing(pending, context.spark.newSession()), window, pending)
    pending = dataclasses.replace(pending, seconds=round(time.monotonic() - started, 3))
    pending_work.write(context, pending)
    return pending


def _planned(context: FlowContext, window: Window | None, number: int) -> Backfill:
    versions = {
        table: tables.version(context.spark, context.layout.table(table)) for table in context.flow.source_tables
    }
    first, *others = context.flow.source_tables
    return Backfill(
        number=number,
        run_key=context.run_key,
        window=dataclasses.asdict(window) if window is not None else {},
        source_version=versions[first],
        other_versions={table: versions[table] for table in others},
        planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
        requested_by=context.request.requested_by,
        request_id=context.request.request_id,
    )


def _write_keys(context: FlowContext, window: Window | None, pending: Backfill) -> None:
    """Store the keys; once more without the rows on which the transform raises, if it does."""
    path = str(_keys_path(context, pending.number))

    def write() -> None:
        keys = context.kind.keys_in_window(context, window, pending)
        keys.distinct().write.mode("overwrite").parquet(path)

    _remove_files(context, pending.number)
    try:
        raised = transform_errors.raised_by(write)
        if raised is None:
            return
        context.kind.store_raising(context, window, pending, raised)
        raised = transform_errors.raised_by(write)
        if raised is not None:
            raise transform_errors.refused(context, pending.number, {raised: None}, transform_errors.NOT_BY_ROW)
    finally:
        context.release()


def _remove_files(context: FlowContext, number: int) -> None:
    """Remove the keys, and what the kind of the flow stored beside them."""
    for entry in pending_work.folder(context).list():
        if entry.is_folder and entry.name.startswith(f"{number}."):
            with contextlib.suppress(OSError):
                (pending_work.folder(context) / entry.name).delete_folder()


def _keys_path(context: FlowContext, number: int) -> Address:
    return pending_work.folder(context) / f"{number}.keys"
