"""``tidegate alerts``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pendulum

from tidegate import formatting
from tidegate.cli import console, project
from tidegate.cli.arguments import AnyName, AsJson, Patience
from tidegate.lake import read_once
from tidegate.lake.layout import Layout
from tidegate.status.evaluation import OpenAlert, PipelineAlerts, evaluate_pipelines, open_alerts

_HEADERS = ("flow", "rule", "severity", "open since", "why")


def alerts(name: AnyName = None, as_json: AsJson = False, timeout: Patience = 10.0) -> None:
    """Evaluate the alert rules of every flow now, and show the open alerts, why, and since when. Starts no JVM, changes nothing.

    The DAG `alerts` records when an alert opens and ends, and sends notifications; an alert that it has not recorded yet
    is shown as open since now.

    The exit code is 0 whether alerts are open or not.
    """
    environment = read_once.once(project.read())
    now = pendulum.now("UTC")
    evaluations = evaluate_pipelines(environment, project.resolve_all(environment, name), now, timeout)
    layout = Layout.of(environment)
    opened = [alert for each in evaluations for alert in open_alerts(layout, each, now)]
    if as_json:
        console.print_json(
            {
                "format": 1,
                "as_of": now.isoformat(),
                "alerts": [_to_json(each) for each in opened],
                "not_evaluated": [line for each in evaluations for line in _not_evaluated(each)],
            }
        )
    elif opened:
        console.print_table(_HEADERS, [_row(each, now) for each in opened])
    else:
        console.echo("No alert is open.")


def _to_json(each: OpenAlert) -> dict[str, Any]:
    return {
        "pipeline": each.pipeline,
        "flow": each.flow or None,
        "rule": each.rule,
        "severity": each.severity,
        "since": each.since.isoformat(),
        "recorded": each.recorded,
        "message": each.message,
        "certain": each.certain,
    }


def _not_evaluated(evaluation: PipelineAlerts) -> Iterator[dict[str, Any]]:
    """Rules that do not apply to a flow, or whose facts are missing, with the reason."""
    for findings in evaluation.findings:
        missing = dict.fromkeys(sorted(findings.undecided), "not enough is known yet")
        for rule, reason in (findings.not_evaluated | missing).items():
            flow = findings.flow or None
            yield {"pipeline": evaluation.pipeline, "flow": flow, "rule": rule, "reason": reason}


def _row(each: OpenAlert, now: datetime) -> tuple[str, ...]:
    since = f"{each.since:%Y-%m-%d %H:%M} UTC ({formatting.span(now - each.since)})" if each.recorded else "now"
    why = each.message if each.certain else f"{each.message} (when it opened; cannot be evaluated now)"
    return (f"{each.pipeline}/{each.flow}" if each.flow else each.pipeline, each.rule, each.severity, since, why)
