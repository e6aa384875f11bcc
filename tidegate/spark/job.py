"""`Job`: what an attempt does to one flow, with its `Kind` (what is the flow?) and its `Work` (what is done to its rows?).

The six steps, and what starts them, are given the job; others are given a part of it. The three know each other.

Longer than 300 lines: the three refer to each other, and each has one field or method per question that a step asks.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from tidegate import hidden
from tidegate.checkpoints import progress
from tidegate.lake.place import AttemptPlace, Place
from tidegate.project.resolution import ResolvedFlow
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import FlowReport
from tidegate.reports.verdict import Verdict
from tidegate.requests.request import RunRequest
from tidegate.spec import Flow
from tidegate.store import Address

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tidegate.checkpoints.checkpoint import Origin
    from tidegate.checkpoints.pending_jobs import PendingBackfill, PendingPiece
    from tidegate.checkpoints.progress import KafkaRanges, PlannedBatch
    from tidegate.checkpoints.refusal import Action, BatchDecision
    from tidegate.environment.clusters import Cluster, Clusters
    from tidegate.environment.registry import RegistryServer
    from tidegate.lake.table_history import Position
    from tidegate.spark.batch.pinned import Pinned
    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.gate import SuiteGate
    from tidegate.spark.lake.writes import Transaction
    from tidegate.store import Content
    from tidegate.times.window import Window

_PLANNED_KEPT = 4
Transform = Callable[..., "DataFrame"]
"""Takes the rows of the first source, and by name those of the others."""
Entries = Sequence[Mapping[str, str]]
"""``_row_id`` and ``source`` of quarantine entries."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One attempt at a request, for one flow."""

    request: RunRequest
    place: AttemptPlace
    """The attempt in the lake."""
    report: FlowReport
    publish: Callable[[], None]
    """Writes the run report to the lake; called after each change of ``report``."""

    def record_batch(self, record: LedgerLine) -> None:
        """Add a finished batch to the report."""
        self.report.batches.append(record)
        self.publish()

    def record_verdict(self, verdict: Verdict) -> None:
        """Add a verdict to the report."""
        self.report.verdicts.append(verdict)
        self.publish()


@dataclass(frozen=True, kw_only=True)
class Job:
    """One flow in one attempt, and what is done to it. Another checkpoint, session or work is a new job."""

    place: Place
    """The checkpoint, which knows the lake."""
    resolved: ResolvedFlow
    kind: Kind
    work: Work
    transform: Transform | None
    gate: SuiteGate | None
    run: Run
    spark: SparkSession
    """The session, which is not that of a stream's batches."""
    clusters: Clusters
    """Those of Kafka."""
    registry_of: Callable[[str], RegistryServer | None] = lambda _: None
    """The schema registry of a cluster of Kafka, if it has one."""

    persisted: list[DataFrame] = field(default_factory=list)
    """DataFrames that the current batch persisted; `release` unpersists them."""
    proven: dict[Address, Position] = field(default_factory=dict)
    """The newest position in each table whose history was proven in this run (`tidegate.spark.batch.proofs`)."""
    planned: dict[tuple[str, int], PlannedBatch] = field(default_factory=dict)
    """The offsets of the last batches, which Spark creates once, by checkpoint and number."""
    contents: dict[str, Content] = field(default_factory=dict)
    """What its readings have read in a bucket: an object with the same tag is not read again."""

    @property
    def flow(self) -> Flow:
        """The declaration of the flow."""
        return self.resolved.flow

    @property
    def cluster(self) -> Cluster:
        """The cluster of Kafka of a flow that reads or sends messages."""
        end = self.flow.target if self.flow.target.layer == "kafka" else self.flow.source
        name: str = end.cluster  # type: ignore[union-attr]  # only topics have one
        return self.clusters(name)

    @property
    def app_id(self) -> str:
        """The ``txnAppId`` of the writes."""
        return self.work.app_id(self.place)

    @property
    def target(self) -> Address:
        """The table that batches are written to."""
        return self.work.target(self)

    @property
    def live(self) -> Address:
        """The table that readers see."""
        return self.place.layout.table(self.flow.target.name)

    @property
    def source_table(self) -> Address | None:
        """The table whose change feed the flow reads, or the first of several; None for landing flows."""
        return next(iter(self.source_tables), None)

    @property
    def source_tables(self) -> tuple[Address, ...]:
        """The tables whose change feeds the flow reads, the first source first; none for landing flows."""
        return tuple(self.place.layout.read_table(table) for table in self.flow.source_tables)

    @property
    def query_tables(self) -> tuple[Address, ...]:
        """The tables that its query reads, in the order of Spark's offset log; none for landing flows.

        A stateful flow reads heartbeats before its source (`tidegate.kinds.stateful.ordered`).
        """
        beats = self.resolved.heartbeats(self.place.layout)
        return (*(() if beats is None else (beats,)), *self.source_tables)

    def with_fingerprints(self, record: LedgerLine) -> LedgerLine:
        """The record with the fingerprints of today's suite and transform."""
        suite = None if self.gate is None else self.gate.suite.fingerprint
        return replace(record, suite_fingerprint=suite, code_fingerprint=self.resolved.code_fingerprint() or None)

    def planned_batch(self, batch_id: int) -> PlannedBatch:
        """The offsets of a batch of the stream. Raises as `tidegate.checkpoints.progress.planned_batch`."""
        key = (self.place.checkpoint.key, batch_id)
        if key not in self.planned:
            while len(self.planned) >= _PLANNED_KEPT:
                del self.planned[next(iter(self.planned))]
            self.planned[key] = progress.planned_batch(self.place.checkpoint, batch_id)
        return self.planned[key]

    def reading(self) -> Job:
        """The job with one reading of a lake in a bucket, for what is decided before a write; with a local lake as it is.

        It does not see what Spark and delta-rs write: whoever writes with them has another reading behind that.
        """
        root = self.place.layout.root
        if root.store.is_local:
            return self
        from tidegate.lake import read_once

        store = read_once.of_proof(root.writable)
        store.known, store.contents = self.contents, self.contents
        layout = replace(self.place.layout, root=Address(store, root.key))
        return replace(self, place=replace(self.place, layout=layout))

    def refreshed(self, place: Place) -> Job:
        """The flow with a new refresh of its checkpoint, whose folder makes it the current one after a crash as well."""
        place.checkpoint.make_folder()
        self.run.report.refresh = place.refresh
        return replace(self, place=place)

    def doing(self, work: Work, spark: SparkSession | None = None) -> Job:
        """The flow with other work, and optionally in another session."""
        return replace(self, work=work, spark=self.spark if spark is None else spark)

    def release(self) -> None:
        """Unpersist the DataFrames of the batch."""
        while self.persisted:
            self.persisted.pop().unpersist()


