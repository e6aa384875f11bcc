"""Where every flow stands: its checkpoint, its lease and its lag, read side by side, within a deadline, with no JVM."""

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
    from tidegate.quarantine.lifecycle import Held
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.lag import Lag

PATIENCE = 1.5
"""Seconds that a command or a page waits for the sources, all together, unless it is told otherwise."""


@dataclass(kw_only=True)
class Standing:
    """Where one flow stands. What could not be read is None, and `error` says why."""

    pipeline: str
    flow: str = ""
    """Empty where the declaration itself does not load."""
    target: str = ""
    version: int | None = None
    refresh: int | None = None
    holder: str | None = None
    """Who holds the lease of its checkpoint or its target."""
    last_committed: int | None = None
    last_planned: int | None = None
    planned_ms: int | None = None
    """When the last committed batch was planned, in milliseconds since 1970."""
    lag: Lag | None = None
    quarantine: Held | None = None
    """What the flow set aside."""
    warnings: tuple[str, ...] = ()
    """Which of the flow's thresholds its quarantine passed."""
    error: TidegateError | None = None

    @property
    def place(self) -> str:
        """``<pipeline>/<flow>``, or the pipeline alone where it does not load."""
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

    def told(self) -> str:
        """Why there is work or none, or what went wrong, in one line."""
        if self.error is not None:
            return " ".join(self.error.message.split())
        return self.lag.reason if self.lag is not None else ""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
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
    standing: Standing
    read: Callable[[Standing], None]
    thread: threading.Thread | None = field(default=None)


def gather(
    environment: Environment, found: Sequence[tuple[str, Pipeline | TidegateError]], patience: float
) -> list[Standing]:
    """Where the flows of some pipelines stand, in graph order.

    An error belongs to its own flow: a broker that is away hides nobody else.

    Args:
        environment: Where the lake and the sources are.
        found: Pipelines by name, or why one does not load.
        patience: Seconds to wait for all of them together; a source that takes longer counts as away.
    """
    from tidegate.layout import Layout

    layout = Layout.of(environment)
    if (layout.lake / "lake.json").exists():
        layout.open()
    readings = []
    for name, pipeline in found:
        if isinstance(pipeline, TidegateError):
            readings.append(_Reading(Standing(pipeline=name, error=pipeline), lambda _: None))
            continue
        readings += [_reading(environment, layout, pipeline, flow) for flow in pipeline.flows]
    return _read_all(readings, patience)


def exit_code(standings: Sequence[Standing]) -> int:
    """0, or the exit code of what went wrong; an error that needs a person comes before one that heals by itself."""
    errors = [standing.error for standing in standings if standing.error is not None]
    return min(errors, key=lambda error: error.transient).exit_code if errors else 0


def _reading(environment: Environment, layout: Layout, pipeline: Pipeline, flow: Flow) -> _Reading:
    standing = Standing(
        pipeline=pipeline.name, flow=flow.name, target=flow.target.name, version=flow.checkpoint_version
    )

    def read(told: Standing) -> None:
        from tidegate.checkpoints import checkpoint, lease, progress
        from tidegate.quarantine import lifecycle
        from tidegate.status.lag import measure

        ref = checkpoint.current(layout, pipeline, flow)
        told.refresh = ref.refresh
        told.holder = lease.holder(layout, lease.checkpoint_resource(pipeline.name, flow.name)) or lease.holder(
            layout, lease.table_resource(flow.target.name)
        )
        told.quarantine = lifecycle.held(layout.quarantine(pipeline.name, flow.name))
        told.warnings = lifecycle.warnings(pipeline.thresholds_of(flow), told.quarantine, pendulum.now("UTC"))
        found = progress.read(ref.path(layout))
        told.last_planned, told.last_committed = found.last_planned, found.last_committed
        if found.last_committed is not None:
            told.planned_ms = progress.planned_batch(ref.path(layout), found.last_committed).timestamp_ms
        checkpoint.check_compatible(layout, pipeline, flow)
        told.lag = measure(environment, pipeline, flow)

    return _Reading(standing, read)


def _read_all(readings: Sequence[_Reading], patience: float) -> list[Standing]:
    deadline = time.monotonic() + patience
    for reading in readings:
        reading.thread = threading.Thread(target=_read_one, args=(reading,), name="tidegate-standing", daemon=True)
        reading.thread.start()
    standings = []
    for reading in readings:
        assert reading.thread is not None
        reading.thread.join(max(deadline - time.monotonic(), 0))
        standings.append(_late(reading.standing, patience) if reading.thread.is_alive() else reading.standing)
    return standings


def _read_one(reading: _Reading) -> None:
    try:
        reading.read(reading.standing)
    except TidegateError as error:
        reading.standing.error = error
    except Exception as error:
        reading.standing.error = UnexpectedError(f"{type(error).__name__}: {error}")


def _late(standing: Standing, patience: float) -> Standing:
    error = SourceUnavailableError(
        f"its source did not answer within {patience:g} s; try again, or with a longer --timeout"
    )
    known = {name: value for name, value in vars(standing).items() if name not in ("lag", "error")}
    return Standing(**known, error=error)
