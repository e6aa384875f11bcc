"""Observes every flow for the alert rules, and evaluates the rules. Starts no JVM."""

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
from tidegate.status import flow_status, freshness

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.resolution import ResolvedPipeline
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.flow_status import FlowStatus
    from tidegate.status.lag import Lag

PATIENCE = 30.0
"""Seconds that an evaluation waits for all sources together."""
_LOOKBACK = timedelta(days=7)
"""Runs of this period are used for rates and quarantine shares; at least four intervals of the schedule."""
_TICKS = 8
"""Number of cron ticks from which the longest interval is taken: with weekdays only, for example, it is three days."""

_RUNS = """
SELECT run_key, min(recorded_at) AS first_at, sum(read) AS read, sum(quarantined) AS quarantined,
    sum(files_opened) AS files, sum(files_quarantined) AS files_quarantined, sum(seconds) AS seconds,
    first_value(seconds ORDER BY recorded_at) AS first_seconds
FROM delta_table WHERE flow = '{flow}' AND mode = 'incremental' AND {batches} AND recorded_at > TIMESTAMP '{since}'
GROUP BY run_key
"""
_PROGRESS = """
SELECT run_key, batch_id, started_at, trigger_ms
FROM delta_table WHERE flow = '{flow}' AND mode = 'incremental' AND recorded_at > TIMESTAMP '{since}'
ORDER BY started_at
"""


@dataclass(frozen=True, kw_only=True)
class PipelineAlerts:
    """One pipeline and the result of the alert rules for each of its flows."""

    pipeline: str
    findings: tuple[Findings, ...]
    lags: tuple[Lag, ...] = ()
    """Of the flows whose lag could be measured."""
    observations: tuple[Observation, ...] = ()
    """Of the flows whose recorded runs could be read."""
    error: TidegateError | None = None
    """Why its declaration does not load; then its flows are not observed."""

    def findings_including(self, flows: Sequence[str]) -> tuple[Findings, ...]:
        """The findings; if the declaration does not load, also undecided findings for the given flows."""
        if self.error is None:
            return self.findings
        return (
            *self.findings,
            *(Findings(flow=flow, alerts=(), undecided=frozenset(RULES)) for flow in flows if flow),
        )


def evaluate_pipelines(
    environment: Environment,
    pipelines: Sequence[tuple[str, ResolvedPipeline | TidegateError]],
    now: datetime,
    patience: float = PATIENCE,
) -> list[PipelineAlerts]:
    """Evaluate every alert rule for every flow.

    Args:
        pipelines: Pipelines by name, or the error why one does not load.
        patience: Seconds to wait for all sources together; a source that takes longer counts as unavailable.
    """
    statuses = flow_status.gather(environment, pipelines, patience)
    layout = Layout.of(environment)
    results = []
    for name, resolved in pipelines:
        by_flow = {status.flow: status for status in statuses if status.pipeline == name}
        if isinstance(resolved, TidegateError):
            alert = Alert(flow="", rule="unreadable", message=" ".join(resolved.message.split()))
            results.append(
                PipelineAlerts(
                    pipeline=name,
                    findings=(Findings(flow="", alerts=(alert,), undecided=frozenset(RULES) - {"unreadable"}),),
                    error=resolved,
                )
            )
            continue
        pipeline = resolved.pipeline
        evaluated = [_evaluate_flow(layout, pipeline, flow, by_flow[flow.name], now) for flow in pipeline.flows]
        results.append(
            PipelineAlerts(
                pipeline=name,
                findings=tuple(findings for findings, _ in evaluated),
                lags=tuple(status.lag for status in by_flow.values() if status.lag is not None),
                observations=tuple(observation for _, observation in evaluated if observation is not None),
            )
        )
    return results


def _evaluate_flow(
    layout: Layout, pipeline: Pipeline, flow: Flow, status: FlowStatus, now: datetime
) -> tuple[Findings, Observation | None]:
    try:
        observation = observe(layout, pipeline, flow, status, now)
        return evaluate(pipeline.thresholds_of(flow), observation, now), observation
    except Exception as error:
        # One flow's broken table must not suppress the alerts of others. The error's text may quote data, so it is left out.
        message = f"its recorded runs cannot be read ({type(error).__name__})"
        findings = Findings(
            flow=flow.name,
            alerts=(Alert(flow=flow.name, rule="unreadable", message=message),),
            undecided=frozenset(RULES) - {"unreadable"},
        )
        return findings, None


