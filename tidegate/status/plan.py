"""Whether a run of some flows has work, from their lags. Starts no JVM and takes no lock."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate import states
from tidegate.checkpoints import overrides
from tidegate.errors import TidegateError, classify
from tidegate.layout import Layout
from tidegate.states import status_of
from tidegate.status.lag import Lag, measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegate.environment import Environment
    from tidegate.resolution import ResolvedFlow, ResolvedPipeline
    from tidegate.spec import Flow

SMALL_BYTES = 64 * 1024 * 1024
"""A run with less to read than this is faster with C1-only compilation (docs/architecture.md, "Start-up")."""
SMALL_FIRST_BYTES = 16 * 1024 * 1024
"""The same limit if a checkpoint was never used."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Whether a run of some flows has work."""

    work: bool
    reasons: tuple[str, ...]
    """One per flow with work or an error; one per flow if none has work. As in ``silver: 2 new versions of bronze.flights``."""
    lags: tuple[Lag, ...]
    """In graph order. A flow downstream of a flow with work has work."""
    small: bool
    """So little is pending that a short start-up matters more than compiled code."""

    @property
    def reason(self) -> str:
        """All reasons in one line."""
        return "; ".join(self.reasons)

    @property
    def errors(self) -> tuple[TidegateError, ...]:
        """Errors of the flows that would fail, permanent ones before transient ones."""
        errors = [lag.error for lag in self.lags if lag.error is not None and lag.failed]
        return tuple(sorted(errors, key=lambda error: error.transient))


def decide(environment: Environment, resolved: ResolvedPipeline, flows: tuple[Flow, ...]) -> Plan:
    """Decide whether a run of these flows has work.

    A flow downstream of a flow with work has work too. A flow downstream of a refused or failing flow has none, because
    it is blocked. An error that `tidegate.status.lag.measure` raises only affects its own flow.
    """
    lags: dict[str, Lag] = {}
    environment, blocked = environment.reading(), dict[str, str]()
    pipeline = resolved.pipeline
    for each in resolved.flows:
        flow = each.flow
        if flow not in flows:
            continue
        lag = _measured(environment, each)
        upstream = [above.name for above in pipeline.upstream_of(flow)]
        if lag.refused or lag.failed:
            blocked[flow.name] = states.waits_for(flow.name, status_of(lag.facts(pipeline.name)).name)
        elif stopped := [above for above in upstream if above in blocked]:
            blocked[flow.name] = blocked[stopped[0]]
            lag = dataclasses.replace(lag, has_work=False, reason=blocked[flow.name])
        elif not (lag.has_work or lag.switched_off) and (written := _written_above(upstream, lags)):
            lag = dataclasses.replace(lag, has_work=True, reason=f"reads {written}", reads=written)
        lags[flow.name] = lag
    work = any(lag.has_work for lag in lags.values())
    explained = [lag for lag in lags.values() if lag.has_work or not work or lag.switched_off or lag.flow in blocked]
    return Plan(
        work=work,
        reasons=tuple(f"{lag.flow}: {lag.reason}" for lag in explained),
        lags=tuple(lags.values()),
        small=_is_small(tuple(lags.values())),
    )


def _written_above(upstream: Sequence[str], lags: Mapping[str, Lag]) -> str:
    """What the flows above a flow will write in the same run; empty if none has work."""
    writing = [above for above in upstream if above in lags and lags[above].has_work]
    flows = f"flow {writing[0]} writes" if len(writing) == 1 else f"flows {' and '.join(writing)} write"
    return f"what {flows}" if writing else ""


def _measured(environment: Environment, resolved: ResolvedFlow) -> Lag:
    """The flow's lag; an error of the measurement is stored in it."""
    flow, off = resolved.flow, None
    try:
        off = overrides.switched_off(resolved.place(Layout.of(environment)))
        return measure(environment, resolved)
    except Exception as raised:
        error = classify(raised)
        return Lag(
            flow=flow.name,
            kind=flow.source.identity()["kind"],
            rows=None,
            bytes=None,
            rows_exact=True,
            bytes_exact=True,
            behind=0,
            pending_batch=None,
            has_work=False,
            refused=False,
            switched_off=off is not None,
            reason=" ".join(error.message.split()) if off is None else off.summary(),
            position="",
            first=False,
            error=error,
        )


def _is_small(all_lags: tuple[Lag, ...]) -> bool:
    lags = [lag for lag in all_lags if lag.error is None]
    if any(lag.bytes is None or lag.refresh_pending for lag in lags):
        return False
    total = sum(lag.bytes or 0 for lag in lags)
    return total < (SMALL_FIRST_BYTES if any(lag.first for lag in lags) else SMALL_BYTES)
