"""Jobs that write more than one table, noted before their first write: after a crash a run finds them, and finishes or drops them.

`tidegate.spark.reprocessing` runs them, and `tidegate.spark.reprocessing.pending_work.settle` is their one recovery. Each has a number,
which is the ``txnVersion`` of its writes: so it is known whether it had written anything.

The kinds have files of their own, because several may be pending at once (a claim waits while a refresh is staged, and a
replay may begin beside a half-written backfill), and because those of windows are kept when they are done (ADR 49).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from tidegate.advice import OutsideAct
from tidegate.checkpoints.note import Note, NumberedNotes
from tidegate.lake.place import FlowPlace, Place
from tidegate.reports.impact import Impact
from tidegate.spec import Flow

_REPAIR = OutsideAct("restore it from a backup")

W = TypeVar("W", bound="PendingWindow")


class PendingJob(ABC):
    """A job that is not settled: a backfill or a piece of a reingest, a replay, or an undo."""

    what: ClassVar[str]
    """It, as the subject of a sentence."""

    @abstractmethod
    def app_id(self, place: Place) -> str:
        """The ``txnAppId`` of its writes."""

    @property
    @abstractmethod
    def waits(self) -> str:
        """What the next run does about it: a sentence without a full stop."""


@dataclass(frozen=True, kw_only=True)
class PendingWindow(PendingJob):
    """A backfill or a piece of a reingest; its fields are JSON values."""

    what = "a backfill or a reingest"

    number: int
    """Also the ``txnVersion`` of its writes."""
    window: dict[str, str]
    planned_at_ms: int
    requested_by: str
    request_id: str = ""
    """Retries of one request do the work once. Airflow gives a cleared run a new request."""
    done: bool = False

    def app_id(self, place: Place) -> str:
        """The one of the checkpoint's windows."""
        return place.windows_app_id

    @property
    def waits(self) -> str:
        """See `PendingJob`."""
        return f"backfill or reingest {self.number} is half-written and will be finished first"


@dataclass(frozen=True, kw_only=True)
class PendingBackfill(PendingWindow):
    """A backfill."""

    run_key: str
    source_version: int
    """Of the source, or the first of several."""
    other_versions: Mapping[str, int] = field(default_factory=dict)
    """Of the other sources, by table."""
    seconds: float = 0.0
    """Duration of the search for the keys."""
    judged: Impact | None = None
    """What was judged, and accepted, before the first write; None before."""

    def source_versions(self, flow: Flow) -> dict[str, int]:
        """The version of each source table at which it reads them."""
        return {flow.source_tables[0]: self.source_version, **self.other_versions}

    @property
    def is_whole(self) -> bool:
        """Whether it derives the whole table and not a window, which only a dry run does."""
        return not self.window


@dataclass(frozen=True, kw_only=True)
class PendingPiece(PendingWindow):
    """A piece of a reingest: a part of a window, at most as large as a micro-batch."""

    files: dict[str, int] = field(default_factory=dict)
    """Path to modification time in milliseconds."""
    topic: str = ""
    """Of the offsets; empty in pieces of earlier releases, which read one topic."""
    offsets: dict[str, list[int]] = field(default_factory=dict)
    """Partition to its first offset (included) and its last (excluded)."""


@dataclass(frozen=True, kw_only=True)
class PendingReplay(PendingJob):
    """A replay that has claimed quarantine entries, or is about to: the entries say which, and have its number."""

    what = "a replay"

    by: str
    """Who requested the replay."""

    def app_id(self, place: Place) -> str:
        """One for all replays of the flow."""
        return place.replays_app_id

    @property
    def waits(self) -> str:
        """See `PendingJob`."""
        return "a replay of its quarantine was interrupted and will be finished or released first"


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
class PendingUndo(PendingJob):
    """The undo of one run in one flow."""

    what = "an undo"

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

    def app_id(self, place: Place) -> str:
        """One for all undos of the flow."""
        return place.undos_app_id

    @property
    def waits(self) -> str:
        """See `PendingJob`."""
        return "an undo was interrupted and will be finished first if it has written anything"


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


def last_window(place: FlowPlace, kind: type[W]) -> W | None:
    """The last backfill, or piece of a reingest; no other can be pending. None without one.

    Raises:
        DamagedFileError: It is damaged.
    """
    numbers = WINDOWS.numbers(place)
    return WINDOWS.read_as(place, numbers[-1], kind) if numbers else None


def read(place: FlowPlace) -> tuple[PendingJob, ...]:
    """The jobs that are not settled, in the order in which a run settles them.

    Raises:
        DamagedFileError: One of them is damaged.
    """
    window = last_window(place, PendingWindow)
    jobs = (UNDO.read(place), CLAIM.read(place), None if window is None or window.done else window)
    return tuple(job for job in jobs if job is not None)
