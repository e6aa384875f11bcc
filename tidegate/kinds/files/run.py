"""Landing flows of files: each file is read once, completely, into bronze."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pendulum
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.checkpoints import landing_folder, progress
from tidegate.checkpoints.checkpoint import Origin
from tidegate.formatting import count
from tidegate.lake import file_id
from tidegate.lake.file_id import FileId
from tidegate.probes import files
from tidegate.spark.batch import quarantine, raw
from tidegate.spark.intake import file_stream, landing
from tidegate.spark.job import Entries, Job, Kind, Sides
from tidegate.spark.lake import local, tables
from tidegate.spec import FileSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from tidegate.checkpoints.pending_jobs import PendingPiece
    from tidegate.probes.files import LandedFile
    from tidegate.spark.batch.pinned import Pinned
    from tidegate.times.window import Window


def _read_stream(job: Job, _reading: Job) -> DataFrame | None:
    """The files that are new. Those that have another time than when they were read are compared before."""
    source = _source(job)
    logged = progress.source_files(job.place.checkpoint)
    landed = files.list_files(job.place.layout.landing(source.path), source.glob).files
    times = {file.path: file.modified_ms for file in logged}
    if with_another_time := files.with_another_time(landed, times):
        # Few files get another time.
        from tidegate.spark.batch import compared_files

        compared_files.compare_touched(job, times, with_another_time)
    return file_stream.files_stream(job.spark, job.place, source, logged, landed)


def _parts(job: Job, window: Window | None, earlier: Sequence[PendingPiece]) -> Iterator[Mapping[str, Any]]:
    """The files that were changed in the window, or those of the gaps, ordered by modification time."""
    source = _source(job)
    done = {file for piece in earlier for file in file_id.of_paths(piece.files)}
    if job.run.request.gaps:
        selected = _in_gaps(job, window)
    else:
        assert window is not None
        landed = files.list_files(job.place.layout.landing(source.path), source.glob).files
        selected = files.modified_within(landed, window)
    pending = sorted((file.modified_ms, file.path) for file in selected if file.id not in done)
    for start in range(0, len(pending), source.max_files_per_trigger):
        part = pending[start : start + source.max_files_per_trigger]
        yield {"files": {path: modified for modified, path in part}}


def _in_gaps(job: Job, window: Window | None) -> tuple[LandedFile, ...]:
    """The files of intervals that are not complete, without those that bronze has as they are now."""
    # Few sources declare intervals.
    from tidegate.status import intervals

    completeness = intervals.read(job.place, job.flow, job.resolved.pipeline.timezone, pendulum.now("UTC"))
    assert completeness is not None
    gaps = completeness.gaps(window)
    job.run.report.notes.append(f"gaps: {', '.join(completeness.described(gaps)) or 'none'}")
    return tuple(file for gap in gaps for file in gap.to_read)


def _returned(job: Job, rules: Mapping[str, Any], entries: Entries) -> Mapping[str, Any]:
    """By path, because a corrected file has another modification time than its entry."""
    source_folder = landing_folder.of(job.place, _source(job))
    by_path = {FileId.parse(name).path: broken for name, broken in rules.items()}
    paths = {
        entry[hidden.ROW_ID]: source_folder.present_path(FileId.parse(entry[hidden.ROW_ID]).path) for entry in entries
    }
    return {name: by_path[path] for name, path in paths.items() if path in by_path}


def _sides(job: Job, pins: Pinned) -> Sides:
    """The records of landed files that the flow has read, and that are still as they were. They are read once more."""
    source = _source(job)
    source_folder = landing_folder.of(job.place, source)
    actual = tables.read(job.spark, job.live, pins.version).withColumn(hidden.FILE_ID, F.expr(file_id.OF_BRONZE))
    rows_by_id = {row[hidden.FILE_ID]: row["count"] for row in actual.groupBy(hidden.FILE_ID).count().collect()}
    landed = files.list_files(job.place.layout.landing(source.path), source.glob).files
    by_id = {str(file.id): file.id for file in landed}
    refused = quarantine.file_ids(job, pins.entries_version)
    earlier = rows_by_id.keys() | refused
    # Their records have other ids: those of the path and the time at which they were read.
    renamed = {
        name for name, file in by_id.items() if not earlier.isdisjoint({*map(str, source_folder.names(file))} - {name})
    }
    compared = by_id.keys() & (rows_by_id.keys() | _listed(job, pins)) - renamed
    expected = sorted(by_id[each] for each in compared - refused)
    content = landing.read_files(job.spark, expected, source, landing.BatchValues(0, 0), job.persisted)
    unreadable = {str(file.id) for file in content.files if file.problem is not None}
    compared -= unreadable
    ids = local.from_rows(job.spark, [(each,) for each in sorted(compared)], f"{hidden.FILE_ID} string")
    present = {file.path for file in landed}
    read_before = {source_folder.identity(by_id[name]) for name in renamed}
    not_compared = Counter({"of files that are no longer landed": 0, "of files that were changed since": 0})
    not_compared["of files that cannot be read now"] = sum(rows_by_id.get(each, 0) for each in unreadable)
    for each in rows_by_id.keys() - compared - unreadable:
        file = FileId.parse(each)
        if source_folder.identity(file) in read_before:
            why = "of files that were read at another path or with another time"
        else:
            why = "of files that were changed since" if file.path in present else "of files that are no longer landed"
        not_compared[why] += rows_by_id[each]
    return Sides(
        expected=content.rows(job.spark, [file for file in content.files if file.problem is None]),
        actual=actual.join(F.broadcast(ids), hidden.FILE_ID, "left_semi").drop(hidden.FILE_ID),
        keys=(hidden.ROW_ID,),
        source=f"{count(len(compared), 'landed file')} of {source.path}",
        ignored=(hidden.INGESTED_AT, hidden.BATCH_ID, hidden.CHECKSUM),
        not_compared=not_compared,
    )


def _listed(job: Job, pins: Pinned) -> set[str]:
    """The files that the pinned batches had listed."""
    listed: set[str] = set()
    for place, batch in pins.batches.items():
        folder = place.checkpoint
        for file in progress.source_files(folder, up_to=progress.planned_batch(folder, batch).log_offset):
            listed.add(str(file.id))
    return listed


def _renewed_by(job: Job) -> Origin | None:
    """A moved folder, which a person has accepted."""
    is_moved = landing_folder.is_moved(job.place, _source(job))
    return Origin(mode="accept_move", run_key=job.run.request.run_key) if is_moved else None


def _source(job: Job) -> FileSource:
    assert isinstance(job.flow.source, FileSource)
    return job.flow.source


KIND = Kind(
    read_stream=_read_stream,
    renewed_by=_renewed_by,
    split=raw.split_files,
    parts=_parts,
    # The batch opens the files.
    read_piece=lambda job, _: job.spark.range(0),
    returned=_returned,
    sides=_sides,
)
