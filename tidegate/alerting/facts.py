"""What the alert rules know about one flow. Plain data; `tidegate.status.observation` collects it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from tidegate.formatting import count

if TYPE_CHECKING:
    from tidegate.ops.metrics import StateFigures

T = TypeVar("T")


class UnknownFactError(Exception):
    """A rule needs a fact that is not known, so it is undecided."""


def known(fact: T | None) -> T:
    """The fact; raises `UnknownFactError` if it is None."""
    if fact is None:
        raise UnknownFactError
    return fact


@dataclass(frozen=True, kw_only=True)
class PlannedLag:
    """The lag of a flow in one plan, whether or not the run had work."""

    at: datetime
    behind: int | None
    """Number of files, messages or table versions; None when the source or the checkpoint could not be read."""
    rows: int | None
    """None if unknown."""
    first_offsets: Mapping[int, int] = field(default_factory=dict)
    """Only for a topic: partition to its first offset."""


@dataclass(frozen=True, kw_only=True)
class FlowRun:
    """One incremental run of a flow: the sums of its Spark progress and its ledger lines."""

    started_at: datetime
    rows: int
    """Rows read."""
    seconds: float
    """Sum over its batches."""
    longest_batch: float = 0.0
    """Seconds of its longest batch."""
    quarantined_share: float = 0.0
    """Quarantined share of its rows, or of its files if that is larger."""
    late: int = 0
    """Rows that came later than the watermark's delay."""


@dataclass(frozen=True, kw_only=True)
class RunEnds:
    """How the last runs of a flow ended, in every mode that reads what is new, except dry runs."""

    failure: str | None = None
    """Why the last run failed, which run that was, and where its report is; None if it did not fail."""
    crashed: bool = False
    """Whether the last run failed without a final report."""
    of_increment: bool = True
    """Whether the last run was an increment, which the next run repeats if there is work."""
    failed_runs: int = 0
    """How many runs failed since the last one that did not."""
    more: bool = False
    """Whether all runs that were read failed, so that there may be more."""
    caught_up_at: datetime | None = None
    """When the last run began that read all there was; None if none is known."""

    @property
    def runs(self) -> str:
        """``1 run failed``, ``16 runs in a row failed``."""
        many = f"{'at least ' if self.more else ''}{count(self.failed_runs, 'run')}"
        return f"{many} failed" if self.failed_runs < 2 else f"{many} in a row failed"

    @property
    def sentence(self) -> str | None:
        """How many runs failed, if several did, and why the last one did; None if it did not."""
        if self.failure is None or self.failed_runs < 2:
            return self.failure
        return f"{self.runs}; {self.failure}"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The measured values of one flow at one time. None and empty mean unknown."""

    flow: str
    external_source: bool
    """Whether no flow of the same pipeline writes its source."""
    pipeline: str = ""
    downstream: tuple[str, ...] = ()
    """``<pipeline>/<flow>`` of the flows that read its table, and of those downstream of them."""
    interval_seconds: float | None = None
    """Of the cron schedule; of a pipeline that follows tables, that of the pipelines that write them; else None."""
    cron: bool = False
    """Whether the pipeline has a cron schedule, so that a run is due at a known time."""
    plans: tuple[PlannedLag, ...] = ()
    """Oldest first."""
    last_activity: datetime | None = None
    """Only without a plan of the flow: the last plan of its pipeline, or else the first evaluation of alerts."""
    runs: tuple[FlowRun, ...] = ()
    """Of the last seven days at least, oldest first."""
    ends: RunEnds | None = None
    """None if no run of the flow is known."""
    running_since: datetime | None = None
    """When the batch that is being written now began; None if none is."""
    behind: int | None = None
    """Files, messages or table versions that wait now."""
    unread_since: datetime | None = None
    """Only for a table: when the first unread version was committed."""
    lag_rows: int | None = None
    lag_exact: bool = True
    error: str | None = None
    """Why the source or the checkpoint cannot be read."""
    late: bool = False
    """Whether ``error`` only says that a local source or table was not read in time; it may be large and in order."""
    refused: str | None = None
    """Which refused batch waits, and for what."""
    refused_rewrite: str | None = None
    """Which backfill or swap was refused for the rows that it would delete or quarantine, and how many they are."""
    quarantine_open: int | None = None
    quarantine_oldest: datetime | None = None
    """When the oldest open entry was quarantined."""
    newest_event: datetime | None = None
    """The newest event time in the target, not counting values in the future."""
    takes_batches: bool = True
    """Whether all rows of a refused batch can go to quarantine."""
    stateful: bool = False
    """Whether the flow keeps state between batches."""
    operator_state: StateFigures | None = None
    """Its state after the last batch; None if no batch is known."""
    earlier_state: StateFigures | None = None
    """Its state after the batch before the last, of the same checkpoint; None if no such batch is known."""
    watermarked: bool = False
    """Whether the flow declares a watermark, so that rows can be late."""
    reads_files: bool = False
    """Whether its source is a landing folder."""
    rewritten: int | None = None
    """Files that were changed after they were read, and that no reingest has read since; None if unknown."""
    first_offsets: Mapping[int, int] = field(default_factory=dict)
    """Only for a topic: partition to its first offset now."""
    unread: Mapping[int, int] = field(default_factory=dict)
    """Only for a topic: partition to the next offset to read, without the partitions that are read to the end."""
    unread_until: datetime | None = None
    """For a topic or a table: up to when its retention keeps all that is unread; None also if that is far off."""
    switched_off: bool = False
    """Whether a person switched the flow off; then a growing lag is expected."""
