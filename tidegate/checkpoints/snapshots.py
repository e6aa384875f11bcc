"""The complete snapshots that were announced to a flow, and the one that its newest batch compares, as files beside its checkpoint.

A flow that compares snapshots streams the folder of announcements, so that each makes a batch, in which everything else is as
in other flows. A batch compares the newest announced snapshot, whichever announced it. What a batch compares is recorded
before its first write, and a batch whose rows are in quarantine keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate import json_codec
from tidegate.advice import OutsideAct
from tidegate.checkpoints import refusal, rewrite
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.folders import entries
from tidegate.layout import Layout
from tidegate.report import now

_REPAIR = OutsideAct("remove it: the next run announces the newest complete snapshot again")


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A complete snapshot, with the files that it has."""

    number: int
    """Of the announcement, from 0."""
    name: str
    """The interval: ``2013-01-05``, or ``2013-01-05T13``. Names of one source are ordered as text."""
    files: Mapping[str, int]
    """Local path to modification time in milliseconds since 1970."""
    at: str = field(default_factory=now)
    """When it was announced, in UTC, as ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A batch, and the snapshot that it compares."""

    batch_id: int
    snapshot: Snapshot
    before: Snapshot | None = None
    """What the batch before it compared."""

    def by(self, batch_id: int | None) -> Snapshot | None:
        """What the table has after this batch, the newest or the one before it; None for no batch."""
        if batch_id is None:
            return None
        return self.snapshot if batch_id >= self.batch_id else self.before


def announced(layout: Layout, dag_id: str, flow: str) -> Snapshot | None:
    """The newest announced snapshot; None without one."""
    numbers = [int(path.stem) for path in entries(layout.snapshots(dag_id, flow), "*.json") if path.stem.isdigit()]
    return (
        json_codec.read(layout.snapshots(dag_id, flow) / f"{max(numbers)}.json", Snapshot, _REPAIR) if numbers else None
    )


def announce(layout: Layout, ref: CheckpointRef, name: str, files: Mapping[str, int]) -> None:
    """Announce a complete snapshot; the caller holds the flow's lease."""
    newest = announced(layout, ref.dag_id, ref.flow)
    snapshot = Snapshot(number=0 if newest is None else newest.number + 1, name=name, files=files)
    json_codec.write(layout.snapshots(ref.dag_id, ref.flow) / f"{snapshot.number}.json", snapshot)


def compared(layout: Layout, ref: CheckpointRef) -> Compared | None:
    """What the checkpoint's newest batch compares; None before its first batch."""
    return json_codec.read(
        layout.compared_snapshot(ref.dag_id, ref.flow, ref.version, ref.refresh),
        Compared,
        OutsideAct("restore it from a backup"),
    )


def choose(layout: Layout, ref: CheckpointRef, batch_id: int, snapshot: Snapshot) -> None:
    """Record what a batch compares, before its first write. What was refused or accepted of another snapshot is forgotten."""
    newest = compared(layout, ref)
    if newest is None or newest.snapshot.number != snapshot.number:
        # Before the choice is recorded: `plan` finds this snapshot by what was chosen before.
        judged = rewrite.recorded(layout, ref.dag_id, ref.flow)
        if judged is not None and judged.app_id == ref.app_id:
            rewrite.clear(layout, ref)
        refusal.clear(layout, ref)
    before = None if newest is None else newest.by(batch_id - 1)
    json_codec.write(
        layout.compared_snapshot(ref.dag_id, ref.flow, ref.version, ref.refresh),
        Compared(batch_id=batch_id, snapshot=snapshot, before=before),
    )
