"""What earlier runs of a flow left unfinished; its next run finishes it first. Starts no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints import lease, refusal
from tidegate.checkpoints.note import Note
from tidegate.checkpoints.pending_jobs import CLAIM, UNDO, WINDOWS
from tidegate.place import FlowPlace
from tidegate.probes import delta

if TYPE_CHECKING:
    from tidegate.place import Place
    from tidegate.spec import Flow


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """What waits to be finished."""

    batch: int | None
    """A batch that was planned and not committed."""
    quarantined_whole: bool
    """A person decided that all of it goes to quarantine."""
    written: bool
    """The table has it; its ledger line or its end in the checkpoint is missing."""
    swap_pending: bool
    """A full refresh is staged and not swapped in."""
    backfill: int | None
    """The number of a backfill or reingest that wrote rows and did not finish."""
    claimed: bool
    """A replay left its claim."""
    undoing: bool
    """An undo left its marker."""

    @property
    def exists(self) -> bool:
        """Whether there is anything to finish."""
        return bool(self.summary())

    def summary(self) -> str:
        """Sentences without full stops, separated by semicolons; empty for nothing."""
        parts = []
        if self.quarantined_whole:
            parts.append(f"batch {self.batch} was refused and goes to quarantine whole")
        elif self.written:
            parts.append(f"batch {self.batch} is written and not recorded yet; its next run records it")
        elif self.batch is not None:
            parts.append(f"batch {self.batch} was planned and not committed")
        if self.swap_pending:
            parts.append("a full refresh waits to be swapped in")
        if self.backfill is not None:
            parts.append(f"backfill or reingest {self.backfill} is half-written and will be finished first")
        if self.claimed:
            parts.append("a replay of its quarantine was interrupted and will be finished or released first")
        if self.undoing:
            parts.append("an undo was interrupted and will be finished first if it has written anything")
        return "; ".join(parts)


def read(place: Place, flow: Flow, batch_id: int | None) -> Unfinished:
    """What the files of a flow say.

    Args:
        batch_id: The batch that was planned and not committed, or None.
    """
    decision = None if batch_id is None else refusal.decision(place, batch_id)
    quarantined_whole = decision is not None and decision.action == "take"
    return Unfinished(
        batch=batch_id,
        quarantined_whole=quarantined_whole,
        written=batch_id is not None and not quarantined_whole and _is_written(place, flow, batch_id),
        swap_pending=_swap_pending(place, flow),
        backfill=_unfinished_backfill(place, flow),
        claimed=_interrupted(place, CLAIM),
        undoing=_interrupted(place, UNDO),
    )


def _is_written(place: Place, flow: Flow, batch_id: int) -> bool:
    """Whether the table, or the staging table of a refresh, has a batch."""
    versions = (
        delta.transaction_version(path, place.app_id) for path in (place.staging, place.layout.table(flow.target.name))
    )
    return any(version is not None and version >= batch_id for version in versions)


def _swap_pending(place: Place, flow: Flow) -> bool:
    """Whether a full refresh is staged and not swapped into the live table yet."""
    return (
        place.staging.is_dir() and delta.transaction_version(place.layout.table(flow.target.name), place.app_id) is None
    )


def _unfinished_backfill(place: Place, flow: Flow) -> int | None:
    """The number of a backfill that wrote rows and did not finish, or None (`tidegate.spark.reprocessing.backfill`)."""
    last = next((WINDOWS.read(place, number) for number in reversed(WINDOWS.numbers(place))), None)
    if last is None or last.done:
        return None
    number, app_id = last.number, place.windows_app_id
    tables = (place.layout.table(flow.target.name), place.quarantine)
    return number if any(delta.transaction_version(path, app_id) == number for path in tables) else None


def _interrupted(place: FlowPlace, marker: Note[Any, FlowPlace]) -> bool:
    """Whether a replay or an undo left the file that it removes at its end; one that is running holds the lease."""
    if not marker.exists(place):
        return False
    return lease.holder(place.layout, lease.checkpoint_resource(place.pipeline, place.flow)) is None
