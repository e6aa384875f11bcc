"""The tables that a flow stands on, proven before the first write of a batch and after its last one, and noted beside the checkpoint.

Every commit of a batch carries the positions that it stands on: of the sources as far as the batch reads them, and of the flow's own
tables before it. So a note that is lost, or older than the tables, is replaced by what the newest commit carries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.checkpoints import history, progress
from tidegate.checkpoints.history import LAST_WRITTEN, LastWritten
from tidegate.errors import CheckpointCorruptError, TableInDoubtError, TableUnreadableError
from tidegate.probes import delta_history
from tidegate.spark.batch.work import Stream
from tidegate.status import proofs
from tidegate.store import Address, ReadableStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.checkpoints.history import History
    from tidegate.checkpoints.note import Written
    from tidegate.lake.place import Place
    from tidegate.lake.table_history import Position
    from tidegate.spark.job import Job
    from tidegate.status.proofs import Proven


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """A proof, and what it was made with."""

    proven: Proven
    place: Place
    """The checkpoint in the reading."""


def check(job: Job) -> Proven:
    """Prove the tables; what was proven earlier in this run is not read again.

    Raises:
        TableInDoubtError: The history of one of them is not proven.
    """
    return _check(job).proven


def _check(job: Job, reading: Job | None = None) -> _Checked:
    reading = job.reading() if reading is None else reading
    read = reading.place.layout.root.store
    if read.is_local:
        proven = proofs.check(job.resolved, job.place, job.proven)
    else:
        try:
            proven = _check_in_reading(job, reading)
        except (TableInDoubtError, TableUnreadableError, CheckpointCorruptError):
            # Another job may have committed between two listings of the reading (docs/adr/0058).
            read.forget()
            proven = _check_in_reading(job, reading)
    job.proven.update(proven.tables)
    return _Checked(proven=proven, place=reading.place)


def _check_in_reading(job: Job, reading: Job) -> Proven:
    """A proof as one reading: what a log, the notes and a checkpoint are listed with says what is there, and whether it was read."""
    own, read = job.place.layout.root.store, reading.place.layout.root.store
    since = {_moved(table, own, read): position for table, position in job.proven.items()}
    proven = proofs.check(job.resolved, reading.place, since)
    return replace(proven, tables={_moved(table, read, own): position for table, position in proven.tables.items()})


def _moved(table: Address, of: ReadableStore, to: ReadableStore) -> Address:
    """The address in another store if it is in the one; a table of a source is in neither."""
    return Address(to, table.key) if table.store is of else table


def adopt(job: Job, reading: Job) -> None:
    """Prove the tables before anything is read, and note what others committed, which later checks of this run do not see again.

    The first run with a checkpoint that has no note takes what the tables are as known.

    Args:
        reading: The job in a reading (`Job.reading`).
    """
    checked = _check(job, reading)
    proven, place = checked.proven, checked.place
    note = history.read(place)
    if note is not None:
        if proven.foreign != note.foreign:
            history.write(job.place, batch=note.batch, positions=note.positions, foreign=proven.foreign, read=place)
        return
    state = progress.read(place.checkpoint)
    positions = dict(proven.known.positions)
    if state.last_committed is not None:
        positions = _own(job, proven) | _read(job, place, state.last_committed) | positions
    history.write(job.place, batch=state.last_committed, positions=positions, foreign=proven.foreign, read=place)


def begin(job: Job, batch_id: int, target: Address | None = None, reading: Job | None = None) -> Written[History]:
    """Prove the tables before the first write of a batch, and note what it stands on.

    Args:
        target: The table that is written, where it is not that of the flow's work.
        reading: The job in a reading that began after the last write (`Job.reading`), by default another one.

    Returns:
        The note, with the positions for the commits of the batch, and with the splits that other attempts have recorded.

    Raises:
        TableInDoubtError: The history of one of them is not proven. Nothing of the batch was written.
    """
    checked = _check(job, reading)
    proven, place = checked.proven, checked.place
    positions = {**proven.known.positions, **_own(job, proven, target)}
    batch = proven.known.batch
    if isinstance(job.work, Stream) and target is None:
        batch = batch_id
        positions |= _read(job, place, batch_id, proven.tables)
    return history.write(job.place, batch=batch, positions=positions, foreign=proven.foreign, read=place)


def end(job: Job, target: Address | None = None) -> None:
    """Prove the tables after the last write of a batch, with its commits and what others committed meanwhile, and note it.

    Args:
        target: As for `begin`.

    Raises:
        TableInDoubtError: Someone restored or replaced a table while the batch was written.
    """
    checked = _check(job)
    proven, place = checked.proven, checked.place
    positions = {**proven.known.positions, **_own(job, proven, target)}
    history.write(job.place, batch=proven.known.batch, positions=positions, foreign=proven.foreign, read=place)
    newest = proven.tables.get(job.target)
    if newest is not None and newest.app_id == job.place.app_id:
        LAST_WRITTEN.write(job.place, LastWritten(batch=newest.batch_id), read=place)


def _own(job: Job, proven: Proven, target: Address | None = None) -> dict[str, Position]:
    """The positions in the tables that are written. A flow stands by the live table only once it writes it, not while it is staged."""
    own = (job.place.quarantine, job.place.late, target or job.target)
    return {path.key: proven.tables[path] for path in own if path in proven.tables}


def _read(
    job: Job, place: Place, batch_id: int, newest: Mapping[Address, Position] | None = None
) -> dict[str, Position]:
    """The positions up to which a batch of the stream reads its sources."""
    if not job.query_tables:
        return {}
    if not job.flow.kind.follows_feed:
        # It reads the records of some files, whenever they were added.
        pins = {path: position.version for path, position in (newest or {}).items() if path in job.source_tables}
    else:
        positions = progress.planned_batch(place.checkpoint, batch_id).delta_positions(len(job.query_tables))
        planned = zip(job.query_tables, positions, strict=True)
        pins = {path: position.pin for path, position in planned if position is not None}
    own, read = job.place.layout.root.store, place.layout.root.store
    return {path.key: delta_history.position(_moved(path, own, read), pin) for path, pin in pins.items() if pin >= 0}
