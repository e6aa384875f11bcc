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
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pendulum

from tidegate import hidden, json_codec
from tidegate.checkpoints import checkpoint
from tidegate.checkpoints.pending_jobs import PendingBackfill, last_window
from tidegate.reports.impact import Impact
from tidegate.spark.batch import groups, micro_batch, quarantine, rewrite, transform_errors
from tidegate.spark.batch.checks import check_balance
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.driver.lease import leased_flow
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import pending_work, swap
from tidegate.spark.reprocessing.pending_work import PendingWork
from tidegate.store import Address
from tidegate.times.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job
    from tidegate.spark.lake.writes import Transaction

ALREADY_DONE = "An earlier attempt completed this request; to repeat it, clear the whole run, or start a new one"
"""Note in a flow's report when a retry has nothing to do."""
_DRY_RUN = -1
"""The number of a backfill that is only judged; nothing but its keys is stored, until it ends."""


@dataclass(frozen=True, kw_only=True)
class Backfill(PendingBackfill, PendingWork):
    """One backfill of one flow, as it is run."""

    compares = "never"

    def finish(self, job: Job) -> None:
        """Derive its keys once more, or record what the table has."""
        _run(job, self)

    def drop(self, job: Job) -> None:
        """With its keys."""
        super().drop(job)
        _remove_files(job, self.number)

    def write_refused(self, job: Job, split: Split, batch_id: int, txn: Transaction) -> None:
        """Entries of its rows exist already, where there is a quarantine."""
        assert split.refused is not None and split.passed is not None
        if not tables.exists(job.place.quarantine):
            super().write_refused(job, split, batch_id, txn)
            return
        passed, planned_ms = split.passed, self.planned_at_ms
        quarantine.apply_backfill(job, split.refused, passed, batch_id, txn, planned_ms)

    def refused_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """All entries that it left open."""
        return quarantine.refused_in_backfill(job, spark)


def backfill(job: Job, window: Window) -> None:
    """Derive a window of event time again, once per request, however often the run is retried.

    The flow has read its whole change feed before.

    Raises:
        SpecError: The event time column is missing, or is neither a date nor a timestamp.
        RewriteRefusedError: It would delete or quarantine more rows than the flow's limits allow; nothing was written.
        TidegateError: As for a micro-batch. If a critical expectation refuses the result, the table is unchanged.
    """
    last = last_window(job.place, Backfill)
    if last is not None and last.request_id == job.run.request.request_id and last.done:
        job.run.report.notes.append(ALREADY_DONE)
        return
    _run(job, _prepare(job, window, pending_work.next_number(job)))


def dry_run(job: Job, window: Window | None) -> None:
    """Report what a backfill of the window, or without one a full refresh, does to the table; write nothing.

    The result is derived from the present source table, without the increment that precedes a backfill.

    Raises:
        TidegateError: As for `backfill`.
    """
    name = job.flow.name
    job.run.report.dry_run = True
    with leased_flow(job.spark, job.resolved, job.run, work=f"dry run of flow {name!r}", role="dry run"):
        checkpoint.check_compatible(job.place.layout, job.resolved)
        if not job.source_tables or not all(tables.exists(path) for path in (*job.source_tables, job.live)):
            job.run.report.notes.append("dry run: nothing to judge, because the table or its source does not exist yet")
            return
        own = job.doing(_planned(job, window, _DRY_RUN), job.spark.newSession())
        assert isinstance(own.work, Backfill)
        try:
            _write_keys(own, window, own.work)
            keys = own.spark.read.parquet(str(_keys_path(job, _DRY_RUN))).persist()
            own.persisted.append(keys)
            split = own.kind.split_keys(own, keys, own.work, Decision(quarantined=False, written=False))
            if split is not None:
                check_balance(own, split.prepared)
                _judge(own, own.work, split)
                _name_rewritten_source(job)
            else:
                job.run.report.notes.append("dry run: nothing to judge, because the source has no row to derive")
        finally:
            own.release()
            _remove_files(job, _DRY_RUN)


