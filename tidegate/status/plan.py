"""Whether a run of some flows has work, from their readings. Starts no JVM and takes no lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate import states
from tidegate.checkpoints import checkpoint
from tidegate.errors import TidegateError, classify
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import contents, plans
from tidegate.status import source
from tidegate.status.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedFlow, ResolvedPipeline
    from tidegate.spec import Flow

SMALL_BYTES = 64 * 1024 * 1024
"""A run with less to read than this is faster with C1-only compilation (docs/architecture/spark.md, "Start-up")."""
SMALL_FIRST_BYTES = 16 * 1024 * 1024
"""The same limit if a checkpoint was never used."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Whether a run of some flows has work."""

    work: bool
    reasons: tuple[str, ...]
    """One per flow with work or an error; one per flow if none has work. As in ``silver: 2 new versions of bronze.flights``."""
    readings: tuple[Reading, ...]
    """In graph order. A flow downstream of a flow with work has work."""
    small: bool
    """So little is pending that a short start-up matters more than compiled code."""
    size: int | None
    """Bytes that the flows are to read, as they are stored; None if unknown."""

    @property
    def reason(self) -> str:
        """All reasons in one line."""
        return "; ".join(self.reasons)

    @property
    def errors(self) -> tuple[TidegateError, ...]:
        """Errors of the flows that would fail, permanent ones before transient ones."""
        errors = [each.error for each in self.readings if each.error is not None and each.failed]
        return tuple(sorted(errors, key=lambda error: error.transient))


def check_and_decide(environment: Environment, resolved: ResolvedPipeline, flows: tuple[Flow, ...]) -> Plan:
    """Check the lake and the declarations against their checkpoints, then `decide`.

    That of a flow which a list of tables has made is checked with its reading, and stops this flow alone.

    Raises:
        TidegateError: An error that would stop the whole run before its first batch.
    """
    environment = contents.known(environment.writing(flow.target.name for flow in flows), resolved.pipeline.name)
    layout = Layout.of(environment)
    layout.check()
    for flow in resolved.pipeline.declared_alone(flows):
        checkpoint.check_compatible(layout, resolved.flow(flow.name))
    return decide(environment, resolved, flows)


def record(environment: Environment, pipeline: str, decided: Plan) -> None:
    """Record a plan before a run: its lags for alert rules, and what it has read for the next plan.

    Args:
        environment: That of the reading which decided.
    """
    contents.keep(environment, pipeline)
    plans.record(
        PipelinePlace(Layout.of(environment), pipeline), {each.flow: each.planned_lag for each in decided.readings}
    )


def decide(environment: Environment, resolved: ResolvedPipeline, flows: tuple[Flow, ...]) -> Plan:
    """Decide whether a run of these flows has work.

    A flow downstream of a flow with work has work too. A flow downstream of a refused or failing flow has none, because
    it is blocked. An error that `Reading.measure` raises only affects its own flow.
    """
    readings: dict[str, Reading] = {}
    environment, blocked = read_once.once(environment), dict[str, str]()
    for each in resolved.flows:
        flow = each.flow
        if flow not in flows:
            continue
        reading = _measured(environment, each)
        upstream = [above.name for above in resolved.pipeline.upstream_of(flow)]
        if reading.failed or (reading.error is None and reading.wait is not None):
            # A run that holds the lease does not get past it either.
            blocked[flow.name] = states.waits_for(flow.name, states.status_of(reading.given(holder=None)).name)
        elif stopped := [above for above in upstream if above in blocked]:
            blocked[flow.name] = blocked[stopped[0]]
            reading = reading.given(has_work=False, reason=blocked[flow.name])
        elif not (reading.has_work or reading.switched_off) and (written := _written_above(upstream, readings)):
            reading = reading.given(has_work=True, reason=f"reads {written}", reads=written)
        readings[flow.name] = reading
    planned = tuple(readings.values())
    size = _size(planned)
    work = any(each.has_work for each in planned)
    explained = [each for each in planned if each.has_work or not work or each.switched_off or each.flow in blocked]
    return Plan(
        work=work,
        reasons=tuple(f"{each.flow}: {each.reason}" for each in explained),
        readings=planned,
        small=_is_small(planned, size),
        size=size,
    )


def _written_above(upstream: Sequence[str], readings: Mapping[str, Reading]) -> str:
    """What the flows above a flow will write in the same run; empty if none has work."""
    writing = [above for above in upstream if above in readings and readings[above].has_work]
    flows = f"flow {writing[0]} writes" if len(writing) == 1 else f"flows {' and '.join(writing)} write"
    return f"what {flows}" if writing else ""


def _measured(environment: Environment, resolved: ResolvedFlow) -> Reading:
    """A reading of the flow that is measured, or ended by an error, which is then the reason why it has no work."""
    reading = Reading.of(environment, resolved)
    try:
        if not resolved.pipeline.declared_alone((resolved.flow,)):
            checkpoint.check_compatible(reading.layout, resolved)
        return reading.ask(Reading.off).measure()
    except Exception as raised:
        ended = reading.ended(classify(raised))
        return ended.given(has_work=False, reason=ended.switched_off or ended.problem)


def _size(readings: Sequence[Reading]) -> int | None:
    """The bytes that are pending, as they are stored; None where they are unknown: a refresh reads whole tables."""
    sizes = [None if each.refresh_pending else lag.size for each in readings if (lag := each.lag) is not None]
    return source.total_or_none(sizes)


def _is_small(readings: Sequence[Reading], size: int | None) -> bool:
    begins = any(each.committed is None for each in readings if each.lag is not None)
    return size is not None and size < (SMALL_FIRST_BYTES if begins else SMALL_BYTES)
