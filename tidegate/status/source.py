"""What the planning of a run asks of a source: how much is still to read, and how much a manual run would read. Needs no JVM."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint
from tidegate.formatting import approximate, count
from tidegate.formatting import size as size_told
from tidegate.probes import delta
from tidegate.reports.report import LagReport
from tidegate.spec.kinds import source_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from tidegate.checkpoints.note import AnyNote
    from tidegate.environment import Environment
    from tidegate.environment.clusters import Clusters
    from tidegate.errors import NotDeliveredError
    from tidegate.lake.place import FlowPlace, Place
    from tidegate.requests.request import RunRequest
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.checkpoint_reading import CheckpointReading
    from tidegate.status.completeness import Completeness
    from tidegate.store import Address

NOTHING_READ = "nothing read"


def total_or_none(numbers: Iterable[int | None]) -> int | None:
    """The sum of rows or bytes; None if one of them is unknown."""
    known = list(numbers)
    return None if None in known else sum(number or 0 for number in known)


@dataclass(frozen=True, kw_only=True)
class Extent:
    """What a flow would read of its source."""

    what: str
    """For messages, for example ``bronze.flights at version 12``."""
    rows: int | None
    """None if unknown."""
    size: int | None
    """Bytes; None if unknown."""
    rows_exact: bool = True
    size_exact: bool = True

    def summary(self) -> str:
        """For messages, with rows and bytes; estimates are marked with ``~``."""
        rows = "" if self.rows is None else f", {approximate(count(self.rows, 'row'), self.rows_exact)}"
        return (
            self.what + rows + ("" if self.size is None else f", {approximate(size_told(self.size), self.size_exact)}")
        )


@dataclass(frozen=True, kw_only=True)
class Backlog(Extent):
    """What is still to read; ``what`` is ``3 new files in flights``, or ``nothing new in flights``."""

    behind: int
    """How many files, messages or versions of a table."""
    position: str
    """The position up to which everything is read and committed."""
    has_data: bool
    """Whether a run would find something to read."""
    ahead: str = ""
    """What is to be read: ``a.csv, b.csv``, ``offsets 0:15-19 1:10-14``, ``versions 3 to 5``; empty for nothing."""
    rewritten: int = 0
    """Files that changed after they were read; Spark's file source does not notice. A reingest reads them."""
    touched: int = 0
    """Files with another time than when they were read, and the same size: the next run compares them."""
    ignored: int = 0
    """Files in the landing folder that are hidden, do not fit the glob, or are too old."""
    skipped: str = ""
    """Describes the ignored files that were probably meant to be read; empty if there are none."""
    first_offsets: Mapping[str, int] = field(default_factory=dict)
    """For topics: partition, of several ``<topic>/<partition>``, to the first offset that the broker still has."""
    unread: Mapping[str, int] = field(default_factory=dict)
    """For topics: partition to the offset that is read next, for partitions with unread messages."""
    unread_until_ms: int | None = None
    """Up to when retention keeps all that is unread: of a topic (`tidegate.probes.retention.unread_until`), or of a table
    (`tidegate.probes.delta.kept_until_ms`)."""
    unread_since_ms: int | None = None
    """For a table: when the first unread version was committed, in milliseconds since 1970; None if that is unknown."""

    def report(self) -> LagReport:
        """Its numbers, for `tidegate.reports.report.FlowReport`."""
        return LagReport(
            rows=self.rows,
            bytes=self.size,
            rows_exact=self.rows_exact,
            bytes_exact=self.size_exact,
            behind=self.behind,
        )


def together(parts: Mapping[str, Backlog]) -> Backlog:
    """One backlog of several tables or topics, by name; its numbers are sums."""
    every = list(parts.values())
    if len(every) == 1:
        return every[0]
    since = [each.unread_since_ms for each in every if each.unread_since_ms is not None]
    until = [each.unread_until_ms for each in every if each.unread_until_ms is not None]
    return Backlog(
        what="; ".join(each.what for each in [each for each in every if each.has_data] or every),
        behind=sum(each.behind for each in every),
        rows=total_or_none([each.rows for each in every]),
        size=total_or_none([each.size for each in every]),
        rows_exact=all(each.rows_exact for each in every),
        size_exact=all(each.size_exact for each in every),
        position="; ".join(f"{name} {each.position}" for name, each in parts.items()),
        has_data=any(each.has_data for each in every),
        ahead="; ".join(f"{name} {each.ahead}" for name, each in parts.items() if each.ahead),
        first_offsets={key: offset for each in every for key, offset in each.first_offsets.items()},
        unread={key: offset for each in every for key, offset in each.unread.items()},
        unread_since_ms=min(since, default=None),
        unread_until_ms=min(until, default=None),
    )


def absent(what: str) -> Backlog:
    """The backlog of a flow that has read nothing yet, and whose source does not exist yet.

    Args:
        what: Says so.
    """
    return Backlog(what=what, behind=0, rows=0, size=0, position=NOTHING_READ, has_data=False)


def not_delivered(missing: NotDeliveredError, place: Place, target: Address) -> Backlog:
    """The backlog of a landing flow whose folder or topic does not exist.

    Args:
        missing: The error of the probe.
        place: A checkpoint of the flow.
        target: The flow's table.

    Raises:
        NotDeliveredError: The flow has read from it before, so it is lost, not undelivered.
    """
    if _has_read(place, target):
        raise missing
    return absent(f"not delivered yet: {missing.what} does not exist")


def _has_read(place: Place, target: Address) -> bool:
    """Whether a landing flow has its table, or any checkpoint of it has planned a batch."""
    if delta.current_version(target) is not None:
        return True
    return any((each.checkpoint / "offsets").numbers() for each in checkpoint.of_flow(place))


@dataclass(frozen=True, kw_only=True)
class MeasuredSource:
    """What a kind of source provides."""

    backlog: Callable[[CheckpointReading], Backlog]
    """What is in no committed batch, from the place, the last committed batch and a probe. A batch that was planned and not
    committed is run again, so it does not count as read. Raises a `SourceError` if the source has lost what is to be read."""
    extent: Callable[[Environment, Pipeline, Flow, RunRequest], Extent]
    """What a backfill, a reingest or a full refresh reads. Raises a `SourceError` if the source does not exist."""
    completeness: Callable[[Clusters, FlowPlace, Flow, str, datetime], Completeness | None] = lambda *_: None
    """The intervals of the source, from the clusters of Kafka, the flow's place, the flow, its time zone, and the present time from before
    the call; None if it declares none. Raises as ``backlog``."""
    is_local: bool = True
    """Whether only files are read for it; a broker may take long to answer."""
    notes: tuple[AnyNote, ...] = ()
    """The notes beside checkpoints that only flows which read this kind of source have."""


def load(flow: Flow) -> MeasuredSource:
    """The kind of source that a flow reads; several sources are of one kind."""
    return of_kind(str(source_folder(type(flow.source))))


def of_kind(folder: str) -> MeasuredSource:
    """The kind of source that has this folder in `tidegate.sources`."""
    source: MeasuredSource = importlib.import_module(f"tidegate.sources.{folder}.measure").SOURCE
    return source
