"""The status of every flow: its checkpoint, lease, lag and last runs, read in parallel within a deadline. Starts no JVM.

`tidegate.states` says what the facts mean.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate.advice import OutsideAct
from tidegate.errors import SourceUnavailableError, TableInDoubtError, TidegateError, classify
from tidegate.states import Facts, Status, status_of
from tidegate.status.sources import source

if TYPE_CHECKING:
    from datetime import datetime

    from tidegate.alerting.facts import RunEnds
    from tidegate.environment import Environment
    from tidegate.layout import Layout
    from tidegate.ops.metrics import StateFigures
    from tidegate.quarantine.lifecycle import EntryCounts
    from tidegate.resolution import ResolvedFlow, ResolvedPipeline
    from tidegate.status.lag import Lag

PATIENCE = 1.5
"""Default number of seconds that a command or a page waits for all sources together."""


@dataclass(kw_only=True)
class FlowStatus:
    """The status of one flow. What could not be read is None, and `error` has the reason."""

    pipeline: str
    flow: str = ""
    """Empty if the pipeline's declaration does not load."""
    target: str = ""
    takes_batches: bool = True
    """Whether all rows of a refused batch can go to quarantine."""
    version: int | None = None
    refresh: int | None = None
    read_at: datetime | None = None
    """When the reading began."""
    off: str | None = None
    """The decision that switched it off."""
    holder: str | None = None
    """The holder of the lease of its checkpoint or of its target."""
    ends: RunEnds | None = None
    """How its last runs ended; None if no run is known."""
    upstream: tuple[FlowStatus, ...] = ()
    """The flows that write its sources, those that were read too."""
    alerts: tuple[str, ...] = ()
    """The rules of its open alerts (`tidegate.status.evaluation.add_alerts`)."""
    last_committed: int | None = None
    last_planned: int | None = None
    planned_ms: int | None = None
    """When the last committed batch was planned, in milliseconds since 1970."""
    lag: Lag | None = None
    quarantine: EntryCounts | None = None
    """Counts of the flow's quarantine."""
    warnings: tuple[str, ...] = ()
    """Messages about thresholds that the flow's quarantine exceeds."""
    operator_state: StateFigures | None = None
    """The state of a stateful flow after its last batch."""
    earlier_state: StateFigures | None = None
    """After the batch before it, of the same checkpoint."""
    error: TidegateError | None = None
    late: bool = False
    """Whether the error is only that a local source was not read in time."""

    @property
    def label(self) -> str:
        """``<pipeline>/<flow>``, or only the pipeline if its declaration does not load."""
        return f"{self.pipeline}/{self.flow}" if self.flow else self.pipeline

    @property
    def status(self) -> Status:
        """What the facts mean (`tidegate.states`)."""
        return status_of(self._facts(), self.alerts)

    @property
    def state(self) -> str:
        """The name of its state, a key of `tidegate.states.STATES`."""
        return self.status.name

    def _facts(self) -> Facts:
        facts = self.lag.facts(self.pipeline) if self.lag is not None else Facts(pipeline=self.pipeline, flow=self.flow)
        upstream = [(each.pipeline, each.status) for each in self.upstream]
        # One that blocks decides; the first if none does.
        above = next((each for each in upstream if each[1].state.blocks), upstream[0] if upstream else None)
        return dataclasses.replace(
            facts,
            read_at=self.read_at,
            error=self.problem or ("it could not be read" if self.lag is None else None),
            unreachable=isinstance(self.error, SourceUnavailableError),
            in_doubt=isinstance(self.error, TableInDoubtError),
            late=self.late,
            off=self.off or facts.off,
            holder=self.holder,
            ends=self.ends,
            upstream=above[1] if above is not None else None,
            same_pipeline=above is not None and above[0] == self.pipeline,
            begun=self.last_planned is not None,
            takes_batches=self.takes_batches,
        )

    @property
    def problem(self) -> str | None:
        """The error in one line."""
        return None if self.error is None else " ".join(self.error.message.split())

    def to_json(self) -> dict[str, Any]:
        """A JSON-serializable dict."""
        from tidegate.report import describe_error

        status = self.status
        return {
            "pipeline": self.pipeline,
            "flow": self.flow or None,
            "target": self.target or None,
            "state": status.name,
            "sentence": status.sentence,
            "needs_person": status.needs_person,
            "next_step": status.next_step or None,
            "read_at": self.read_at.isoformat() if self.read_at is not None else None,
            "failed_runs": self.ends.failed_runs if self.ends is not None else 0,
            "alerts": list(self.alerts),
            "checkpoint_version": self.version,
            "refresh": self.refresh,
            "lease": self.holder,
            "last_planned_batch": self.last_planned,
            "last_committed_batch": self.last_committed,
            "last_committed_planned_at_ms": self.planned_ms,
            "lag": self.lag.to_json() if self.lag is not None else None,
            "completeness": self.lag.completeness.to_json() if self.lag and self.lag.completeness else None,
            "quarantine": self._quarantine(),
            "operator_state": self.operator_state.to_json(pendulum.now("UTC"))
            if self.operator_state is not None
            else None,
            "error": describe_error(self.error) if self.error is not None else None,
        }

    def _quarantine(self) -> dict[str, Any] | None:
        if self.quarantine is None:
            return None
        return {
            "open": self.quarantine.open,
            "states": dict(self.quarantine.states),
            "oldest_open_at_ms": self.quarantine.oldest_ms,
            "warnings": list(self.warnings),
        }