def observe(layout: Layout, pipeline: Pipeline, flow: Flow, status: FlowStatus, now: datetime) -> Observation:
    """Collect what the alert rules need to know about one flow."""
    interval = interval_of(pipeline, now)
    since = now - max(_LOOKBACK, timedelta(seconds=4 * (interval or 0)))
    quarantine, lag = status.quarantine, status.lag
    return Observation(
        flow=flow.name,
        external_source=pipeline.upstream_of(flow) is None,
        interval_seconds=interval,
        plans=plans.read(layout, pipeline.name, flow.name),
        last_activity=plans.last_activity(layout, pipeline.name),
        runs=_runs(layout, pipeline, flow, since),
        lag_rows=lag.rows if lag is not None else None,
        lag_exact=lag.rows_exact if lag is not None else True,
        error=status.summary() if status.error is not None else None,
        refused=lag.reason if lag is not None and lag.refused else None,
        quarantine_open=quarantine.open if quarantine is not None else None,
        quarantine_oldest=quarantine.oldest if quarantine is not None else None,
        newest_event=_newest_event(layout, pipeline, flow, now),
        first_offsets=lag.first_offsets if lag is not None else {},
        unread=lag.unread if lag is not None else {},
        switched_off=lag is not None and lag.switched_off,
    )


def interval_of(pipeline: Pipeline, now: datetime) -> float | None:
    """The longest interval between the next runs of the schedule, in seconds; None without a cron schedule."""
    if not isinstance(pipeline.schedule, str):
        return None
    from croniter import croniter

    ticks = croniter(pipeline.schedule, pendulum.instance(now).in_timezone(pipeline.timezone))
    instants: list[datetime] = [ticks.get_next(datetime) for _ in range(_TICKS)]
    return max((later - earlier).total_seconds() for earlier, later in pairwise(instants))


def _runs(layout: Layout, pipeline: Pipeline, flow: Flow, since: datetime) -> tuple[FlowRun, ...]:
    """Incremental runs with a batch of the flow, oldest first: counts from the ledger, times from Spark's query progress."""
    parameters = {
        "flow": flow.name,
        "batches": identity.IS_BATCH,
        "since": since.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"),
    }
    recorded = store.select(layout.ops(pipeline.name, "ledger"), _RUNS.format(**parameters))
    progress: dict[str, list[dict[str, Any]]] = {}
    for line in store.select(layout.ops(pipeline.name, "progress"), _PROGRESS.format(**parameters)):
        progress.setdefault(line["run_key"], []).append(line)
    runs = [_run(line, progress.get(line["run_key"], [])) for line in recorded]
    return tuple(sorted(runs, key=lambda run: run.started_at))


def _run(line: Mapping[str, Any], progress: Sequence[Mapping[str, Any]]) -> FlowRun:
    files = (line["files"] or 0) + (line["files_quarantined"] or 0)
    shares = [
        (line[column] or 0) / total
        for column, total in (("quarantined", line["read"]), ("files_quarantined", files))
        if total
    ]
    seconds = sum(each["trigger_ms"] for each in progress) / 1000 if progress else float(line["seconds"] or 0)
    return FlowRun(
        started_at=progress[0]["started_at"]
        if progress
        else line["first_at"] - timedelta(seconds=line["first_seconds"] or 0),
        rows=line["read"] or 0,
        seconds=seconds,
        quarantined_share=max(shares, default=0.0),
    )


def _newest_event(layout: Layout, pipeline: Pipeline, flow: Flow, now: datetime) -> datetime | None:
    """The newest event time in the flow's table, if the freshness rule is enabled."""
    column = flow.target.event_time
    if column is None or pipeline.thresholds_of(flow).freshness_hours is None:
        return None
    return freshness.newest(layout.table(flow.target.name), column, now)


@dataclass(frozen=True, kw_only=True)
class OpenAlert:
    """An alert that is open now, as the command line shows it."""

    pipeline: str
    flow: str
    """Empty if the pipeline's declaration does not load."""
    rule: str
    since: datetime
    message: str
    """What is observed now; if it cannot be evaluated now, the message from when it opened."""
    recorded: bool
    """Whether the alert history has it."""
    certain: bool
    """False if its rule cannot be evaluated now, so it is unknown whether the alert ended."""


def open_alerts(layout: Layout, evaluation: PipelineAlerts, now: datetime) -> list[OpenAlert]:
    """The alerts that are open after an evaluation, from the history and the evaluation, in the order of the flows.

    Args:
        evaluation: The result of `evaluate_pipelines` for one pipeline.
    """
    history = alert_history.episodes(layout, evaluation.pipeline)
    open_episodes = {(each.flow, each.rule): each for each in history if each.resolved_at is None}
    alerts = []
    for finding in evaluation.findings_including([flow for flow, _ in open_episodes]):
        messages = {alert.rule: alert.message for alert in finding.alerts}
        for rule in RULES:
            episode = open_episodes.get((finding.flow, rule))
            still_open = rule in finding.undecided and episode is not None
            if rule not in messages and not still_open:
                continue
            alerts.append(
                OpenAlert(
                    pipeline=evaluation.pipeline,
                    flow=finding.flow,
                    rule=rule,
                    since=episode.opened_at if episode is not None else now,
                    message=messages.get(rule, episode.message if episode is not None else ""),
                    recorded=episode is not None,
                    certain=rule in messages,
                )
            )
    return alerts
