"""What is known of every flow at one instant, gathered for the rules of alerts; and what the rules say. Starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pendulum

from tidegate import identity
from tidegate.alerting.alerts import RULES, Alert, Findings, FlowRun, Observation, evaluate
from tidegate.errors import TidegateError
from tidegate.layout import Layout
from tidegate.ops import alert_history, plans, store
from tidegate.status import freshness, standing

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.lag import Lag
    from tidegate.status.standing import Standing

PATIENCE = 30.0
"""Seconds that an evaluation waits for all sources together."""
_LOOK_BACK = timedelta(days=7)
"""How old a run may be that tells of speed and of quarantine; at least four intervals of the schedule."""
_TICKS = 8
"""So many ticks of a cron expression show its longest interval: weekdays only, for example, have one of three days."""

_RUNS = """
SELECT run_key, min(recorded_at) AS first_at, sum(read) AS read, sum(quarantined) AS quarantined,
    sum(files_opened) AS files, sum(files_quarantined) AS files_quarantined, sum(seconds) AS seconds,
    first_value(seconds ORDER BY recorded_at) AS first_seconds
FROM held WHERE flow = '{flow}' AND mode = 'incremental' AND {batches} AND recorded_at > TIMESTAMP '{since}'
GROUP BY run_key
"""
_PROGRESS = """
SELECT run_key, batch_id, started_at, trigger_ms, state_rows, late_rows
FROM held WHERE flow = '{flow}' AND mode = 'incremental' AND recorded_at > TIMESTAMP '{since}'
ORDER BY started_at
"""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One pipeline, and what the rules say of each of its flows."""

    pipeline: str
    findings: tuple[Findings, ...]
    lags: tuple[Lag, ...] = ()
    """Of the flows whose source could be asked."""
    observations: tuple[Observation, ...] = ()
    """Of the flows of which what is recorded could be read."""
    error: TidegateError | None = None
    """Why its declaration does not load; then nothing is known of its flows."""

    def findings_beside(self, flows: Sequence[str]) -> tuple[Findings, ...]:
        """The findings, and for a declaration that does not load: that nobody can tell of these flows."""
        if self.error is None:
            return self.findings
        return (
            *self.findings,
            *(Findings(flow=flow, alerts=(), undecided=frozenset(RULES)) for flow in flows if flow),
        )


def judge(
    environment: Environment,
    found: Sequence[tuple[str, Pipeline | TidegateError]],
    now: datetime,
    patience: float = PATIENCE,
) -> list[Judged]:
    """Ask every rule of every flow.

    Args:
        environment: Where the lake and the sources are.
        found: Pipelines by name, or why one does not load.
        now: The instant.
        patience: Seconds to wait for all sources together; one that takes longer counts as away.
    """
    standings = standing.gather(environment, found, patience)
    layout = Layout.of(environment)
    judged = []
    for name, pipeline in found:
        own = {each.flow: each for each in standings if each.pipeline == name}
        if isinstance(pipeline, TidegateError):
            alert = Alert(flow="", rule="unreadable", message=" ".join(pipeline.message.split()))
            judged.append(
                Judged(
                    pipeline=name,
                    findings=(Findings(flow="", alerts=(alert,), undecided=frozenset(RULES) - {"unreadable"}),),
                    error=pipeline,
                )
            )
            continue
        looks = [_look(layout, pipeline, flow, own[flow.name], now) for flow in pipeline.flows]
        judged.append(
            Judged(
                pipeline=name,
                findings=tuple(findings for findings, _ in looks),
                lags=tuple(each.lag for each in own.values() if each.lag is not None),
                observations=tuple(seen for _, seen in looks if seen is not None),
            )
        )
    return judged


def _look(
    layout: Layout, pipeline: Pipeline, flow: Flow, stands: Standing, now: datetime
) -> tuple[Findings, Observation | None]:
    try:
        seen = observe(layout, pipeline, flow, stands, now)
        return evaluate(pipeline.thresholds_of(flow), seen, now), seen
    except Exception as error:
        # One flow's broken table must not silence the others. The error's text may quote anything.
        message = f"what is recorded of it cannot be read ({type(error).__name__})"
        found = Findings(
            flow=flow.name,
            alerts=(Alert(flow=flow.name, rule="unreadable", message=message),),
            undecided=frozenset(RULES) - {"unreadable"},
        )
        return found, None