def _name_rewritten_source(job: Job) -> None:
    """Note which sources the run itself would rewrite before this flow."""
    request, selected = job.run.request, job.run.request.selected(job.resolved.pipeline)
    above = [
        flow for flow in job.resolved.pipeline.upstream_of(job.flow) if flow in selected and request.applies_to(flow)
    ]
    for flow in above:
        job.run.report.notes.append(
            f"counted from {flow.target.name} as it is now: without the changes that this run would make there before (flow "
            f"{flow.name}), so the numbers of the run may differ"
        )


def _run(job: Job, pending: Backfill) -> None:
    own = job.doing(pending, job.spark.newSession())

    def split(decision: Decision) -> Split | None:
        keys = own.spark.read.parquet(str(_keys_path(job, pending.number))).persist()
        own.persisted.append(keys)
        made = own.kind.split_keys(own, keys, pending, decision)
        if made is not None:
            impact = _judge(own, pending, made)
            if pending.judged is None:
                pending_work.write(job, dataclasses.replace(pending, judged=impact))
        return made

    micro_batch.run_steps(own, pending.number, split, planning=pending.seconds)
    judged = pending_work.read(job, pending.number, Backfill)
    pending_work.write(job, dataclasses.replace(judged, done=True))
    _remove_files(job, pending.number)


def _judge(job: Job, pending: Backfill, split: Split) -> Impact:
    """What the backfill does to the table; raises `RewriteRefusedError` if that is too much."""
    assert split.changes is not None
    keys = job.flow.target.keys
    before = tables.read(split.changes.sparkSession, job.live)
    if not pending.is_whole:
        before = groups.join_on_keys(before, split.changes, keys, "left_semi")
    measured = rewrite.measure(
        job,
        before,
        split.changes.where(f"{hidden.OP} = 'upsert'"),
        keys=() if pending.is_whole and swap.rekeyed(job) else keys,
        refused=split.refused,
        read=split.prepared.read,
    )
    what = "a full refresh"
    if not pending.is_whole:
        what = f"backfill {pending.number} of {json_codec.from_plain(pending.window, Window).summary()}"
    rewrite.check(job, measured, what, judged=pending.judged)
    return measured.impact


def _prepare(job: Job, window: Window, number: int) -> Backfill:
    """Find the keys, and store the backfill beside the checkpoint."""
    started = time.monotonic()
    pending = _planned(job, window, number)
    _write_keys(job.doing(pending, job.spark.newSession()), window, pending)
    pending = dataclasses.replace(pending, seconds=round(time.monotonic() - started, 3))
    pending_work.write(job, pending)
    return pending


def _planned(job: Job, window: Window | None, number: int) -> Backfill:
    versions = {
        table: tables.version(job.spark, job.place.layout.read_table(table)) for table in job.flow.source_tables
    }
    first, *others = job.flow.source_tables
    return Backfill(
        number=number,
        run_key=job.run.request.run_key,
        window=dataclasses.asdict(window) if window is not None else {},
        source_version=versions[first],
        other_versions={table: versions[table] for table in others},
        planned_at_ms=int(pendulum.now("UTC").timestamp() * 1000),
        requested_by=job.run.request.requested_by,
        request_id=job.run.request.request_id,
    )


def _write_keys(job: Job, window: Window | None, pending: Backfill) -> None:
    """Store the keys; once more without the rows on which the transform raises, if it does."""
    path = str(_keys_path(job, pending.number))

    def write() -> None:
        keys = job.kind.keys_in_window(job, window, pending)
        keys.distinct().write.mode("overwrite").parquet(path)

    _remove_files(job, pending.number)
    try:
        raised = transform_errors.raised_by(write)
        if raised is None:
            return
        job.kind.store_raising(job, window, pending, raised)
        raised = transform_errors.raised_by(write)
        if raised is not None:
            raise transform_errors.refused(job, pending.number, {raised: None}, transform_errors.NOT_BY_ROW)
    finally:
        job.release()


def _remove_files(job: Job, number: int) -> None:
    """Remove the keys, and what the kind of the flow stored beside them."""
    for entry in pending_work.folder(job).list():
        if entry.is_folder and entry.name.startswith(f"{number}."):
            with contextlib.suppress(OSError):
                (pending_work.folder(job) / entry.name).delete_folder()


def _keys_path(job: Job, number: int) -> Address:
    return pending_work.folder(job) / f"{number}.keys"
