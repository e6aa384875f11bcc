"""Histories of snapshots: each complete snapshot of a landing folder is compared with the one before it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Command
from tidegate.checkpoints import progress
from tidegate.errors import RequestError
from tidegate.kinds.snapshot_histories import compare
from tidegate.kinds.snapshots.run import has_read_announcements, stream
from tidegate.requests.event_time import event_time
from tidegate.sources.snapshots import announcements
from tidegate.sources.snapshots.measure import find_all
from tidegate.spark.batch import groups, rows, scopes
from tidegate.spark.batch.dispositions import QUARANTINED
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.job import Job, Kind, Sides
from tidegate.spark.lake import tables, writes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.checkpoints.pending_jobs import PendingBackfill
    from tidegate.sources.snapshots.announcements import Snapshot
    from tidegate.spark.batch.pinned import Pinned
    from tidegate.times.window import Window


def _read_stream(job: Job, reading: Job) -> DataFrame | None:
    """The announcements of snapshots, after those of new ones: each makes a batch, which reads the rows itself. None if all were read."""
    ready, _ = find_all(job.place.of_pipeline, job.resolved.pipeline, job.flow)
    for interval in ready:
        announcements.announce(job.place, interval.name, {file.path: file.modified_ms for file in interval.landed})
    if not ready and has_read_announcements(reading.place):
        return None
    return stream(job, maxFilesPerTrigger="1")


def _split(job: Job, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """In the session of the batch, through which Delta records the transaction of a MERGE."""
    return compare.split_next(job.doing(job.work, batch.sparkSession), batch_id, decision)


def _compared(job: Job, batch_id: int | None = None) -> list[Snapshot]:
    """The snapshots that the table has, up to a batch of the checkpoint, or to the newest.

    Raises:
        RequestError: It is not known which they are.
    """
    done = announcements.compared(job.place)
    if done is None:
        raise RequestError(
            f"flow {job.flow.name!r}: it is not known which snapshots its table has",
            Command.tidegate("run", job.place.pipeline, "--flow", job.flow.name, says="`{}` compares them"),
        )
    last = batch_id if batch_id is not None else progress.read(job.place.checkpoint).last_committed
    return compare.snapshots_of(job, {} if last is None else done.of_history(last))


def _announced(job: Job) -> list[Snapshot]:
    """The snapshots that a full refresh compares."""
    newest = announcements.newest_by_name(job.place, but=announcements.passed_over(job.place))
    return [newest[name] for name in sorted(newest)]


def _keys_in_window(job: Job, window: Window | None, _pending: PendingBackfill) -> DataFrame:
    """The keys of versions that begin in the window, in the table or with the present code; without a window all."""
    target, live = job.flow.target, tables.read(job.spark, job.live)
    if window is None:
        return live.select(*target.scope)
    column = event_time(job.resolved.pipeline, job.flow)
    assert column is not None
    made = compare.derive(job, [compare.read_again(job, _compared(job))], None)
    sides = [live] if made is None else [live, made]
    first, *others = (
        side.where(tables.within(side, column, window, target.name)).select(*target.scope) for side in sides
    )
    return first.unionByName(others[0]) if others else first


def _split_keys(job: Job, keys: DataFrame, pending: PendingBackfill, decision: Decision) -> Split | None:
    """The versions of these keys from all snapshots, with the present code; of a full refresh those of all keys."""
    target = job.flow.target
    stated = compare.read(job, _announced(job) if pending.is_whole else _compared(job), pending.number, decision)
    made = compare.derive(job, [stated], None)
    if made is None or stated.judged is None:
        return None
    stored = tables.read(job.spark, job.live).select(*target.keys)
    assigned, refused = stated.judged.assigned, stated.judged.refused
    if not pending.is_whole:
        made, stored, assigned = (
            groups.join_on_keys(each, keys, target.scope, "left_semi") for each in (made, stored, assigned)
        )
        refused = refused.join(assigned.select(hidden.ROW_ID).distinct(), hidden.ROW_ID, "left_semi")
    changes = scopes.merge_source(job, compare.with_batch(job, made, pending.number), stored)
    counts = {row[hidden.OP]: row["count"] for row in changes.groupBy(hidden.OP).count().collect()}
    upserted, deleted = counts.get("upsert", 0), counts.get("delete", 0)
    line = dataclasses.replace(
        stated.judged.prepared, kind="backfill", groups=upserted + deleted, upserted=upserted, deleted=deleted
    )
    return Split(
        prepared=line,
        refused=refused if line.quarantined or tables.exists(job.place.quarantine) else None,
        passed=assigned.where(F.col(hidden.DISPOSITION) != QUARANTINED).select(hidden.ROW_ID).distinct(),
        changes=changes,
        write=lambda txn: writes.replace_groups(changes, job.target, target.keys, txn, ignored=rows.BOOKKEEPING),
        expected_rows=upserted + deleted,
        settled="groups",
    )


def _sides(job: Job, pins: Pinned) -> Sides:
    """The rows that all snapshots make which the table has; what quarantine keeps out of it is taken from there."""
    snapshots = _compared(job, pins.batches[job.place])
    stated = compare.read(job, snapshots, compare.NO_BATCH, Decision(quarantined=True, written=False))
    actual = tables.read(job.spark, job.live, pins.version)
    expected = compare.derive(job, [stated], None)
    return Sides(
        expected=actual.limit(0) if expected is None else expected,
        actual=actual,
        keys=job.flow.target.keys,
        source=f"{len(snapshots):,} snapshots of {job.flow.source_tables[0]}",
        ignored=rows.BOOKKEEPING,
    )


KIND = Kind(
    read_stream=_read_stream,
    split=_split,
    bookkeeping=rows.BOOKKEEPING,
    keys_in_window=_keys_in_window,
    split_keys=_split_keys,
    sides=_sides,
)