def observe(layout: Layout, pipeline: Pipeline, flow: Flow, stands: Standing, now: datetime) -> Observation:
    """What is known of one flow.

    Args:
        layout: The paths of the lake.
        pipeline: Declares it.
        flow: The flow.
        stands: Where it stands.
        now: The instant.
    """
    interval = interval_of(pipeline, now)
    since = now - max(_LOOK_BACK, timedelta(seconds=4 * (interval or 0)))
    held, lag = stands.quarantine, stands.lag
    return Observation(
        flow=flow.name,
        from_outside=pipeline.upstream_of(flow) is None,
        interval_seconds=interval,
        plans=plans.read(layout, pipeline.name, flow.name),
        last_sign=plans.last_sign(layout, pipeline.name),
        runs=_runs(layout, pipeline, flow, since),
        lag_rows=lag.rows if lag is not None else None,
        lag_exact=lag.rows_exact if lag is not None else True,
        error=stands.told() if stands.error is not None else None,
        refused=lag.reason if lag is not None and lag.refused else None,
        quarantine_open=held.open if held is not None else None,
        quarantine_oldest=held.oldest if held is not None else None,
        newest_event=_newest_event(layout, pipeline, flow, now),
        begins=lag.begins if lag is not None else {},
        unread=lag.unread if lag is not None else {},
        switched_off=lag is not None and lag.switched_off,
    )


def interval_of(pipeline: Pipeline, now: datetime) -> float | None:
    """The longest time between two runs of the schedule, in seconds, from now on; None without a cron schedule."""
    if not isinstance(pipeline.schedule, str):
        return None
    from croniter import croniter

    ticks = croniter(pipeline.schedule, pendulum.instance(now).in_timezone(pipeline.timezone))
    instants: list[datetime] = [ticks.get_next(datetime) for _ in range(_TICKS)]
    return max((later - earlier).total_seconds() for earlier, later in pairwise(instants))


def _runs(layout: Layout, pipeline: Pipeline, flow: Flow, since: datetime) -> tuple[FlowRun, ...]:
    """Incremental runs that recorded a batch of the flow, oldest first; the ledger counts, Spark's progress times."""
    asked = {
        "flow": flow.name,
        "batches": identity.IS_BATCH,
        "since": since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"),
    }
    recorded = store.select(layout.ops(pipeline.name, "ledger"), _RUNS.format(**asked))
    told: dict[str, list[dict[str, Any]]] = {}
    for line in store.select(layout.ops(pipeline.name, "progress"), _PROGRESS.format(**asked)):
        told.setdefault(line["run_key"], []).append(line)
    runs = [_run(line, told.get(line["run_key"], [])) for line in recorded]
    return tuple(sorted(runs, key=lambda run: run.started_at))


def _run(line: Mapping[str, Any], progress: Sequence[Mapping[str, Any]]) -> FlowRun:
    files = (line["files"] or 0) + (line["files_quarantined"] or 0)
    shares = [
        (line[aside] or 0) / of for aside, of in (("quarantined", line["read"]), ("files_quarantined", files)) if of
    ]
    seconds = sum(each["trigger_ms"] for each in progress) / 1000 if progress else float(line["seconds"] or 0)
    return FlowRun(
        started_at=progress[0]["started_at"]
        if progress
        else line["first_at"] - timedelta(seconds=line["first_seconds"] or 0),
        rows=line["read"] or 0,
        seconds=seconds,
        state_rows=progress[-1]["state_rows"] if progress else 0,
        late_rows=sum(each["late_rows"] for each in progress),
        set_aside=max(shares, default=0.0),
    )


def _newest_event(layout: Layout, pipeline: Pipeline, flow: Flow, now: datetime) -> datetime | None:
    """The newest event time in the flow's table, when a rule asks for it."""
    column = flow.target.event_time
    if column is None or pipeline.thresholds_of(flow).freshness_hours is None:
        return None
    return freshness.newest(layout.table(flow.target.name), column, now)


@dataclass(frozen=True, kw_only=True)
class Open:
    """An alert that is open now, for people who look."""

    pipeline: str
    flow: str
    """Empty where the declaration itself does not load."""
    rule: str
    since: datetime
    message: str
    """What is observed now; as it began where nobody can tell now."""
    recorded: bool
    """Whether the history has it."""
    certain: bool
    """False: its rule lacks what it asks for, so nobody can tell whether it ended."""


def open_alerts(layout: Layout, judged: Judged, now: datetime) -> list[Open]:
    """What is open after this look, by the history and by the look itself, in the order of the flows.

    Args:
        layout: The paths of the lake.
        judged: The look.
        now: When it was.
    """
    history = alert_history.episodes(layout, judged.pipeline)
    known = {(each.flow, each.rule): each for each in history if each.resolved_at is None}
    found = []
    for finding in judged.findings_beside([flow for flow, _ in known]):
        true_ones = {alert.rule: alert.message for alert in finding.alerts}
        for rule in RULES:
            episode = known.get((finding.flow, rule))
            stays = rule in finding.undecided and episode is not None
            if rule not in true_ones and not stays:
                continue
            found.append(
                Open(
                    pipeline=judged.pipeline,
                    flow=finding.flow,
                    rule=rule,
                    since=episode.opened_at if episode is not None else now,
                    message=true_ones.get(rule, episode.message if episode is not None else ""),
                    recorded=episode is not None,
                    certain=rule in true_ones,
                )
            )
    return found
