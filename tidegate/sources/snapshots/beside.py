"""The snapshots beside the changes of a flow, in files beside its checkpoint: how they differed, and with which one the table begins.

A snapshot with a position says of every key what it was there, also of one that it lacks. So of all snapshots only that with the highest
position counts, and of the changes those after it: whoever derives rows of the table reads the two together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.advice import OutsideAct
from tidegate.checkpoints.note import Note, NumberedNotes
from tidegate.lake.place import FlowPlace, Place
from tidegate.reports.report import DifferingRow, now
from tidegate.sources.snapshots.announcements import Snapshot

KEPT = 100
"""How many keys that differ a comparison names."""


@dataclass(frozen=True, kw_only=True)
class Positioned:
    """A snapshot with its position."""

    snapshot: Snapshot
    position: tuple[str, ...]
    """The values of the ``sequence_by`` columns in all of its rows, as texts that Spark casts back."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What a checkpoint knows of the snapshots."""

    compared: int = -1
    """The number of the last announcement that was compared."""
    base: Positioned | None = None
    """The snapshot with which the table begins."""
    begun: Positioned | None = None
    """The one that is being written: the table begins with it once it has the transaction of that number."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How a snapshot differed from the table. Keys are values of the data: only those who ask for them get them."""

    name: str
    """Of the snapshot."""
    position: tuple[str, ...]
    """Empty for a snapshot that was only compared."""
    why: str
    """Why it was only compared; empty for one that was written."""
    equal: int
    missing: int
    """Keys of the snapshot that the table did not have."""
    different: int
    unexpected: int
    """Keys that the table had, and the snapshot did not."""
    overtaken: int
    """Keys with a later change."""
    rows: tuple[DifferingRow, ...]
    """Some of the keys that differed."""
    at: str = dataclasses.field(default_factory=now)
    """When it was compared, in UTC, as ISO 8601."""

    def summary(self) -> str:
        """All counts in one line."""
        later = f", {self.overtaken:,} with a later change" if self.overtaken else ""
        return f"{self.equal:,} equal, {self.missing:,} missing, {self.different:,} different, {self.unexpected:,} unexpected{later}"


BESIDE: Note[Beside, Place] = Note(
    name="beside",
    file="v{version}-{refresh}.beside.json",
    content=Beside,
    says="the last snapshot that was compared beside the changes, the one with which the table begins, and the one that is being written",
    absent="no snapshot was compared",
    written="a run of the flow, before and after it writes a snapshot, and when it has compared one",
    repair=OutsideAct("restore it from a backup"),
)
COMPARISONS: NumberedNotes[Comparison, FlowPlace] = NumberedNotes(
    name="comparison",
    file="comparisons/{number}.json",
    content=Comparison,
    says="how a snapshot beside the changes differed from the table, with some keys; the number is that of its announcement",
    absent="it was not compared",
    written="a run of the flow, before it writes the snapshot",
    repair=OutsideAct("remove it: only `tidegate snapshots` reads it"),
)


def read(place: Place) -> Beside:
    """What a checkpoint knows; raises as `Note.read`."""
    return BESIDE.read(place) or Beside()


def comparisons(place: FlowPlace) -> Mapping[int, Comparison]:
    """Every comparison by the number of the announcement, oldest first."""
    read_all = {number: COMPARISONS.read(place, number) for number in COMPARISONS.numbers(place)}
    return {number: each for number, each in read_all.items() if each is not None}
