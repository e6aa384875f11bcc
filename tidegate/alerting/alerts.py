"""Evaluates the alert rules for one reading of a flow."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.advice import Command, Edit, Then
from tidegate.alerting.facts import UnknownFactError
from tidegate.alerting.rules import BLOCKED, INCOMPLETE, LATE, RULES, AlertRule, Severity
from tidegate.states import step_for

if TYPE_CHECKING:
    from tidegate.spec.limits import Thresholds
    from tidegate.status.reading import Reading

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


def evaluate(thresholds: Thresholds, reading: Reading, rules: Collection[str] = RULES.keys()) -> Findings:
    """Evaluate rules, by default every one."""
    alerts: list[Alert] = []
    undecided: set[str] = set()
    not_evaluated: dict[str, str] = {}
    for name in rules:
        rule = RULES[name]
        limit = getattr(thresholds, rule.threshold) if rule.threshold is not None else None
        if (reason := _inapplicable(rule, limit, reading)) is not None:
            not_evaluated[name] = reason
            continue
        try:
            cause = rule.cause(reading, limit)
        except UnknownFactError:
            undecided.add(name)
            continue
        if cause is not None:
            below, takes = reading.downstream, reading.takes_batches
            alerts.append(alert(reading.pipeline, reading.flow, name, cause, below, takes_batches=takes))
    return Findings(
        flow=reading.flow, alerts=tuple(alerts), undecided=frozenset(undecided), not_evaluated=not_evaluated
    )


def warnings(reading: Reading) -> tuple[str, ...]:
    """One message for each of the flow's thresholds ``quarantine_rows`` and ``quarantine_hours`` that is exceeded."""
    if isinstance(reading.declared, str):
        return ()
    thresholds = reading.resolved.pipeline.thresholds_of(reading.resolved.flow)
    # Also of a flow that is switched off.
    exceeded = evaluate(
        thresholds, reading.given(off=None, downstream=()), ("quarantine_rows", "quarantine_age")
    ).alerts
    return tuple(cause_in(alert.message) for alert in exceeded)


def _inapplicable(rule: AlertRule, limit: object, reading: Reading) -> str | None:
    if rule.threshold is not None and limit is None:
        return f"{rule.threshold} is None"
    if reading.switched_off is not None and not rule.while_off:
        return "the flow is switched off"
    return rule.not_for(reading)


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


def unloadable(pipeline: str, cause: str, below: str = "all of its flows") -> Findings:
    """The findings about a pipeline whose declaration does not load, or not for all tables of its list."""
    check = Command.tidegate("plan", pipeline, says="`{}` checks it")
    step = Then(Edit("correct the declaration", "declaration"), check)
    message = f"{' '.join(cause.split()).rstrip('.')}. Blocked below: {below}. Next: {step.text}."
    unreadable = Alert(flow="", rule="unreadable", message=message)
    return Findings(flow="", alerts=(unreadable,), undecided=frozenset(RULES) - {"unreadable"})
