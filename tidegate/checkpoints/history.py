"""What a flow stands on: the last proven position in each table that it reads and writes, in a note beside its checkpoint.

Written before the first write of a batch and after its last one. The note alone proves nothing: the commits of the flow carry the same
positions (`tidegate.spark.batch.proofs`), and win where they are newer.

A note within Spark's folder of the checkpoint has the last batch that was written to the table. A copy of the checkpoint has that note,
too, so an older copy of the table under a newer checkpoint is noticed, whatever else is older: Spark's own files have the offsets of each
batch, which do not say whether it had rows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.checkpoints.note import Note, Written
from tidegate.lake.place import Place
from tidegate.lake.table_history import ForeignCommit, Position
from tidegate.reports.report import now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.store import Address

FOREIGN_KEPT = 20
"""How many commits of others a note names."""


@dataclass(frozen=True, kw_only=True)
class RecordedSplit:
    """How an attempt has split a batch: which tables must have the batch before the target."""

    batch_id: int
    attempt: str
    refused: bool
    """Whether the quarantine must. If not, no row of the batch is refused, in whatever attempt."""
    late: bool
    """Whether the late table must. If not, no row is late, unless the refused rows are still to be written."""


@dataclass(frozen=True, kw_only=True)
class History:
    """What one checkpoint stands on."""

    batch: int | None = None
    """The last batch of its stream that began; None before."""
    positions: dict[str, Position] = field(default_factory=dict)
    """By the key of the table in the lake, which may move."""
    foreign: tuple[ForeignCommit, ...] = ()
    """The last commits of others that changed rows and were followed."""
    written_at: str = ""
    splits: dict[str, RecordedSplit] = field(default_factory=dict)
    """The last split by transaction id."""

    def of(self, address: Address) -> Position | None:
        """The position in a table; None if none is known."""
        return self.positions.get(address.key)


HISTORY: Note[History, Place] = Note(
    name="history",
    file="v{version}-{refresh}.history.json",
    content=History,
    says="the last proven positions in the tables that the checkpoint reads and writes, and how its last batch was split",
    absent="the positions are those in the newest commits of the flow; without any, nothing is proven yet",
    written="a run of the flow, before the first write of a batch and after its last one",
)


def read(place: Place) -> History | None:
    """The note of a checkpoint; None without one. One that is damaged counts as missing."""
    return HISTORY.read(place)


def write(
    place: Place,
    *,
    batch: int | None,
    positions: Mapping[str, Position],
    foreign: tuple[ForeignCommit, ...] = (),
    read: Place | None = None,
) -> Written[History]:
    """Replace the note of a checkpoint, but for its splits.

    The caller holds its lease, and may have read the note at a place in a reading.
    """
    known = tuple(dict.fromkeys(foreign))[-FOREIGN_KEPT:]

    def renewed(before: History | None) -> History:
        splits = {} if before is None else before.splits
        return History(batch=batch, positions=dict(positions), foreign=known, written_at=now(), splits=splits)

    return HISTORY.change(place, renewed, read)


def recorded_split(place: Place, app_id: str) -> RecordedSplit | None:
    """The last split that was recorded under a transaction id."""
    note = read(place)
    return None if note is None else note.splits.get(app_id)


def record_split(place: Place, begun: Written[History], app_id: str, split: RecordedSplit) -> None:
    """Record how this attempt splits a batch, if no other attempt has written the note since it began the batch.

    Raises:
        WriteConflictError: Another one has. Transient.
    """
    splits = {**begun.value.splits, app_id: split}
    HISTORY.replace(place, begun, dataclasses.replace(begun.value, splits=splits))


@dataclass(frozen=True, kw_only=True)
class LastWritten:
    """A batch of the checkpoint's stream."""

    batch: int


LAST_WRITTEN: Note[LastWritten, Place] = Note(
    name="last written",
    file="v{version}/{refresh}/last_written.json",
    content=LastWritten,
    says="the last batch that the table has",
    absent="only the ledger says which batch the table must have",
    written="a run of the flow, after a batch was written to the table and before Spark commits it",
)
