"""The alert rules of whole pipelines, and the alerts that are open, without a JVM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pendulum
import pytest

from tests.cli.project import Project, append, orders
from tests.resolved import resolved
from tidegate.alerting.episodes import transitions
from tidegate.errors import SpecError
from tidegate.lake.place import PipelinePlace
from tidegate.ops import alert_history
from tidegate.spec.tables import InvalidTable
from tidegate.status import evaluation

NOW = pendulum.now("UTC")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    (project.folder / "landing" / "orders").mkdir()
    return project


def test_an_unavailable_source_is_unreadable_and_hides_no_other_flow(project: Project) -> None:
    landing = project.folder / "landing" / "orders"
    landing.rmdir()
    landing.write_text("a file where a folder was")
    (evaluated,) = evaluation.evaluate_pipelines(project.environment, [("orders", resolved(orders()))], NOW)
    assert [(alert.flow, alert.rule) for findings in evaluated.findings for alert in findings.alerts] == [
        ("bronze", "unreadable")
    ]
    assert [each.flow for each in evaluated.readings if each.lag is not None] == ["silver", "gold"]


def test_a_broken_ledger_is_an_alert_of_its_flows_and_quotes_nothing(project: Project) -> None:
    append(PipelinePlace(project.layout, "orders").ops("ledger"), [{"secret": "4711"}])
    (evaluated,) = evaluation.evaluate_pipelines(project.environment, [("orders", resolved(orders()))], NOW)
    alerts = [alert for findings in evaluated.findings for alert in findings.alerts]
    assert {alert.rule for alert in alerts} == {"unreadable"}
    assert not any("secret" in alert.message or "4711" in alert.message for alert in alerts)


def test_a_table_that_is_not_valid_is_an_alert_and_resolves_none_of_its_flows(project: Project) -> None:
    tills = InvalidTable(
        name="tills", where="pipelines/orders.csv line 3", problem="line 3: keys is missing", advice=None
    )
    listed = resolved(replace(orders(), invalid_tables=(tills,)))

    (evaluated,) = evaluation.evaluate_pipelines(project.environment, [("orders", listed)], NOW)

    opened = [alert for findings in evaluated.findings for alert in findings.alerts]
    assert [(alert.flow, alert.rule) for alert in opened] == [("", "unreadable")]
    assert opened[0].message.startswith("line 3: keys is missing. Blocked below: all flows of these tables. Next: ")
    assert [each.flow for each in evaluated.readings] == ["bronze", "silver", "gold"]
    including = {each.flow: each for each in evaluated.findings_including(["silver", "tills_bronze"])}
    assert including["tills_bronze"].undecided >= {"unreadable"}
    assert including.keys() == {"bronze", "silver", "gold", "", "tills_bronze"}


def test_a_declaration_that_does_not_load_is_an_alert_and_resolves_no_other(project: Project) -> None:
    layout = project.layout
    landing = project.folder / "landing" / "orders"
    landing.rmdir()
    landing.write_text("a file where a folder was")
    (before,) = evaluation.evaluate_pipelines(project.environment, [("orders", resolved(orders()))], NOW)
    alert_history.append(PipelinePlace(layout, "orders"), transitions((), before.findings, NOW))
    (broken,) = evaluation.evaluate_pipelines(project.environment, [("orders", SpecError("line 3 is wrong"))], NOW)
    alerts = evaluation.open_alerts(layout, broken, NOW)
    assert [(each.flow, each.rule, each.certain) for each in alerts] == [
        ("", "unreadable", True),
        ("bronze", "unreadable", False),
    ]
    events = transitions(
        alert_history.episodes(PipelinePlace(layout, "orders")), broken.findings_including(["bronze"]), NOW
    )
    assert [(event.flow, event.kind) for event in events] == [("", "opened")]
