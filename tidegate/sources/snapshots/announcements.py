"""The complete snapshots that were announced to a flow, and the one that its newest batch compares, as files beside its checkpoint.

A flow that compares snapshots streams the folder of announcements, so that each makes a batch, in which everything else is as
in other flows. A batch compares the newest announced snapshot, whichever announced it; for a history the next one in the order of the
announcements, of which there is one for every snapshot. What a batch compares is recorded before its first write, and a batch
whose rows are in quarantine keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tidegate.advice import OutsideAct
from tidegate.checkpoints import refusal, rewrite
from tidegate.checkpoints.note import Note, NumberedNotes
from tidegate.lake.place import FlowPlace, Place
from tidegate.reports.report import now


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
    earlier: Mapping[str, int] = field(default_factory=dict)
    """Of a history: the snapshots that the batches before it compared, name to number."""

    def by(self, batch_id: int | None) -> Snapshot | None:
        """What the table has after this batch, the newest or the one before it; None for no batch."""
        if batch_id is None:
            return None
        return self.snapshot if batch_id >= self.batch_id else self.before

    def of_history(self, batch_id: int) -> dict[str, int]:
        """The snapshots that a history has after this batch, name to number."""
        own = {self.snapshot.name: self.snapshot.number} if batch_id >= self.batch_id else {}
        return {**self.earlier, **own}


@dataclass(frozen=True, kw_only=True)
class PassedOver:
    """The snapshots that are no part of a history."""

    numbers: tuple[int, ...] = ()
    """Of their announcements."""


SNAPSHOTS: NumberedNotes[Snapshot, FlowPlace] = NumberedNotes(
    name="snapshots",
    file="snapshots/{number}.json",
    content=Snapshot,
    says="a complete snapshot that was announced: its interval and its files; the flow streams the folder",
    absent="none was announced",
    written="a run of the flow, before its stream, for a complete snapshot that is newer than the last announced one",
    repair=OutsideAct("remove it: the next run announces the newest complete snapshot again"),
)
COMPARED: Note[Compared, Place] = Note(
    name="snapshot",
    file="v{version}-{refresh}.snapshot.json",
    content=Compared,
    says="the snapshot that the newest batch compares, and the one before it",
    absent="no batch has begun",
    written="a batch, before its first write",
    repair=OutsideAct("restore it from a backup"),
)
PASSED_OVER: Note[PassedOver, FlowPlace] = Note(
    name="passed",
    file="passed.json",
    content=PassedOver,
    says="the snapshots that a history does not have, because they were refused and gave way to the next one",
    absent="no snapshot was refused and gave way",
    written="a batch of a history, when it compares the next snapshot in place of a refused one",
    repair=OutsideAct("remove it: a full refresh judges these snapshots again"),
)


def announced(place: FlowPlace) -> Snapshot | None:
    """The newest announced snapshot; None without one."""
    numbers = SNAPSHOTS.numbers(place)
    return SNAPSHOTS.read(place, numbers[-1]) if numbers else None


def newest_by_name(place: FlowPlace, but: Collection[int] = ()) -> dict[str, Snapshot]:
    """The last announcement of each snapshot but some, by its name."""
    announcements = (SNAPSHOTS.read(place, number) for number in SNAPSHOTS.numbers(place) if number not in but)
    return {each.name: each for each in announcements if each is not None}


def passed_over(place: FlowPlace) -> frozenset[int]:
    """The numbers of the snapshots that gave way."""
    return frozenset((PASSED_OVER.read(place) or PassedOver()).numbers)


def pass_over(place: FlowPlace, number: int) -> None:
    """Record that a refused snapshot gives way; the caller holds the flow's lease."""
    PASSED_OVER.write(place, PassedOver(numbers=tuple(sorted(passed_over(place) | {number}))))


def announce(place: Place, name: str, files: Mapping[str, int]) -> None:
    """Announce a complete snapshot; the caller holds the flow's lease."""
    newest = announced(place)
    snapshot = Snapshot(number=0 if newest is None else newest.number + 1, name=name, files=files)
    SNAPSHOTS.write(place, snapshot.number, snapshot)


def compared(place: Place) -> Compared | None:
    """What the checkpoint's newest batch compares; None before its first batch."""
    return COMPARED.read(place)


def choose(place: Place, batch_id: int, snapshot: Snapshot, *, keeps: bool = False) -> None:
    """Record what a batch compares, before its first write. What was refused or accepted of another snapshot is forgotten.

    Args:
        keeps: Whether the table has the earlier snapshots too: it is a history.
    """
    newest = compared(place)
    if newest is None or newest.snapshot.number != snapshot.number:
        # Before the choice is recorded: `plan` finds this snapshot by what was chosen before.
        judged = rewrite.recorded(place)
        if judged is not None and judged.app_id == place.app_id:
            rewrite.clear(place)
        refusal.REFUSAL.clear(place)
    before = None if newest is None else newest.by(batch_id - 1)
    earlier = {} if newest is None or not keeps else newest.of_history(batch_id - 1)
    COMPARED.write(place, Compared(batch_id=batch_id, snapshot=snapshot, before=before, earlier=earlier))
