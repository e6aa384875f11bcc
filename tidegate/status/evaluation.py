"""Evaluates the alert rules for every flow, and says which alerts are open. Starts no JVM."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.alerting import alerts
from tidegate.alerting.alerts import Findings
from tidegate.alerting.rules import RULES, Severity
from tidegate.errors import TableUnreadableError, TidegateError
from tidegate.lake.layout import Layout
from tidegate.lake.place import PipelinePlace
from tidegate.ops import alert_history
from tidegate.status import flow_status
from tidegate.status.reading import Reading

if TYPE_CHECKING:
    from tidegate.alerting.episodes import Episode
    from tidegate.environment import Environment
    from tidegate.project.resolution import ResolvedPipeline

PATIENCE = 30.0
"""Seconds that an evaluation waits for all sources together."""


@dataclass(frozen=True, kw_only=True)
class PipelineAlerts:
    """One pipeline and the result of the alert rules for each of its flows."""

    pipeline: str
    findings: tuple[Findings, ...]
    readings: tuple[Reading, ...] = ()
    """Of its flows."""
    error: TidegateError | None = None
    """Why its declaration does not load; then its flows are not observed."""

    def findings_including(self, flows: Sequence[str]) -> tuple[Findings, ...]:
        """The findings; if the declaration does not load as a whole, also undecided findings for those of the flows that it lacks."""
        known = {each.flow for each in self.findings}
        lacking = [flow for flow in flows if flow not in known] if "" in known else []
        return (*self.findings, *(Findings(flow=flow, alerts=(), undecided=frozenset(RULES)) for flow in lacking))


def evaluate_pipelines(
    environment: Environment,
    pipelines: Sequence[tuple[str, ResolvedPipeline | TidegateError]],
    now: datetime,
    patience: float = PATIENCE,
) -> list[PipelineAlerts]:
    """Evaluate every alert rule for every flow.

    Args:
        pipelines: Pipelines by name, or the error why one does not load.
        patience: As that of `flow_status.gather`.
    """
    readings = flow_status.gather(environment, pipelines, patience, now)
    results = []
    for name, resolved in pipelines:
        own = tuple(each for each in readings if each.pipeline == name)
        if isinstance(resolved, TidegateError):
            whole = (alerts.unloadable(name, resolved.message),)
            results.append(PipelineAlerts(pipeline=name, findings=whole, error=resolved))
        else:
            flows = tuple(each for each in own if each.flow)
            invalid = [each.problem or "" for each in own if not each.flow]
            findings = tuple(map(_evaluate, flows))
            if invalid:
                findings += (alerts.unloadable(name, "; ".join(invalid), below="all flows of these tables"),)
            results.append(PipelineAlerts(pipeline=name, findings=findings, readings=flows))
    return results


def _evaluate(reading: Reading) -> Findings:
    try:
        reading.ask(*_RECORDED)
        return alerts.evaluate(reading.resolved.pipeline.thresholds_of(reading.resolved.flow), reading)
    except Exception as error:
        # One flow's broken table must not suppress the alerts of others. The text of another error may quote data.
        why = error.problem if isinstance(error, TableUnreadableError) else type(error).__name__
        cause = f"its recorded runs cannot be read ({why.removesuffix('.')})"
        alert = alerts.alert(reading.pipeline, reading.flow, "unreadable", cause, reading.downstream)
        return Findings(flow=reading.flow, alerts=(alert,), undecided=frozenset(RULES) - {"unreadable"})


_RECORDED = (Reading.plans, Reading.last_activity, Reading.runs, Reading.running_since, Reading.newest_event)
"""What rules need besides the status. A flow of which one cannot be read is `unreadable`, also if its rule is off."""


def _open_episodes(place: PipelinePlace) -> dict[tuple[str, str], Episode]:
    """The recorded episodes of a pipeline that are open, by flow and rule."""
    history = alert_history.episodes(place)
    return {(each.flow, each.rule): each for each in history if each.resolved_at is None}


def with_alerts(
    environment: Environment,
    pipelines: Sequence[tuple[str, ResolvedPipeline | TidegateError]],
    readings: Sequence[Reading],
) -> list[Reading]:
    """Readings with the recorded alerts whose cause is there, or unknown.

    An alert whose cause is gone is not added; the DAG `alerts` records its end. If a pipeline does not load, the alerts of all
    of its flows count for it.

    Args:
        pipelines: Pipelines by name, or the error why one does not load; those of the readings and perhaps others.
    """
    layout = Layout.of(environment)
    recorded: dict[str, Collection[tuple[str, str]]] = {}
    for name, _ in pipelines:
        # A history that cannot be read must not hide the status of the flows; `tidegate alerts` shows the error.
        with contextlib.suppress(Exception):
            recorded[name] = _open_episodes(PipelinePlace(layout, name))
    return [each.given(alerts=_present(each, recorded.get(each.pipeline, ()))) for each in readings]


def _present(reading: Reading, recorded: Collection[tuple[str, str]]) -> tuple[str, ...]:
    if isinstance(reading.declared, str):
        whole = reading.declared == reading.pipeline
        return tuple(sorted(rule for flow, rule in recorded if whole or not flow))
    if not (rules := [rule for flow, rule in recorded if flow == reading.flow]):
        return ()
    findings = _evaluate(reading)
    there = {alert.rule for alert in findings.alerts} | findings.undecided
    return tuple(sorted(rule for rule in rules if rule in there))


@dataclass(frozen=True, kw_only=True)
class OpenAlert:
    """An alert that is open now, as the command line shows it."""

    pipeline: str
    flow: str
    """Empty if the pipeline's declaration does not load."""
    rule: str
    severity: Severity
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
    open_episodes = _open_episodes(PipelinePlace(layout, evaluation.pipeline))
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
                    severity=RULES[rule].severity,
                    since=episode.opened_at if episode is not None else now,
                    message=messages.get(rule, episode.message if episode is not None else ""),
                    recorded=episode is not None,
                    certain=rule in messages,
                )
            )
    return alerts