@dataclass
class _Reading:
    status: FlowStatus
    read: Callable[[FlowStatus], None]
    local: bool = True
    """Whether its source is in the lake or the landing zone, not a broker that may be away."""
    thread: threading.Thread | None = field(default=None)


def gather(
    environment: Environment,
    pipelines: Sequence[tuple[str, ResolvedPipeline | TidegateError]],
    patience: float,
    now: datetime | None = None,
) -> list[FlowStatus]:
    """The statuses of the flows of some pipelines, in graph order.

    An error only affects its own flow: an unavailable broker does not hide the other flows.

    Args:
        pipelines: Pipelines by name, or the error why one does not load. A flow waits for a flow above it only if the
            pipeline of that flow is among them.
        patience: Seconds to wait for all sources together; a source that takes longer counts as unavailable.
        now: The time of the reading, by default the present.
    """
    from tidegate.layout import Layout
    from tidegate.status import upstream

    now, environment = now or pendulum.now("UTC"), environment.reading()
    layout = Layout.of(environment)
    if layout.marker.exists():
        layout.open()
    readings = []
    for name, pipeline in pipelines:
        if isinstance(pipeline, TidegateError):
            readings.append(_Reading(FlowStatus(pipeline=name, error=pipeline, read_at=now), lambda _: None))
            continue
        readings += [_reading(environment, layout, flow, now) for flow in pipeline.flows]
    statuses = _read_all(readings, patience)
    resolved = [pipeline for _, pipeline in pipelines if not isinstance(pipeline, TidegateError)]
    for each in resolved:
        _add_ends(layout, each, [status for status in statuses if status.pipeline == each.pipeline.name], now)
    upstream.connect(resolved, statuses)
    return statuses


def _add_ends(layout: Layout, resolved: ResolvedPipeline, statuses: Sequence[FlowStatus], now: datetime) -> None:
    """Add how the last runs of a pipeline's flows ended; a failed increment counts as long as the pipeline has work."""
    from tidegate.alerting.facts import RunEnds
    from tidegate.status import run_ends

    running = any(
        status.holder or (status.lag is None and _holder(layout, status.pipeline, status.flow, status.target))
        for status in statuses
    )
    try:
        ends = run_ends.read(layout, resolved.pipeline, now, running=running)
    except (FileNotFoundError, ValueError):
        # Reports may be deleted meanwhile, or have been edited; then it is unknown how the runs ended.
        return
    except OSError as error:
        for status in statuses:
            status.error = status.error or classify(error, "the reports of its runs")
        return
    work = any(status.lag is None or status.lag.has_work for status in statuses)
    for status in statuses:
        own = ends.get(status.flow)
        if own is not None and own.of_increment and not work:
            # There is nothing left of what failed, and no run would start, whose success could end the failure.
            own = RunEnds(caught_up_at=own.caught_up_at)
        status.ends = own


