"""Snapshot flows: the newest complete snapshot of a landing folder is compared with the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.advice import Command
from tidegate.checkpoints import progress
from tidegate.errors import RequestError
from tidegate.kinds.snapshots.compare import (
    compare,
    kept_rows,
    records,
    refused_keys,
    split_newest,
    split_of,
    written_rows,
)
from tidegate.quarantine import decision as decisions
from tidegate.sources.snapshots import announcements
from tidegate.sources.snapshots.announcements import Snapshot
from tidegate.sources.snapshots.measure import find
from tidegate.spark.batch import groups, rows
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.job import Job, Kind, Sides
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.checkpoints.pending_jobs import PendingBackfill
    from tidegate.lake.place import Place
    from tidegate.spark.batch.pinned import Pinned
    from tidegate.times.window import Window

_NO_BATCH = -1
"""The number of a batch that is only derived."""


def _read_stream(job: Job, reading: Job) -> DataFrame | None:
    """The announcements of snapshots, after that of a new one: each makes a batch, which reads the rows itself. None if all were read."""
    candidates = find(job.place.of_pipeline, job.resolved.pipeline, job.flow)
    if candidates.newest is not None:
        announcements.announce(job.place, candidates.newest.name, candidates.files)
    elif has_read_announcements(reading.place):
        return None
    return stream(job)


def stream(job: Job, **options: str) -> DataFrame:
    """The announcements, with more options of Spark's file source."""
    folder = announcements.SNAPSHOTS.folder(job.place)
    folder.make_folder()
    return job.spark.readStream.format("text").options(maxFileAge="3650000d", **options).load(str(folder))


def has_read_announcements(place: Place) -> bool:
    """Whether a committed batch has read all announcements, so that a query would have no batch."""
    last = progress.settled(place.checkpoint)
    if last is None:
        return False
    logged = progress.source_files(place.checkpoint)
    announced = {announcements.SNAPSHOTS.path(place, each).uri for each in announcements.SNAPSHOTS.numbers(place)}
    return announced <= {file.path for file in logged} and all(file.log_batch <= last.log_offset for file in logged)


def _split(job: Job, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """In the session of the batch, through which Delta records the transaction of a MERGE."""
    return split_newest(job.doing(job.work, batch.sparkSession), batch_id, decision)


def _retire_entries(job: Job) -> None:
    """Close the entries of snapshots before the compared one, whose records it has again, or not any more."""
    done = announcements.compared(job.place)
    if done is not None:
        decisions.retire_batches_before(job.place, done.batch_id, f"snapshot {done.snapshot.name}")


def _all_keys(job: Job, _window: Window | None, _pending: PendingBackfill) -> DataFrame:
    """Of the table; there is no backfill of a window (`tidegate.requests.runs`), only the dry run of a full refresh."""
    return tables.read(job.spark, job.live).select(*job.flow.target.keys)


def _split_keys(job: Job, _keys: DataFrame, pending: PendingBackfill, decision: Decision) -> Split | None:
    """What a full refresh makes of the newest complete snapshot; rows that it lacks do not stay, whoever they are of."""
    candidates, snapshot = (
        find(job.place.of_pipeline, job.resolved.pipeline, job.flow),
        announcements.announced(job.place),
    )
    if candidates.newest is not None:
        snapshot = Snapshot(number=-1, name=candidates.newest.name, files=candidates.files)
    changes = None if snapshot is None else compare(job, snapshot, pending.number, decision)
    return None if changes is None else split_of(job, changes)


def _sides(job: Job, pins: Pinned) -> Sides:
    """The rows of the snapshot that the table's last batch compared; rows that it lacks and that stay are left out."""
    done = announcements.compared(job.place)
    snapshot = None if done is None else done.by(pins.batches[job.place])
    if snapshot is None:
        raise RequestError(
            f"flow {job.flow.name!r} cannot be verified: it is not known which snapshot its table has",
            Command.tidegate("run", job.place.pipeline, "--flow", job.flow.name, says="`{}` compares the newest"),
        )
    own = records(job, snapshot, _NO_BATCH)
    decision = Decision(quarantined=True, written=False)
    judged = rows.judge_rows(job, own, _NO_BATCH, decision, replaces=True)
    keys, actual = job.flow.target.keys, tables.read(job.spark, job.live, pins.version)
    expected = actual.limit(0) if judged is None else written_rows(judged)
    refused = None if judged is None else refused_keys(job, own, judged, _NO_BATCH, decision, keys)
    kept, _ = kept_rows(job, groups.join_on_keys(actual, expected, keys, "left_anti"), refused)
    return Sides(
        expected=expected,
        actual=groups.join_on_keys(actual, kept, keys, "left_anti"),
        keys=keys,
        source=f"snapshot {snapshot.name} of {job.flow.source_tables[0]}",
        ignored=rows.BOOKKEEPING,
        not_compared={"that the snapshot lacks and that stay": kept.count()},
    )


KIND = Kind(
    read_stream=_read_stream,
    split=_split,
    drained=_retire_entries,
    bookkeeping=rows.BOOKKEEPING,
    keys_in_window=_all_keys,
    split_keys=_split_keys,
    sides=_sides,
)
