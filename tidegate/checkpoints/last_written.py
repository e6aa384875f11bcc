"""The last batch that a flow has written to its table, in a note within Spark's folder of the checkpoint.

A copy of the checkpoint has the note, too. So an older copy of the table under a newer checkpoint is noticed, whatever else is older:
Spark's own files have the offsets of each batch, which do not say whether it had rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.checkpoints.note import Note
from tidegate.lake.place import Place


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
