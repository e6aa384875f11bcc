"""Evaluates the alert rules for one observation of a flow. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.advice import Command, Edit, Then
from tidegate.alerting.conditions import Case
from tidegate.alerting.facts import UnknownFactError
from tidegate.alerting.rules import BLOCKED, INCOMPLETE, LATE, RULES
from tidegate.states import step_for

if TYPE_CHECKING:
    from tidegate.alerting.facts import Observation
    from tidegate.alerting.rules import Rule, Severity
    from tidegate.spec.thresholds import Thresholds

_NO_READER = "No flow is downstream"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One rule of one flow that is true now."""

    flow: str
    rule: str
    message: str
    """Cause, what is blocked below, next step; numbers and names only, never a data value."""

    @property
    def severity(self) -> Severity:
        """That of its rule."""
        return RULES[self.rule].severity


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The result of one evaluation of a flow."""

    flow: str
    alerts: tuple[Alert, ...]
    undecided: frozenset[str]
    """Rules without the values that they need: they open no episode, and resolve none."""
    not_evaluated: dict[str, str] = field(default_factory=dict)
    """Rule to the reason why it does not apply to the flow."""


def evaluate(thresholds: Thresholds, observation: Observation, now: datetime) -> Findings:
    """Evaluate every rule.

    Args:
        now: Timezone-aware.
    """
    alerts: list[Alert] = []
    undecided: set[str] = set()
    not_evaluated: dict[str, str] = {}
    for name, rule in RULES.items():
        limit = getattr(thresholds, rule.threshold) if rule.threshold is not None else None
        if (reason := _inapplicable(rule, limit, observation)) is not None:
            not_evaluated[name] = reason
            continue
        try:
            cause = rule.cause(Case(observation=observation, now=now, limit=limit))
        except UnknownFactError:
            undecided.add(name)
            continue
        if cause is not None:
            below, takes = observation.downstream, observation.takes_batches
            alerts.append(alert(observation.pipeline, observation.flow, name, cause, below, takes_batches=takes))
    return Findings(
        flow=observation.flow, alerts=tuple(alerts), undecided=frozenset(undecided), not_evaluated=not_evaluated
    )


def _inapplicable(rule: Rule, limit: object, observation: Observation) -> str | None:
    if rule.threshold is not None and limit is None:
        return f"{rule.threshold} is None"
    if observation.switched_off and not rule.while_off:
        return "the flow is switched off"
    return rule.not_for(observation)


def alert(
    pipeline: str, flow: str, rule: str, cause: str, downstream: tuple[str, ...], *, takes_batches: bool = True
) -> Alert:
    """The alert for a cause: it says what is blocked below, and the next step.

    Args:
        flow: Empty if the pipeline's declaration does not load.
        downstream: ``<pipeline>/<flow>`` of each flow downstream.
        takes_batches: Whether all rows of a refused batch of the flow can go to quarantine.
    """
    parts = RULES[rule]
    sentence = cause if cause.endswith((".", "!", "?")) else f"{cause}."
    below = f"{parts.below}: {', '.join(downstream)}." if downstream else f"{_NO_READER}."
    step = step_for(parts.next_step, pipeline, flow, takes_batches=takes_batches)
    return Alert(flow=flow, rule=rule, message=f"{sentence} {below} Next: {step.text}.")


def cause_in(message: str) -> str:
    """The cause in the message of an alert: what is blocked and the next step are over when it is resolved."""
    ends = [at for phrase in (BLOCKED, LATE, INCOMPLETE, _NO_READER) if (at := message.rfind(f". {phrase}")) >= 0]
    return message[: max(ends)] if ends else message


def unloadable(pipeline: str, cause: str) -> Findings:
    """The findings about a pipeline whose declaration does not load."""
    check = Command.tidegate("plan", pipeline, says="`{}` checks it")
    step = Then(Edit("correct the declaration", "declaration"), check)
    message = f"{cause.rstrip('.')}. Blocked below: all of its flows. Next: {step.text}."
    unreadable = Alert(flow="", rule="unreadable", message=message)
    return Findings(flow="", alerts=(unreadable,), undecided=frozenset(RULES) - {"unreadable"})
