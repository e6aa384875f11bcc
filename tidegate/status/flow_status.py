"""The status of every flow: its checkpoint, lease and lag, read in parallel within a deadline. Starts no JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate.errors import SourceUnavailableError, TidegateError, UnexpectedError

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.layout import Layout
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
    version: int | None = None
    refresh: int | None = None
    holder: str | None = None
    """The holder of the lease of its checkpoint or of its target."""
    last_committed: int | None = None
    last_planned: int | None = None
    planned_ms: int | None = None
    """When the last committed batch was planned, in milliseconds since 1970."""
    lag: Lag | None = None
    quarantine: EntryCounts | None = None
    """Counts of the flow's quarantine."""
    warnings: tuple[str, ...] = ()
    """Messages about thresholds that the flow's quarantine exceeds."""
    error: TidegateError | None = None

    @property
    def label(self) -> str:
        """``<pipeline>/<flow>``, or only the pipeline if its declaration does not load."""
        return f"{self.pipeline}/{self.flow}" if self.flow else self.pipeline

    @property
    def state(self) -> str:
        """``error``, ``running``, ``off``, ``refused``, ``unfinished``, ``behind``, ``not begun`` or ``up to date``."""
        if self.error is not None or self.lag is None:
            return "error"
        if self.holder is not None:
            return "running"
        if self.lag.switched_off:
            return "off"
        if self.lag.refused:
            return "refused"
        if self.lag.pending_batch is not None:
            return "unfinished"
        if self.lag.has_work:
            return "behind"
        return "not begun" if self.last_planned is None else "up to date"

    def summary(self) -> str:
        """Why there is work or none, or the error, in one line."""
        if self.error is not None:
            return " ".join(self.error.message.split())
        return self.lag.reason if self.lag is not None else ""

    def to_json(self) -> dict[str, Any]:
        """A JSON-serializable dict."""
        from tidegate.report import describe_error

        return {
            "pipeline": self.pipeline,
            "flow": self.flow or None,
            "target": self.target or None,
            "state": self.state,
            "checkpoint_version": self.version,
            "refresh": self.refresh,
            "lease": self.holder,
            "last_planned_batch": self.last_planned,
            "last_committed_batch": self.last_committed,
            "last_committed_planned_at_ms": self.planned_ms,
            "lag": self.lag.to_json() if self.lag is not None else None,
            "quarantine": self._quarantine(),
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
    thread: threading.Thread | None = field(default=None)


def gather(
    environment: Environment, pipelines: Sequence[tuple[str, ResolvedPipeline | TidegateError]], patience: float
) -> list[FlowStatus]:
    """The statuses of the flows of some pipelines, in graph order.

    An error only affects its own flow: an unavailable broker does not hide the other flows.

    Args:
        pipelines: Pipelines by name, or the error why one does not load.
        patience: Seconds to wait for all sources together; a source that takes longer counts as unavailable.
    """
    from tidegate.layout import Layout

    layout = Layout.of(environment)
    if (layout.lake / "lake.json").exists():
        layout.open()
    readings = []
    for name, pipeline in pipelines:
        if isinstance(pipeline, TidegateError):
            readings.append(_Reading(FlowStatus(pipeline=name, error=pipeline), lambda _: None))
            continue
        readings += [_reading(environment, layout, flow) for flow in pipeline.flows]
    return _read_all(readings, patience)


def exit_code(statuses: Sequence[FlowStatus]) -> int:
    """0, or the exit code of the first error; permanent errors come before transient ones."""
    errors = [status.error for status in statuses if status.error is not None]
    return min(errors, key=lambda error: error.transient).exit_code if errors else 0


def _reading(environment: Environment, layout: Layout, resolved: ResolvedFlow) -> _Reading:
    pipeline, flow = resolved.pipeline, resolved.flow
    status = FlowStatus(
        pipeline=pipeline.name, flow=flow.name, target=flow.target.name, version=flow.checkpoint_version
    )

    def read(status: FlowStatus) -> None:
        from tidegate.checkpoints import checkpoint, lease, progress
        from tidegate.quarantine import lifecycle
        from tidegate.status.lag import measure

        ref = checkpoint.current(layout, pipeline, flow)
        status.refresh = ref.refresh
        status.holder = lease.holder(layout, lease.checkpoint_resource(pipeline.name, flow.name)) or lease.holder(
            layout, lease.table_resource(flow.target.name)
        )
        status.quarantine = lifecycle.entry_counts(layout.quarantine(pipeline.name, flow.name))
        status.warnings = lifecycle.warnings(pipeline.thresholds_of(flow), status.quarantine, pendulum.now("UTC"))
        state = progress.read(ref.path(layout))
        status.last_planned, status.last_committed = state.last_planned, state.last_committed
        if state.last_committed is not None:
            status.planned_ms = progress.planned_batch(ref.path(layout), state.last_committed).timestamp_ms
        checkpoint.check_compatible(layout, resolved)
        status.lag = measure(environment, resolved)

    return _Reading(status, read)


def _read_all(readings: Sequence[_Reading], patience: float) -> list[FlowStatus]:
    deadline = time.monotonic() + patience
    for reading in readings:
        reading.thread = threading.Thread(target=_read_one, args=(reading,), name="tidegate-flow-status", daemon=True)
        reading.thread.start()
    statuses = []
    for reading in readings:
        assert reading.thread is not None
        reading.thread.join(max(deadline - time.monotonic(), 0))
        statuses.append(_late(reading.status, patience) if reading.thread.is_alive() else reading.status)
    return statuses


def _read_one(reading: _Reading) -> None:
    try:
        reading.read(reading.status)
    except TidegateError as error:
        reading.status.error = error
    except Exception as error:
        reading.status.error = UnexpectedError(f"{type(error).__name__}: {error}")


def _late(status: FlowStatus, patience: float) -> FlowStatus:
    error = SourceUnavailableError(
        f"its source did not answer within {patience:g} s; try again, or with a longer --timeout"
    )
    fields = {name: value for name, value in vars(status).items() if name not in ("lag", "error")}
    return FlowStatus(**fields, error=error)