def _holder(layout: Layout, pipeline: str, flow: str, target: str) -> str | None:
    from tidegate.checkpoints import lease

    return lease.holder(layout, lease.checkpoint_resource(pipeline, flow)) or lease.holder(
        layout, lease.table_resource(target)
    )


def exit_code(statuses: Sequence[FlowStatus]) -> int:
    """0, or the exit code of the first error; permanent errors come before transient ones."""
    errors = [status.error for status in statuses if status.error is not None]
    return min(errors, key=lambda error: error.transient).exit_code if errors else 0


def _reading(environment: Environment, layout: Layout, resolved: ResolvedFlow, now: datetime) -> _Reading:
    pipeline, flow = resolved.pipeline, resolved.flow
    status = FlowStatus(
        pipeline=pipeline.name,
        flow=flow.name,
        target=flow.target.name,
        takes_batches=flow.kind.takes_batches,
        version=flow.checkpoint_version,
        read_at=now,
    )

    def read(status: FlowStatus) -> None:
        from tidegate.checkpoints import checkpoint, overrides, progress
        from tidegate.ops import metrics
        from tidegate.quarantine import lifecycle
        from tidegate.status.lag import measure

        status.holder = _holder(layout, pipeline.name, flow.name, flow.target.name)
        off = overrides.switched_off(resolved.place(layout))
        status.off = off.summary() if off is not None else None
        place = checkpoint.current(layout, pipeline, flow)
        status.refresh = place.refresh
        status.quarantine = lifecycle.entry_counts(place.quarantine)
        status.warnings = lifecycle.warnings(pipeline.thresholds_of(flow), status.quarantine, pendulum.now("UTC"))
        if flow.kind.stateful:
            figures = metrics.state_figures(place.of_pipeline.ops("progress"), flow.name, limit=2)
            status.operator_state = next(iter(figures), None)
            status.earlier_state = next((each for each in figures[1:] if each.app_id == figures[0].app_id), None)
        state = progress.read(place.checkpoint)
        status.last_planned, status.last_committed = state.last_planned, state.last_committed
        if state.last_committed is not None:
            status.planned_ms = progress.planned_batch(place.checkpoint, state.last_committed).timestamp_ms
        checkpoint.check_compatible(layout, resolved)
        status.lag = measure(environment, resolved)

    return _Reading(status, read, local=source.load(flow).is_local)


def _read_all(readings: Sequence[_Reading], patience: float) -> list[FlowStatus]:
    deadline = time.monotonic() + patience
    for reading in readings:
        reading.thread = threading.Thread(target=_read_one, args=(reading,), name="tidegate-flow-status", daemon=True)
        reading.thread.start()
    statuses = []
    for reading in readings:
        assert reading.thread is not None
        reading.thread.join(max(deadline - time.monotonic(), 0))
        statuses.append(_late(reading, patience) if reading.thread.is_alive() else reading.status)
    return statuses


def _read_one(reading: _Reading) -> None:
    try:
        reading.read(reading.status)
    except Exception as error:
        reading.status.error = classify(error)


def _late(reading: _Reading, patience: float) -> FlowStatus:
    error = SourceUnavailableError(
        f"its source did not answer within {patience:g} s",
        OutsideAct("try again, or with a longer --timeout"),
    )
    fields = {name: value for name, value in vars(reading.status).items() if name not in ("lag", "error", "late")}
    return FlowStatus(**fields, error=error, late=reading.local)
