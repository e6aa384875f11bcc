"""Which snapshot a flow compares next: the newest complete one, from the intervals of the landing flow. Starts no JVM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pendulum

from tidegate import hidden
from tidegate.checkpoints import landing_folder
from tidegate.checkpoints.landing_folder import LandingFolder
from tidegate.lake import file_id
from tidegate.lake.file_id import FileId
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import store
from tidegate.probes import delta
from tidegate.sources.snapshots import announcements
from tidegate.sources.tables.measure import extent
from tidegate.spec import FileSource, Flow, Pipeline
from tidegate.status import intervals, remarks
from tidegate.status.completeness import Completeness, Interval, name_of
from tidegate.status.source import NOTHING_READ, Backlog, MeasuredSource

if TYPE_CHECKING:
    from tidegate.sources.snapshots.announcements import Snapshot
    from tidegate.status.checkpoint_reading import CheckpointReading
    from tidegate.store import Address

_AHEAD = timedelta(days=31)
"""A snapshot of a later time is a wrong name, as ``dt=2062-01-05``: compared, it would be newer than all that follow."""
_NAMED = 3
"""How many snapshots that are not complete are named."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What the landing zone has."""

    newest: Interval | None
    """The newest complete snapshot, if it is not announced yet; never one before the announced one."""
    waiting: tuple[Interval, ...]
    """Later snapshots, which cannot be compared yet, the newest first."""

    @property
    def files(self) -> Mapping[str, int]:
        """The files of the newest one: path to modification time in milliseconds since 1970."""
        return {} if self.newest is None else {file.path: file.modified_ms for file in self.newest.landed}


def find(of_pipeline: PipelinePlace, pipeline: Pipeline, flow: Flow) -> Candidates:
    """Look for a snapshot that the flow has to compare.

    Every file of a complete snapshot is in bronze as it is now: one that was touched must have been compared before. None was refused: of a
    file that a person waived, bronze has no row, so that the rows in it would be deleted. It is no more than a month ahead of the clock.
    A snapshot is empty if it has its marker or manifest and never had a file: the landing zone may be cleaned after files were read.

    Raises:
        SourceError: The landing folder is missing or cannot be read.
        CheckpointCorruptError: A file of the landing flow's checkpoint cannot be read.
    """
    landing = pipeline.writer_of(flow.source_tables[0])
    assert landing is not None
    now = pendulum.now(pipeline.timezone)
    lake = of_pipeline.layout.of_table(landing.target.name)
    place = FlowPlace(lake, of_pipeline.pipeline, landing.name)
    completeness = intervals.read(place, landing, pipeline.timezone, now)
    assert completeness is not None
    assert isinstance(landing.source, FileSource)
    source_folder = landing_folder.of(place, landing.source)
    latest = name_of(completeness.unit, (now + _AHEAD).naive())
    announced = announcements.announced(of_pipeline.flow(flow.name))
    # One that was announced by an earlier release, or by a wrong clock, hides no other.
    since = "" if announced is None or announced.name > latest else announced.name
    waiting: list[Interval] = []
    refused = _refused(place)
    for interval in reversed(_later(completeness, since)):
        if interval.name > latest:
            waiting.append(replace(interval, why=f"it is more than {_AHEAD.days} days ahead of the clock"))
            continue
        touched = completeness.touched.intersection(file.path for file in interval.landed)
        landed = _names(source_folder, touched, (file.id for file in interval.landed))
        has_rows = bool(landed) and landed.isdisjoint(_names(source_folder, touched, refused))
        if interval.state == "complete" and (
            has_rows or _is_empty(lake.table(landing.target.name), interval, announced)
        ):
            is_announced = (
                announced is not None
                and announced.name == interval.name
                and _names(source_folder, touched, file_id.of_paths(announced.files)) == landed
            )
            if is_announced:
                return Candidates(newest=None, waiting=tuple(waiting))
            if not touched:
                return Candidates(newest=interval, waiting=tuple(waiting))
            interval = replace(interval, why=remarks.touched(len(touched)))
        if interval.name > since:
            waiting.append(interval)
    return Candidates(newest=None, waiting=tuple(waiting))


def _later(completeness: Completeness, name: str) -> Sequence[Interval]:
    """The interval of that name and those after it."""
    return [interval for interval in completeness.intervals if interval.name >= name]


def _is_empty(bronze: Address, interval: Interval, announced: Snapshot | None) -> bool:
    """Whether a complete interval is a snapshot without rows: nothing but its marker or manifest ever landed."""
    if not interval.is_empty or delta.current_version(bronze) is None:
        return False
    return announced is None or announced.name != interval.name or not announced.files


def _refused(place: FlowPlace) -> list[FileId]:
    """The files that went to quarantine, and were not replayed since."""
    entries = store.select(
        place.quarantine, f"SELECT {hidden.ROW_ID} FROM delta_table WHERE level = 'file' AND state <> 'replayed'"
    )
    return [FileId.parse(row[hidden.ROW_ID]) for row in entries]


def _names(source_folder: LandingFolder, touched: Collection[str], files: Iterable[FileId]) -> set[FileId | str]:
    """One name for each file; of those that were touched and not compared yet the path, because their times say nothing."""
    names = map(source_folder.identity, files)
    return {file.path if file.path in touched else file for file in names}


def _backlog(reading: CheckpointReading) -> Backlog:
    """The snapshot that the flow compares next, if there is one; raises as `find`.

    A batch that was refused waits for a newer snapshot too, which takes its place.
    """
    pipeline, flow, place = reading.resolved.pipeline, reading.resolved.flow, reading.place
    table, candidates = flow.source_tables[0], find(place.of_pipeline, pipeline, flow)
    newest_announced, chosen = announcements.announced(place), announcements.compared(place)
    done = None if chosen is None else chosen.by(reading.progress.last_committed)
    name, size = None, 0
    if candidates.newest is not None:
        name, size = candidates.newest.name, sum(file.size for file in candidates.newest.landed)
    elif newest_announced is not None and (chosen is None or chosen.snapshot.number != newest_announced.number):
        name = newest_announced.name
    return Backlog(
        what=f"snapshot {name} of {table}" if name else f"no newer complete snapshot of {table}",
        behind=1 if name else 0,
        rows=None if name else 0,
        size=None if name and not size else size,
        position=NOTHING_READ if done is None else f"snapshot {done.name} of {table}",
        has_data=name is not None,
        skipped=_waiting(candidates.waiting),
    )


def _waiting(waiting: Sequence[Interval]) -> str:
    named = [f"{each.name} ({each.why or _WHY[each.state]})" for each in waiting if each.state != "missing"]
    more = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
    return f"not complete: {', '.join(named[:_NAMED])}{more}" if named else ""


_WHY = {"complete": "a file of it was refused, or its files are gone"}


SOURCE = MeasuredSource(backlog=_backlog, extent=extent, notes=(announcements.COMPARED, announcements.SNAPSHOTS))
