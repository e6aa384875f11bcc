"""The files of a landing folder: those in no committed batch, and those that a reingest or a full refresh reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pendulum

from tidegate import hidden
from tidegate.checkpoints import landing_folder, progress
from tidegate.errors import NotDeliveredError
from tidegate.formatting import count
from tidegate.lake.file_id import FileId
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.ops import store
from tidegate.probes import files
from tidegate.spec import FileSource, Flow, Pipeline
from tidegate.status.source import NOTHING_READ, Backlog, Extent, MeasuredSource, not_delivered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from tidegate.environment import Environment
    from tidegate.requests.request import RunRequest
    from tidegate.status.checkpoint_reading import CheckpointReading
    from tidegate.status.completeness import Completeness
    from tidegate.store import Address
    from tidegate.times.window import Window

_NAMES_SHOWN = 3
"""How many files are listed by name; the others are only counted."""
_GAPS_NAMED = 31
"""How many intervals of a state a plan names: the days of a month."""


def _backlog(reading: CheckpointReading) -> Backlog:
    """Files that are in no committed batch.

    Raises:
        SourceError: The folder cannot be read, it is missing and files of it were read before, or it was moved.
        CheckpointCorruptError: The checkpoint's log of files cannot be read.
    """
    layout, place, committed = reading.layout, reading.place, reading.committed
    flow = reading.resolved.flow
    source, checkpoint = _source(flow), place.checkpoint
    folder = layout.landing(source.path)
    up_to = -1 if committed is None else committed.log_offset
    logged = progress.source_files(checkpoint, up_to=up_to)
    source_folder = landing_folder.checked(place, source, logged)
    read = dict(source_folder.identity(file.id) for file in logged)
    try:
        listing = files.list_files(folder, source.glob)
    except NotDeliveredError as missing:
        return not_delivered(missing, place, layout.table(flow.target.name))
    new = tuple(file for file in listing.files if file.path not in read)
    rewritten, touched = _changed(place, flow, read, listing.files)
    return Backlog(
        what=f"{count(len(new), 'new file')} in {source.path}" if new else f"nothing new in {source.path}",
        behind=len(new),
        rows=_rows(folder, new, source),
        size=sum(file.size for file in new),
        rows_exact=not new,
        position=NOTHING_READ if committed is None else f"{count(len(read), 'file')} read",
        # After a crash between listing and planning, the next batch contains the listed files even if they were deleted since.
        # A run compares touched files, so that one with another content has its alert although nothing else lands.
        has_data=bool(new or touched) or progress.newest_log_batch(checkpoint) > up_to,
        ahead=_shortened([file.path.removeprefix(f"{folder}/") for file in new]),
        rewritten=rewritten,
        touched=touched,
        ignored=listing.ignored,
        skipped=_skipped_files(listing, source.glob),
    )


def _changed(
    place: FlowPlace, flow: Flow, read: Mapping[str, int], listed: Sequence[files.LandedFile]
) -> tuple[int, int]:
    """How many files were overwritten after they were read, and how many may only have another time."""
    with_another_time = files.with_another_time(listed, read)
    if not with_another_time:
        return 0, 0
    # Few files are changed after they were read.
    from tidegate.status import changed_files

    changed = changed_files.unread(place, flow, read, with_another_time)
    return len(changed.overwritten), len(changed.touched)


def _skipped_files(listing: files.Listing, glob: str) -> str:
    skipped = []
    if listing.unmatched:
        verb = "does" if listing.unmatched == 1 else "do"
        skipped.append(f"{count(listing.unmatched, 'file')} in the folder that {verb} not fit {glob}")
    if listing.special:
        verb = "is" if listing.special == 1 else "are"
        skipped.append(f"{listing.special:,} in the folder that {verb} no regular file (a pipe, a socket or a device)")
    return f"not read: {', '.join(skipped)}" if skipped else ""


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(sorted(names)[:_NAMES_SHOWN]) + more


def _rows(landing_zone: Address, new: tuple[files.LandedFile, ...], source: FileSource) -> int | None:
    """An estimate; None for Parquet and Avro, whose rows the lengths of their first lines do not tell."""
    if not new:
        return 0
    if source.format in ("parquet", "avro"):
        return None
    return files.estimate_rows(landing_zone, new, has_header=source.format == "csv" and source.dialect.header)


def _extent(environment: Environment, pipeline: Pipeline, flow: Flow, request: RunRequest) -> Extent:
    layout = Layout.of(environment)
    place = FlowPlace(layout, pipeline.name, flow.name)
    if request.gaps:
        what, missing = _of_gaps(place, flow, pipeline.timezone, request.window)
    else:
        what, missing = _of_landed(place, flow, request.window)
    size = sum(file.size for file in missing)
    return Extent(what=what, rows=_rows(layout.landing_root, missing, _source(flow)), size=size, rows_exact=not missing)


def _of_landed(place: FlowPlace, flow: Flow, window: Window | None) -> tuple[str, tuple[files.LandedFile, ...]]:
    """The landed files, of the window, that are not in bronze."""
    source, layout = _source(flow), place.layout
    landed = files.list_files(layout.landing(source.path), source.glob).files
    if window is not None:
        landed = files.modified_within(landed, window)
    source_folder = landing_folder.of(place, source)
    ingested = {
        source_folder.identity(file)
        for file in _ingested_files(layout.table(flow.target.name), place.quarantine, window)
    }
    unread = [file for file in landed if source_folder.identity(file.id) not in ingested]
    # Few files have another time than in bronze.
    from tidegate.status import changed_files, remarks

    changed = changed_files.of_contents(place, flow, source_folder, unread)
    missing = changed.overwritten
    when = f" of {window.summary()}" if window is not None else ""
    what = f"{len(missing):,} of {count(len(landed), 'landed file')}{when}, those that are not in bronze"
    return remarks.joined(what, remarks.touched(len(changed.touched))), missing


def _of_gaps(
    place: FlowPlace, flow: Flow, timezone: str, window: Window | None
) -> tuple[str, tuple[files.LandedFile, ...]]:
    """The unread files of intervals that are not complete."""
    completeness = _completeness(place, flow, timezone, pendulum.now("UTC"))
    assert completeness is not None
    gaps = completeness.gaps(window)
    missing = tuple(file for gap in gaps for file in gap.to_read)
    when = f" of {window.summary()}" if window is not None else ""
    if not gaps:
        return f"no file: each {completeness.unit}{when} is complete", missing
    named = ", ".join(completeness.described(gaps, _GAPS_NAMED))
    verb = "is" if len(gaps) == 1 else "are"
    intervals_told = f"{count(len(gaps), completeness.unit)}{when} that {verb} not complete"
    what = f"{count(len(missing), 'file')} of {intervals_told}: {named}"
    return what, missing


def _completeness(place: FlowPlace, flow: Flow, timezone: str, now: datetime) -> Completeness | None:
    if flow.intervals is None:
        return None
    # Few sources declare intervals.
    from tidegate.status import intervals

    return intervals.read(place, flow, timezone, now)


def _ingested_files(bronze: Address, quarantine: Address, window: Window | None) -> set[FileId]:
    """The files in bronze (of the window) and in its quarantine."""
    from tidegate.status import changed_files

    ingested = changed_files.stored(bronze, None if window is None else (window.since, window.until))
    entries = store.select(quarantine, f"SELECT {hidden.ROW_ID} FROM delta_table WHERE level = 'file'")
    return ingested | {FileId.parse(row[hidden.ROW_ID]) for row in entries}


def _source(flow: Flow) -> FileSource:
    assert isinstance(flow.source, FileSource)
    return flow.source


SOURCE = MeasuredSource(
    backlog=_backlog,
    extent=_extent,
    completeness=lambda _, place, flow, timezone, now: _completeness(place, flow, timezone, now),
)
