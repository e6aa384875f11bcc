"""The snapshot beside the changes of a flow that is compared next. Starts no JVM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.checkpoints import rewrite
from tidegate.probes import delta
from tidegate.sources.snapshots import announcements, beside
from tidegate.sources.snapshots.measure import find, waiting_text

if TYPE_CHECKING:
    from tidegate.lake.place import Place
    from tidegate.sources.snapshots.announcements import Snapshot
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.checkpoint_reading import CheckpointReading
    from tidegate.status.source import Backlog


def announce_newest(place: Place, pipeline: Pipeline, flow: Flow) -> Snapshot | None:
    """The newest complete snapshot, announced, or the one announced last; the caller holds the flow's lease. Raises as `measure.find`."""
    if _has_landed(place, flow):
        candidates = find(place.of_pipeline, pipeline, flow.of_snapshots)
        if candidates.newest is not None:
            announcements.announce(place, candidates.newest.name, candidates.files)
    return announcements.announced(place)


def with_snapshots(reading: CheckpointReading, backlog: Backlog) -> Backlog:
    """The backlog of the changes with the snapshot that is compared next; raises as `measure.find`."""
    place, pipeline, flow = reading.place, reading.resolved.pipeline, reading.resolved.flow
    if flow.snapshots is None or not _has_landed(place, flow):
        return backlog
    known, candidates = beside.read(place), find(place.of_pipeline, pipeline, flow.of_snapshots)
    skipped = "; ".join(filter(None, (backlog.skipped, waiting_text(candidates.waiting))))
    announced, name, size = announcements.announced(place), "", backlog.size
    if candidates.newest is not None:
        name = candidates.newest.name
        size = None if size is None else size + sum(file.size for file in candidates.newest.landed)
    elif announced is not None and announced.number > known.compared and not _is_refused(place, announced):
        name = announced.name
    what = f"snapshot {name} of {flow.snapshots.table}"
    if name and not backlog.has_data and delta.current_version(place.layout.table(flow.target.name)) is None:
        skipped, name = "; ".join(filter(None, (skipped, f"{what} waits for the first change"))), ""
    if not name:
        return replace(backlog, skipped=skipped)
    return replace(
        backlog,
        what=f"{backlog.what}; {what}" if backlog.has_data else what,
        has_data=True,
        size=size,
        skipped=skipped,
    )


def _is_refused(place: Place, snapshot: Snapshot) -> bool:
    """Whether the limits refused a snapshot beside changes: it waits until its number is accepted, or another one is there."""
    judged = rewrite.refused(place)
    return judged is not None and judged.app_id == place.snapshots_app_id and snapshot.name in judged.what


def _has_landed(place: Place, flow: Flow) -> bool:
    """Whether anything of the snapshots was read: before that there is no folder of them."""
    assert flow.snapshots is not None
    return delta.current_version(place.layout.read_table(flow.snapshots.table)) is not None
