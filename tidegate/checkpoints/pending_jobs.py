"""Jobs that write more than one table, noted before their first write: after a crash a run finds them, and finishes or drops them.

`tidegate.spark.reprocessing` runs them. Each has a number, which is the ``txnVersion`` of its writes: so it is known whether it had
written anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.advice import OutsideAct
from tidegate.checkpoints.note import Note, NumberedNotes
from tidegate.place import FlowPlace

_REPAIR = OutsideAct("restore it from a backup")


@dataclass(frozen=True, kw_only=True)
class PendingWindow:
    """A backfill or a piece of a reingest; its fields are JSON values."""

    number: int
    """Also the ``txnVersion`` of its writes."""
    window: dict[str, str]
    planned_at_ms: int
    requested_by: str
    request_id: str = ""
    """Retries of one request do the work once. Airflow gives a cleared run a new request."""
    done: bool = False


@dataclass(frozen=True)
class PendingReplay:
    """A replay that has claimed quarantine entries, or is about to: the entries say which."""

    by: str
    """Who requested the replay."""


@dataclass(frozen=True, kw_only=True)
class Undone:
    """A commit that is put back."""

    kind: str
    """Of its ledger line."""
    app_id: str
    number: int
    version: int
    """Of the target."""


@dataclass(frozen=True, kw_only=True)
class PendingUndo:
    """The undo of one run in one flow."""

    number: int
    """Also the ``txnVersion`` of its writes."""
    undoes: str
    """The key of the run that is undone."""
    commits: tuple[Undone, ...]
    planned_at_ms: int
    run_id: str
    """Of the undo itself, for its ledger line, also when a later run writes it."""
    requested_by: str
    left: tuple[str, ...] = ()
    """The records whose rows are left together, decided before the first write: a rerun leaves the rows of the same ones."""


WINDOWS: NumberedNotes[PendingWindow, FlowPlace] = NumberedNotes(
    name="reprocessing",
    file="reprocessing/{number}.json",
    content=PendingWindow,
    says="a backfill, or a piece of a reingest of a window: what it does, and whether it is done",
    absent="there was none",
    written="a backfill or a reingest, before its first write; again when it is judged, and when it is done",
    cleared="a run or the next backfill or reingest, if it was interrupted before its first write",
    repair=_REPAIR,
)
CLAIM: Note[PendingReplay, FlowPlace] = Note(
    name="claim",
    file="claim.json",
    content=PendingReplay,
    says="that a replay has claimed quarantine entries",
    absent="no replay is unfinished",
    written="a replay, before it claims entries",
    cleared="the replay, once its entries are settled or released, or if none matches; else the next run or replay that does so",
    repair=_REPAIR,
)
UNDO: Note[PendingUndo, FlowPlace] = Note(
    name="undo",
    file="undo.json",
    content=PendingUndo,
    says="the undo in progress: its run, and the commits that it puts back",
    absent="no undo is unfinished",
    written="an undo, before its first write; again when it has decided which rows it leaves",
    cleared="the undo at its end; else the next run, replay or undo, when it has finished it, or if it had written nothing",
    repair=_REPAIR,
)