class Work(ABC):
    """What a job does. What it does not override holds for new rows of a source."""

    line_kind: Literal["", "replay"] = ""
    """The ``kind`` of its ledger lines; empty for the one that the flow's kind gives them."""
    of_entries = False
    """Its rows are quarantine entries: no sample for the gate to judge, and no new files."""
    split_is_final = True
    """Whether a row that quarantine does not hold must pass, once the split was decided; if not, it breaks the rules of today."""
    compares: Literal["in_merge", "before", "never"] = "in_merge"
    """Whether rows are compared with newer rows of the table: by the MERGE where it can, by a query before it, or not."""
    judges = True
    """Whether suite and transform decide about its rows."""
    has_statistics = False
    """Whether the flow's statistics are measured: what else is read again in bulk does not resemble batches of the stream."""

    @abstractmethod
    def app_id(self, place: Place) -> str:
        """The ``txnAppId`` of its writes."""

    @abstractmethod
    def planned_ms(self, job: Job, batch_id: int) -> int:
        """When the batch was planned, in milliseconds since 1970; the same on every rerun."""

    def listed_files(self, job: Job, batch_id: int) -> dict[str, int]:
        """The files of a batch of a landing folder: path to modification time in milliseconds since 1970."""
        return {}

    def planned_offsets(self, job: Job, batch_id: int) -> KafkaRanges:
        """The messages of a batch of topics."""
        return {}

    def target(self, job: Job) -> Address:
        """The table that is written: the live table."""
        return job.live

    def is_first_read(self, job: Job) -> bool:
        """Whether nothing of the batch can have been read before, so that no table is searched for it."""
        return False

    def decision(self, job: Job, batch_id: int, action: Action | None = None) -> BatchDecision | None:
        """A person's decision about this refused batch, or only one for this action; None when there is none."""
        return None

    @abstractmethod
    def write_refused(self, job: Job, split: Split, batch_id: int, txn: Transaction) -> None:
        """Step 3: write the refused rows of a split to quarantine."""

    @abstractmethod
    def refused_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """The rows that an earlier attempt at this batch refused: ``_row_id string, rules array<string>``."""

    @abstractmethod
    def late_ids(self, job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
        """The rows that an earlier attempt at this batch found late: ``_row_id string``."""


def _missing(*_: Any) -> Any:
    raise NotImplementedError("the mode that needs this does not apply to flows of this kind (tidegate.requests.runs)")


def _no_rows(_job: Job, spark: SparkSession, _entries: Entries) -> DataFrame:
    return spark.range(0).toDF(hidden.ROW_ID)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """The code of one kind of flow. `read_stream` and `split` are all that an increment needs."""

    read_stream: Callable[[Job, Job], DataFrame | None]
    """The source as a stream with bounded micro-batches; None if a query would have no batch: the last one is committed, and
    nothing came since. The second job is in a reading that began under the flow's leases (`Job.reading`)."""
    split: Callable[[Job, DataFrame, int, Decision], Split | None]
    """Steps 1 and 2 for the rows of a batch, with its number and what earlier attempts wrote; None for an empty batch. What
    is in quarantine is not judged again. An error that it raises refuses the batch: nothing was written."""
    start: Callable[[Job, DataStreamWriter], StreamingQuery] = lambda _, writer: writer.start()
    """Starts the query of the stream."""
    evaluate: Callable[[Job, DataFrame, int], DataFrame] = lambda _job, batch, _number: batch
    """What every attempt at a batch does before step 0, also for an empty batch and for one that the target has. Returns the rows
    for ``split``."""
    check_written: Callable[[Job, LedgerLine], None] = lambda *_: None
    """Raises if the attempt cannot complete a batch that the target has with this ledger line."""
    bookkeeping: tuple[str, ...] = ()
    """Columns of the table that are not compared: a row in which only they differ is unchanged."""
    completed_by_target: bool = False
    """Whether another checkpoint completes a batch that the target has, with its ledger line alone: the old one would read its source
    again, which may no longer have it, or its state. A batch that only quarantine has is read again."""
    renewed_by: Callable[[Job], Origin | None] = lambda _: None
    """What opens the next refresh where the checkpoint cannot go on, and only a new refresh of it can; None where it can."""
    caught_up: Callable[[Job], None] = lambda _: None
    """Called when the stream has read everything, before a table that was derived again takes the place of the live one."""
    finish: Callable[[Job], None] = lambda _: None
    """Records what a crash has interrupted after its write into the live table, before another checkpoint takes the place of this one."""
    drained: Callable[[Job], None] = lambda _: None
    """Called at the end of an increment, when the stream has read everything and the live table has it."""
    parts: Callable[[Job, Window | None, Sequence[PendingPiece]], Iterator[Mapping[str, Any]]] = _missing
    """Reingest: the window, or the gaps (in a window), in parts as large as a batch, as fields of `PendingPiece`, without those of earlier
    pieces."""
    read_piece: Callable[[Job, PendingPiece], DataFrame] = _missing
    """Reingest: the rows of a piece, for ``split``."""
    keys_in_window: Callable[[Job, Window | None, PendingBackfill], DataFrame] = _missing
    """Backfill: the keys that have a row in the window, in the present table or in the output of the present code. Without a
    window, for a dry run of a full refresh: all keys."""
    store_raising: Callable[[Job, Window | None, PendingBackfill, str], None] = lambda *_: None
    """Backfill: after ``keys_in_window`` raised an exception of this class on a value, find and store the rows of the source on
    which it does; they have no key. From then on ``keys_in_window`` and ``split_keys`` leave them out."""
    split_keys: Callable[[Job, DataFrame, PendingBackfill, Decision], Split | None] = _missing
    """Backfill: steps 1 and 2 for all rows that these keys are derived from."""
    read_entries: Callable[[Job, SparkSession, Entries], DataFrame] = _no_rows
    """Replay: the source rows of quarantine entries, for ``split``; none for entries that are files."""
    returned: Callable[[Job, Mapping[str, Any], Entries], Mapping[str, Any]] = lambda _job, rules, _: rules
    """Replay: the broken rules by the id of the entry, from those by the id of the refused row."""
    sides: Callable[[Job, Pinned], Sides] = _missing
    """Verification: the rows that the source makes at the pinned versions, and those that the table has."""


def load_kind(flow: Flow) -> Kind:
    """The code of the kind of a flow, which is imported for it."""
    kind: Kind = importlib.import_module(flow.kind.code).KIND
    return kind


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What a verification compares."""

    expected: DataFrame
    """The rows that the source makes."""
    actual: DataFrame
    """The rows of the table."""
    keys: tuple[str, ...]
    """The columns that identify a row. Several rows may have the same key; then they are compared in any order."""
    source: str
    """As in `tidegate.reports.report.Verification`."""
    ignored: tuple[str, ...] = ()
    """Columns that are not compared, because they depend on how the input was divided into batches."""
    sums: bool = False
    """Whether floating-point columns are aggregates."""
    not_compared: Mapping[str, int] = field(default_factory=dict)
    """As in `tidegate.reports.report.Verification`."""
