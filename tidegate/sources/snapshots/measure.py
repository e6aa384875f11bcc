"""Which snapshots a flow compares next, from the intervals of the landing flow: the newest complete one, or all. Starts no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from tidegate.sources.snapshots import announcements, beside
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


@dataclass(frozen=True, kw_only=True)
class Landed:
    """The intervals of the landing flow."""

    place: FlowPlace
    source_folder: LandingFolder
    completeness: Completeness
    latest: str
    """The name of the last one that is not too far ahead of the clock."""
    bronze: Address
    refused: Sequence[FileId]
    """The files that went to quarantine, and were not replayed since."""

    @classmethod
    def read(cls, of_pipeline: PipelinePlace, pipeline: Pipeline, flow: Flow) -> Landed:
        """Raises as `find`."""
        landing = pipeline.writer_of(flow.source_tables[0])
        assert landing is not None
        now = pendulum.now(pipeline.timezone)
        lake = of_pipeline.layout.of_table(landing.target.name)
        place = FlowPlace(lake, of_pipeline.pipeline, landing.name)
        completeness = intervals.read(place, landing, pipeline.timezone, now)
        assert completeness is not None
        assert isinstance(landing.source, FileSource)
        return cls(
            place=place,
            source_folder=landing_folder.of(place, landing.source),
            completeness=completeness,
            latest=name_of(completeness.unit, (now + _AHEAD).naive()),
            bronze=lake.table(landing.target.name),
            refused=_refused(place),
        )

    def touched(self, interval: Interval) -> frozenset[str]:
        """The files of it that have another time and are not compared yet."""
        return frozenset(self.completeness.touched.intersection(file.path for file in interval.landed))

    def names(self, interval: Interval, files: Iterable[FileId]) -> set[FileId | str]:
        """One name for each file; of those that were touched and not compared yet the path, because their times say nothing."""
        touched = self.touched(interval)
        return {file.path if file.path in touched else file for file in map(self.source_folder.identity, files)}

    def own(self, interval: Interval) -> set[FileId | str]:
        """The files of it."""
        return self.names(interval, (file.id for file in interval.landed))

    def announced(self, interval: Interval, snapshot: Snapshot) -> set[FileId | str]:
        """Those of an announced snapshot of it."""
        return self.names(interval, file_id.of_paths(snapshot.files))

    def is_snapshot(self, interval: Interval, announced: Snapshot | None) -> bool:
        """Whether it is a complete snapshot, with rows or without."""
        own = self.own(interval)
        has_rows = bool(own) and own.isdisjoint(self.names(interval, self.refused))
        return interval.state == "complete" and (has_rows or _is_empty(self.bronze, interval, announced))

    def waiting(self, interval: Interval) -> Interval:
        """The interval, which waits until the files of it that were touched are compared."""
        return replace(interval, why=remarks.touched(len(touched))) if (touched := self.touched(interval)) else interval


def find_all(of_pipeline: PipelinePlace, pipeline: Pipeline, flow: Flow) -> tuple[list[Interval], list[Interval]]:
    """The complete snapshots that are not announced yet, in their order, and those that cannot be compared yet, the newest first.

    One that was announced is announced again if it has a file that it had not: a landing zone may be cleaned. Raises as `find`.
    """
    landed = Landed.read(of_pipeline, pipeline, flow)
    announced = announcements.newest_by_name(of_pipeline.flow(flow.name))
    ready, waiting = list[Interval](), list[Interval]()
    for interval in landed.completeness.intervals:
        before = announced.get(interval.name)
        if interval.name > landed.latest:
            waiting.append(replace(interval, why=f"it is more than {_AHEAD.days} days ahead of the clock"))
        elif before is not None and landed.own(interval) <= landed.announced(interval, before):
            continue
        elif not landed.is_snapshot(interval, before):
            waiting.append(interval)
        elif landed.touched(interval):
            waiting.append(landed.waiting(interval))
        else:
            ready.append(interval)
    return ready, waiting[::-1]


def find(of_pipeline: PipelinePlace, pipeline: Pipeline, flow: Flow) -> Candidates:
    """Look for a snapshot that the flow has to compare.

    Every file of a complete snapshot is in bronze as it is now: one that was touched must have been compared before. None was refused: of a
    file that a person waived, bronze has no row, so that the rows in it would be deleted. It is no more than a month ahead of the clock.
    A snapshot is empty if it has its marker or manifest and never had a file: the landing zone may be cleaned after files were read.

    Raises:
        SourceError: The landing folder is missing or cannot be read.
        CheckpointCorruptError: A file of the landing flow's checkpoint cannot be read.
    """
    landed = Landed.read(of_pipeline, pipeline, flow)
    announced = announcements.announced(of_pipeline.flow(flow.name))
    # One that was announced by an earlier release, or by a wrong clock, hides no other.
    since = "" if announced is None or announced.name > landed.latest else announced.name
    waiting: list[Interval] = []
    for interval in reversed(_later(landed.completeness, since)):
        if interval.name > landed.latest:
            waiting.append(replace(interval, why=f"it is more than {_AHEAD.days} days ahead of the clock"))
            continue
        if landed.is_snapshot(interval, announced):
            is_announced = (
                announced is not None
                and announced.name == interval.name
                and landed.announced(interval, announced) == landed.own(interval)
            )
            if is_announced:
                return Candidates(newest=None, waiting=tuple(waiting))
            if not landed.touched(interval):
                return Candidates(newest=interval, waiting=tuple(waiting))
            interval = landed.waiting(interval)
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


def _backlog(reading: CheckpointReading) -> Backlog:
    """The snapshot that the flow compares next, if there is one; raises as `find`.

    A batch that was refused waits for a newer snapshot too, which takes its place.
    """
    pipeline, flow, place = reading.resolved.pipeline, reading.resolved.flow, reading.place
    if flow.target.history:
        return _backlog_of_history(reading)
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
        skipped=waiting_text(candidates.waiting),
    )


def _backlog_of_history(reading: CheckpointReading) -> Backlog:
    """The snapshots that a history does not have; raises as `find`."""
    pipeline, flow, place = reading.resolved.pipeline, reading.resolved.flow, reading.place
    table, chosen = flow.source_tables[0], announcements.compared(place)
    ready, waiting = find_all(place.of_pipeline, pipeline, flow)
    done = None if chosen is None else chosen.by(reading.progress.last_committed)
    last = -1 if chosen is None else chosen.snapshot.number
    numbers = announcements.SNAPSHOTS.numbers(place)
    pending = len([each for each in numbers if each > last and each not in announcements.passed_over(place)])
    behind = len(ready) + pending
    size = sum(file.size for interval in ready for file in interval.landed)
    names = ", ".join(interval.name for interval in ready[:_NAMED])
    what = f"snapshot{'s' if behind > 1 else ''} {names or 'announced'}{', …' if behind > _NAMED else ''} of {table}"
    return Backlog(
        what=what if behind else f"no further complete snapshot of {table}",
        behind=behind,
        rows=None if behind else 0,
        size=None if pending else size,
        position=NOTHING_READ if done is None else f"snapshot {done.name} of {table}",
        has_data=bool(behind),
        skipped=waiting_text(waiting),
    )


def waiting_text(waiting: Sequence[Interval]) -> str:
    """Names some that cannot be compared yet; empty if there are none."""
    named = [f"{each.name} ({each.why or _WHY[each.state]})" for each in waiting if each.state != "missing"]
    more = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
    return f"not complete: {', '.join(named[:_NAMED])}{more}" if named else ""


_WHY = {"complete": "a file of it was refused, or its files are gone"}


SOURCE = MeasuredSource(
    backlog=_backlog,
    extent=extent,
    notes=(
        announcements.COMPARED,
        announcements.SNAPSHOTS,
        announcements.PASSED_OVER,
        beside.BESIDE,
        beside.COMPARISONS,
    ),
)
