"""One reading of a flow: all that can be known of it without a JVM. Takes no lock.

State, plan, preview, alerts, lag and pages are functions of a reading. It is safe to make while a job runs: nothing is written, and
files are read in an order that tolerates a commit in between. It is one class and so one module: a part is a few lines, and how something
is read stands in the modules below.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pendulum

from tidegate import hidden, states
from tidegate.alerting import expiry
from tidegate.checkpoints import checkpoint, derivation, lease, overrides, progress, refusal, rewrite
from tidegate.lake.layout import Layout
from tidegate.ops import metrics, plans
from tidegate.probes import delta, delta_log
from tidegate.quarantine import lifecycle
from tidegate.status import flow_runs, freshness, idle, proofs, remarks, topic_intervals, unfinished, wait
from tidegate.status.downstream import downstream_of
from tidegate.status.interval import interval_of
from tidegate.status.part import measured, part
from tidegate.status.sources import source
from tidegate.times import dates

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from tidegate.checkpoints.overrides import Override
    from tidegate.checkpoints.progress import PlannedBatch, Progress
    from tidegate.checkpoints.rewrite import JudgedRewrite
    from tidegate.environment import Environment
    from tidegate.errors import TidegateError
    from tidegate.lake.place import Place
    from tidegate.ops.heartbeats import Heartbeat
    from tidegate.ops.metrics import StateFigures
    from tidegate.ops.plans import PlannedLag
    from tidegate.project.resolution import ResolvedFlow
    from tidegate.quarantine.lifecycle import EntryCounts
    from tidegate.states import FlowState, RefusedBy
    from tidegate.status.flow_runs import FlowRun
    from tidegate.status.intervals import Completeness
    from tidegate.status.proofs import Proven
    from tidegate.status.run_ends import RunEnds
    from tidegate.status.sources.source import Backlog
    from tidegate.status.wait import Wait

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """What is known of one flow at one time. A part that is not known yet is read when it is asked for, and raises what that raises."""

    layout: Layout
    """The lake, whose store reads each file once."""
    kafka: str
    """The brokers."""
    declared: ResolvedFlow | str = field(repr=False)
    """The name of the pipeline, if its declaration does not load."""
    at: datetime
    """When the reading began."""
    ends: RunEnds | None = None
    """How its last runs ended; None if no run is known."""
    upstream: FlowState | None = None
    """The status of the flow that writes its source; of several, of one that blocks."""
    alerts: tuple[str, ...] = ()
    """The rules of its open alerts (`tidegate.status.evaluation.with_alerts`)."""
    error: TidegateError | None = None
    """Why the declaration, the checkpoint or the source could not be read."""
    late: bool = False
    """Whether the error is only that the reading ended before the lake itself was read: the machine is slow."""

    @classmethod
    def of(cls, environment: Environment, resolved: ResolvedFlow, at: datetime | None = None) -> Self:
        """A reading of which nothing is known yet, by default of the present."""
        return cls(
            layout=Layout.of(environment), kafka=environment.kafka, declared=resolved, at=at or pendulum.now("UTC")
        )

    def given(self, **known: Any) -> Reading:
        """The same reading with some fields or parts known."""
        assert all(hasattr(Reading, name) or name in {each.name for each in fields(self)} for name in known), known
        copy = object.__new__(Reading)
        vars(copy).update(vars(self) | known)
        return copy

    def known(self, wanted: part[T]) -> T | None:
        """A part, as ``Reading.backlog``, if it has been read; reads nothing."""
        value: T | None = vars(self).get(wanted.name)
        return value

    def ask(self, *parts: part[Any]) -> Self:
        """Read some parts, in this order."""
        for each in parts:
            each.of(self)
        return self

    def measure(self) -> Self:
        """Read what waits for the flow.

        Raises:
            SpecError: The flow's suite or transform is missing or cannot be read, or another flow wrote its table.
            UndeclaredDependenceError: An earlier run found that the transform depends on rows that the declaration does not name.
            SourceError: The landing folder or the topic does not exist.
            SourceUnavailableError: No broker answers. Transient.
            OffsetsExpiredError: The source no longer has the data that the checkpoint reads next.
            CheckpointCorruptError: A file of the checkpoint cannot be read, or it is older than the tables.
            TableUnreadableError: The log of a table that the flow reads or writes is damaged.
            TableInDoubtError: A table that the flow reads or writes does not have the history that is known of it.
        """
        return self.ask(*MEASURED)

    def ended(self, error: TidegateError, *, late: bool = False) -> Reading:
        """The same reading, which an error ended: what waits is unknown as a whole."""
        unknown = {each.name for each in MEASURED}
        copy = self.given(error=error, late=late)
        for name in unknown & vars(copy).keys():
            del vars(copy)[name]
        return copy

    @property
    def resolved(self) -> ResolvedFlow:
        """The flow, of a pipeline that loads."""
        assert not isinstance(self.declared, str), f"the declaration of {self.declared} does not load"
        return self.declared

    @property
    def pipeline(self) -> str:
        """The name of its pipeline."""
        return self.declared if isinstance(self.declared, str) else self.declared.pipeline.name

    @property
    def flow(self) -> str:
        """Its name; empty if the declaration does not load."""
        return "" if isinstance(self.declared, str) else self.declared.flow.name

    @property
    def label(self) -> str:
        """``<pipeline>/<flow>``, or only the pipeline if its declaration does not load."""
        return f"{self.pipeline}/{self.flow}" if self.flow else self.pipeline

    @property
    def target(self) -> str:
        """The table that it writes."""
        return "" if isinstance(self.declared, str) else self.declared.flow.target.name

    @property
    def takes_batches(self) -> bool:
        """Whether all rows of a refused batch can go to quarantine."""
        return isinstance(self.declared, str) or self.declared.flow.kind.takes_batches

    @property
    def version(self) -> int | None:
        """Of its checkpoint."""
        return None if isinstance(self.declared, str) else self.declared.flow.checkpoint_version

    @property
    def source_kind(self) -> str:
        """``files``, ``kafka``, ``change_feed`` or ``snapshots``."""
        return str(self.resolved.flow.source.identity()["kind"])

    @property
    def refused_by(self) -> RefusedBy | None:
        """What refused the pending batch or the swap, if another attempt would be refused too."""
        return None if self.wait is None else self.wait.by

    @property
    def problem(self) -> str | None:
        """The error in one line."""
        return None if self.error is None else " ".join(self.error.message.split())

    @property
    def status(self) -> FlowState:
        """What it means."""
        return states.status_of(self)

    @property
    def lag(self) -> Backlog | None:
        """What waits at its source; None if that is unknown."""
        return self.known(Reading.backlog)

    @property
    def switched_off(self) -> str | None:
        """The decision that switched it off, as far as it is known."""
        off = self.known(Reading.off)
        return None if off is None else off.summary()

    @property
    def failed(self) -> bool:
        """Whether a run of the flow would end with `error`; a flow that is switched off does not run."""
        return self.error is not None and self.switched_off is None

    @part
    def place(self) -> Place:
        """Its checkpoint."""
        return checkpoint.current(self.layout, self.resolved.pipeline, self.resolved.flow)

    @part
    def holder(self) -> str | None:
        """The process that holds the lease of its checkpoint or of its table."""
        resources = lease.checkpoint_resource(self.pipeline, self.flow), lease.table_resource(self.target)
        return next((name for each in resources if (name := lease.holder(self.layout, each)) is not None), None)

    @part
    def off(self) -> Override | None:
        """The decision that switched it off."""
        return overrides.switched_off(self.resolved.place(self.layout))

    @measured
    def quarantine(self) -> EntryCounts:
        """Counts of its quarantine."""
        return lifecycle.entry_counts(self.place.quarantine)

    @measured
    def kept(self) -> tuple[StateFigures, ...]:
        """The state of a stateful flow after its last batch, and after the batch before it, if that is of the same checkpoint."""
        if not self.resolved.flow.kind.stateful:
            return ()
        figures = metrics.state_figures(self.place.of_pipeline.ops("progress"), self.flow, limit=2)
        return tuple(each for each in figures if each.app_id == figures[0].app_id)

    @measured
    def progress(self) -> Progress:
        """Which batches of its checkpoint are planned and committed."""
        return progress.read(self.place.checkpoint)

    @measured
    def committed(self) -> PlannedBatch | None:
        """The last committed batch; None for a checkpoint that was never used: of a new flow, a new version or a full refresh."""
        last = self.progress.last_committed
        return None if last is None else progress.planned_batch(self.place.checkpoint, last)

    @measured
    def proven(self) -> Proven:
        """What its tables are proven to have; raises if a run could not begin."""
        resolved = self.resolved
        if resolved.error is not None:
            raise resolved.error
        of_pipeline, target = resolved.place(self.layout).of_pipeline, self.layout.table(self.target)
        # A batch would find damage in the log of a table that it writes after its first write; those that it reads are read below.
        own = (target, resolved.place(self.layout).quarantine, resolved.place(self.layout).late)
        for path in (*own, of_pipeline.ops("ledger"), of_pipeline.ops("verdicts")):
            delta_log.check(path)
        derivation.check_recorded(self.layout, resolved)
        proven = proofs.check(resolved, self.place)
        proofs.check_checkpoint(resolved, self.place, proven, self.progress.last_planned)
        if self.progress.last_committed is None:
            checkpoint.check_writers(resolved.flow, self.place, delta.writers(target, self.place.app_id))
        return proven

    @measured
    def backlog(self) -> Backlog:
        """What waits at its source; rows that flows above it have yet to write are not counted."""
        self.ask(Reading.proven)
        return source.load(self.resolved.flow).backlog(self)

    @measured
    def refused_rewrite(self) -> JudgedRewrite | None:
        """A backfill or a swap whose numbers exceed the limits, and are not accepted."""
        return rewrite.refused(self.place)

    @measured
    def quarantined_whole(self) -> bool:
        """Whether a person decided that all of the pending batch goes to quarantine."""
        batch = self.progress.pending_batch
        decision = None if batch is None else refusal.decision(self.place, batch)
        return decision is not None and decision.action == "take"

    @measured
    def written(self) -> bool:
        """Whether the table has the pending batch; its ledger line or its end in the checkpoint is missing."""
        batch = self.progress.pending_batch
        return (
            batch is not None
            and not self.quarantined_whole
            and unfinished.is_written(self.place, self.resolved.flow, batch)
        )

    @measured
    def refresh_pending(self) -> bool:
        """Whether a full refresh is staged and not swapped in."""
        return unfinished.is_staged(self.place, self.resolved.flow)

    @measured
    def unfinished(self) -> str:
        """What earlier runs left unfinished, which comes first: sentences, separated by semicolons."""
        return unfinished.summary(
            self.progress.pending_batch,
            quarantined_whole=self.quarantined_whole,
            written=self.written,
            staged=self.refresh_pending,
            jobs=unfinished.interrupted(self.place, self.resolved.flow),
        )

    @measured
    def wait(self) -> Wait | None:
        """Why another attempt at what is pending would be refused, too."""
        batch = self.progress.pending_batch
        if self.resolved.flow.kind.snapshots and self.backlog.has_data:
            # A newer snapshot takes the place of a refused one.
            batch = None
        return (wait.of_batch(self, batch) if batch is not None else None) or wait.of_limits(self, batch)

    @measured
    def heartbeat(self) -> Heartbeat | None:
        """The heartbeat that is due."""
        return idle.heartbeat_due(self.resolved, self.place, self.at)

    @measured
    def completeness(self) -> Completeness | None:
        """Of a source that declares intervals: which of them are complete."""
        resolved = self.resolved
        return topic_intervals.read(self.kafka, self.layout, resolved.pipeline, resolved.flow, self.at)

    @measured
    def remarks(self) -> str:
        """What a person should know about the source: sentences, separated by semicolons."""
        return remarks.joined(
            self.completeness.summary() if self.completeness is not None else "",
            self.backlog.skipped,
            remarks.rewritten(self.backlog.rewritten),
            self.proven.summary(),
            remarks.sent_again(self.resolved.flow, self.place) if self.committed is None else "",
            self._expiry_warning,
            self.refused_rewrite.summary() if self.refused_rewrite is not None and self.wait is None else "",
        )

    @measured
    def reads(self) -> str:
        """What the next increment reads, as the object of a sentence: ``2 new files in orders``."""
        return self.backlog.what

    @measured
    def has_work(self) -> bool:
        """Whether there is something to read or to complete; not if it is switched off, or waits for a person."""
        waits = self.off is not None or self.wait is not None
        return not waits and (self.backlog.has_data or bool(self.unfinished) or self.heartbeat is not None)

    @measured
    def reason(self) -> str:
        """Why there is work or none: one sentence without a full stop."""
        if self.off is not None:
            return self.off.summary()
        own = remarks.joined(self.unfinished, self.reads if self.backlog.has_data or not self.unfinished else "")
        return remarks.joined(
            own if self.wait is None else self.wait.reason,
            remarks.heartbeat_due(self.resolved.flow) if self.heartbeat is not None else "",
            self.remarks,
        )

    @part
    def plans(self) -> tuple[PlannedLag, ...]:
        """Its plans, the oldest first."""
        return plans.read(self.resolved.place(self.layout))

    @part
    def last_activity(self) -> datetime | None:
        """Only without a plan of the flow: the last plan of its pipeline, or else the first evaluation of alerts."""
        return None if self.plans else plans.last_activity(self.resolved.place(self.layout).of_pipeline)

    @part
    def interval_seconds(self) -> float | None:
        """Of the cron schedule; of a pipeline that follows tables, that of the pipelines that write them; else None."""
        return interval_of(self.resolved.pipeline, self.at, self.resolved.declared)

    @part
    def downstream(self) -> tuple[str, ...]:
        """``<pipeline>/<flow>`` of the flows that read its table, and of those downstream of them."""
        return downstream_of(self.target, self.resolved.declared).flows

    @part
    def runs(self) -> tuple[FlowRun, ...]:
        """Its incremental runs of the last seven days at least, the oldest first."""
        return flow_runs.read(self.resolved.place(self.layout), self.at, self.interval_seconds)

    @part
    def running_since(self) -> datetime | None:
        """When the batch that is being written now began; None if none is, or if that is unknown."""
        state = self.known(Reading.progress)
        if state is None or state.pending_batch is None or self.lag is None or self.holder is None:
            return None
        return flow_runs.began(self.place, state.pending_batch)

    @part
    def newest(self) -> datetime | None:
        """The newest event time in the target, not counting values in the future; if none is declared, the newest ingestion time."""
        table = self.layout.table(self.target)
        return freshness.newest(table, self.resolved.flow.target.event_time or hidden.INGESTED_AT, self.at)

    @part
    def newest_event(self) -> datetime | None:
        """The newest event time; None also if the freshness rule is off."""
        pipeline, flow = self.resolved.pipeline, self.resolved.flow
        is_timed = flow.target.event_time is not None and pipeline.thresholds_of(flow).freshness_hours is not None
        return self.newest if is_timed else None

    @property
    def expires_in(self) -> timedelta | None:
        """The estimated time until the first unread message or change is deleted; None if that is unknown or far off."""
        backlog = self.backlog
        until = dates.moment(backlog.unread_until_ms)
        return expiry.time_to_expiry(self.plans, backlog.first_offsets, backlog.unread, self.at, until)

    @property
    def _expiry_warning(self) -> str:
        """A warning if the topic's retention will soon delete unread messages, in the words of the alert `expiring`; else empty."""
        runs = self.resolved.pipeline.thresholds_of(self.resolved.flow).expiry_runs
        if runs is None or not self.backlog.unread or (left := self.expires_in) is None:
            return ""
        return remarks.expiring(left) if left < expiry.limit(runs, self.interval_seconds) else ""


MEASURED = (
    Reading.backlog,
    Reading.refused_rewrite,
    Reading.unfinished,
    Reading.wait,
    Reading.heartbeat,
    Reading.completeness,
    Reading.reads,
    Reading.remarks,
    Reading.has_work,
    Reading.reason,
)
"""What `Reading.measure` reads, in its order."""
