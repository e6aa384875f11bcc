"""The vector of a batch: the version of each source table at which a flow with several sources reads them.

Spark logs the positions in all change feeds before it runs a batch, so a rerun has the same vector, and no later batch has an
earlier one. The first source begins with its snapshot, the others with the changes after the version that they had when the
checkpoint began: it is noted beside the checkpoint, because Spark asks for it again until it has read a change of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.checkpoints import progress
from tidegate.checkpoints.checkpoint import REPAIR
from tidegate.checkpoints.note import Note
from tidegate.errors import CheckpointCorruptError
from tidegate.lake.place import Place

STARTS: Note[dict[str, int], Place] = Note(
    name="starts",
    file="v{version}-{refresh}.starts.json",
    content=dict[str, int],
    says="the version of each source table when the checkpoint began",
    absent="the flow has one source, or no run has begun; once a batch is planned, the checkpoint is damaged",
    written="a run of a flow with several sources, again and again until the first batch is planned",
    repair=REPAIR,
)


def starts(place: Place) -> dict[str, int]:
    """The version of each source table when the checkpoint began; empty before, and for a flow with one source.

    Raises:
        DamagedFileError: The file cannot be read.
    """
    return STARTS.read(place) or {}


def note_starts(place: Place, current: Mapping[str, int]) -> dict[str, int]:
    """The noted versions; before the first batch is planned, those of ``current``, which are noted.

    Raises:
        CheckpointCorruptError: Batches were planned, but no versions are noted.
    """
    if progress.read(place.checkpoint).last_planned is not None:
        return _noted(place)
    STARTS.write(place, dict(current))
    return dict(current)


def of_batch(place: Place, batch_id: int, tables: Sequence[str]) -> dict[str, int]:
    """The version of each source table at which a batch reads it.

    Args:
        tables: The source tables, in the order of the declaration.

    Raises:
        CheckpointCorruptError: The batch's offsets cannot be read, or are those of other sources.
    """
    positions = progress.planned_batch(place.checkpoint, batch_id).delta_positions(len(tables))
    began = _noted(place)
    # A position may stand before the first commit that it reads.
    return {
        table: began[table] if position is None else max(position.pin, began[table])
        for table, position in zip(tables, positions, strict=True)
    }


def _noted(place: Place) -> dict[str, int]:
    if noted := starts(place):
        return noted
    path = STARTS.path(place)
    raise CheckpointCorruptError(
        f"flow {place.flow!r}: {path}, which has the versions of its sources when its checkpoint began, is missing.",
        REPAIR,
        path=str(path),
    )
