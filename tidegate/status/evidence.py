"""What is known of the history of the tables that a checkpoint reads and writes, before their logs are read. Starts no JVM.

The note beside the checkpoint says it. Where the note is missing or older than the checkpoint, the commits of the flow do, which carry
the same positions; and the ledger and a file in the checkpoint say which batch the table must have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.checkpoints import history, progress
from tidegate.checkpoints.history import LAST_WRITTEN
from tidegate.errors import CheckpointCorruptError
from tidegate.lake.table_history import Doubt
from tidegate.probes import delta, delta_history

if TYPE_CHECKING:
    from tidegate.checkpoints.history import History
    from tidegate.lake.place import Place
    from tidegate.spec import Flow
    from tidegate.store import Address


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of the tables of a checkpoint."""

    known: History
    doubt: Doubt | None = None
    """A batch that the target must have and lacks."""


def read(place: Place, flow: Flow) -> Evidence:
    """The evidence about the tables of one checkpoint.

    Raises:
        TableUnreadableError: A file of the log of a table is damaged.
    """
    note = history.read(place)
    try:
        state = progress.read(place.checkpoint)
    except CheckpointCorruptError:
        # An error of the flow itself, not of those that read its table.
        return Evidence(known=note or history.History())
    committed = state.last_committed
    if committed is None or (note is not None and note.batch is not None and note.batch >= committed):
        return Evidence(known=note or history.History())
    positions = {} if note is None else dict(note.positions)
    for path in own_tables(place, flow):
        last = delta_history.last_of(path, place.app_id)
        carried = {} if last is None else {**last.stands_on, path.key: last.position}
        for name, position in carried.items():
            if name not in positions or position.version > positions[name].version:
                positions[name] = position
    known = history.History(batch=committed, positions=positions, foreign=() if note is None else note.foreign)
    return Evidence(known=known, doubt=None if flow.kind.sends else _lost_batch(place, flow))


def own_tables(place: Place, flow: Flow) -> tuple[Address, ...]:
    """The tables that a flow writes, with the staging table of its checkpoint and the live one last; some may not exist."""
    if flow.kind.sends:
        return ()
    return (place.quarantine, place.late, place.staging, place.layout.table(flow.target.name))


def _lost_batch(place: Place, flow: Flow) -> Doubt | None:
    """The target lacks a batch that the ledger has, or that the flow has written by what stands in its checkpoint."""
    *_, staging, live = own_tables(place, flow)
    batches = [delta.transaction_version(path, place.app_id) for path in (staging, live)]
    written = max((batch for batch in batches if batch is not None), default=-1)
    ledger = delta.transaction_version(place.of_pipeline.ops("ledger"), place.app_id)
    note = LAST_WRITTEN.read(place)
    known = {"the ledger has": ledger, "the checkpoint has written": None if note is None else note.batch}
    lost = {says: batch for says, batch in known.items() if batch is not None and batch > written}
    if not lost:
        return None
    says, recorded = next(iter(lost.items()))
    newest = delta.current_version(live)
    lacks = (
        "which does not exist"
        if newest is None
        else "which lacks it"
        if written < 0
        else f"whose last batch is {written}"
    )
    return Doubt(
        table=flow.target.name,
        reason="lost",
        what=f"{says} batch {recorded} of {place.app_id} in this table, {lacks}",
        version=0 if newest is None else newest + 1,
    )
