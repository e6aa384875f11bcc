"""One reading of a flow: all that can be known of it without a JVM. Takes no lock.

State, plan, preview, alerts, lag and pages are functions of a reading. It is safe to make while a job runs: nothing is written, and
files are read in an order that tolerates a commit in between. A part is a few lines; how something is read stands in the modules below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.alerting import expiry
from tidegate.alerting.facts import UnknownFactError
from tidegate.checkpoints import lease, overrides
from tidegate.errors import TidegateError
from tidegate.ops import metrics, plans
from tidegate.ops.plans import PlannedLag
from tidegate.quarantine import lifecycle
from tidegate.status import flow_runs, freshness, idle, remarks, source, wait
from tidegate.status.checkpoint_reading import measured, part
from tidegate.status.downstream import downstream_of
from tidegate.status.interval import interval_of
from tidegate.status.unfinished import UnfinishedReading
from tidegate.times import dates

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from tidegate.checkpoints.overrides import Override
    from tidegate.ops.heartbeats import Heartbeat
    from tidegate.ops.metrics import StateFigures
    from tidegate.quarantine.lifecycle import EntryCounts
    from tidegate.status.completeness import Completeness
    from tidegate.status.flow_runs import FlowRun
    from tidegate.status.run_ends import RunEnds
    from tidegate.status.source import Backlog
    from tidegate.status.wait import RefusedBy, Upstream, Wait


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading(UnfinishedReading):
    """What is known of one flow at one time. A part that is not known yet is read when it is asked for, and raises what that raises."""

    ends: RunEnds | None = None
    """How its last runs ended; None if no run is known."""
    upstream: Upstream | None = None
    """The flow that writes its source; of several, one that blocks."""
    alerts: tuple[str, ...] = ()
    """The rules of its open alerts (`tidegate.status.evaluation.with_alerts`)."""
    late: bool = False
    """Whether the error is only that the reading ended before the lake itself was read: the machine is slow."""

    def ended(self, error: TidegateError, *, late: bool = False) -> Reading:
        """The same reading, which an error ended: what waits is unknown as a whole."""
        unknown = {each.name for each in MEASURED}
        copy = self.given(error=error, late=late)
        for name in unknown & vars(copy).keys():
            del vars(copy)[name]
        return copy

    def expect_no_error(self) -> None:
        """Raises `UnknownFactError` after an error: a rule is undecided if it needs the part."""
        if self.error is not None:
            raise UnknownFactError

    @classmethod
    def parts_measured(cls) -> tuple[part[Any], ...]:
        """What `measure` reads, in its order."""
        return MEASURED

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
    def lag(self) -> Backlog | None:
        """What waits at its source; None if that is unknown."""
        return self.known(Reading.backlog)

    @property
    def planned_lag(self) -> PlannedLag:
        """The lag as a plan records it."""
        lag = self.lag
        if lag is None:
            return PlannedLag(at=self.at)
        return PlannedLag(at=self.at, behind=lag.behind, rows=lag.rows, first_offsets=lag.first_offsets)

    @property
    def switched_off(self) -> str | None:
        """The decision that switched it off, as far as it is known."""
        off = self.known(Reading.off)
        return None if off is None else off.summary()

    @property
    def failed(self) -> bool:
        """Whether a run of the flow would end with `error`; a flow that is switched off does not run."""
        return self.error is not None and self.switched_off is None

    @measured
    def wait(self) -> Wait | None:
        """Why another attempt at what is pending would be refused, too."""
        batch = self.progress.pending_batch
        if self.resolved.flow.kind.superseded_by and self.backlog.has_data:
            batch = None
        of_batch = None if batch is None else wait.of_batch(self, batch)
        return of_batch or wait.of_limits(self, batch, judged=self.refused_rewrite, swaps=self.refresh_pending)

    @measured
    def heartbeat(self) -> Heartbeat | None:
        """The heartbeat that is due."""
        return idle.heartbeat_due(self.resolved, self.place, self.at)

    @measured
    def completeness(self) -> Completeness | None:
        """Of a source that declares intervals: which of them are complete."""
        resolved = self.resolved
        measure = source.load(resolved.flow).completeness
        return measure(self.clusters, self.place, resolved.flow, resolved.pipeline.timezone, self.at)

    @measured
    def remarks(self) -> str:
        """What a person should know about the source: sentences, separated by semicolons."""
        return remarks.joined(
            self.completeness.summary() if self.completeness is not None else "",
            self.backlog.skipped,
            remarks.rewritten(self.backlog.rewritten),
            remarks.touched(self.backlog.touched),
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
"""What waits for the flow, and why: what `Reading.measure` reads."""
