"""`tidegate alerts`: the open alerts, why and since when; starts no JVM."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pendulum
import pytest

from tests.cli.project import Project, append, orders, quarantined
from tidegate.alerting.episodes import Event
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import alert_history
from tidegate.spec.limits import Thresholds

pytestmark = pytest.mark.slow


@pytest.fixture
def behind(project: Project) -> Project:
    """Three unread orders exceed the threshold of two; one entry has been in quarantine since January."""
    project.declare(dataclasses.replace(orders(), thresholds=Thresholds(lag_rows=2)))
    project.land("1.csv", "order_id,amount\nA-1,1.0\nA-2,1.0\nA-3,1.0\n")
    append(FlowPlace(project.layout, "orders", "silver").quarantine, [quarantined("r", ["x"], {}, "Ada Lovelace")])
    return project


def test_open_alerts_are_shown_with_reasons_and_nothing_is_written(behind: Project) -> None:
    result = behind.run("alerts")
    assert result.code == 0
    assert "3 rows behind, more than 2" in result.row("orders/bronze", "lag", "now")
    assert "1 entry is open in quarantine" in result.row("orders/silver", "quarantine_age", "now")
    assert "Ada" not in result.out
    assert not PipelinePlace(behind.layout, "orders").ops("alerts").exists()


def test_recorded_alerts_show_since_when_they_are_open(behind: Project) -> None:
    since = pendulum.now("UTC") - timedelta(hours=3)
    lag, quarantine = (
        Event(flow="bronze", rule=rule, opened_at=since, kind="opened", recorded_at=since, message=f"{rule} was odd")
        for rule in ("lag", "quarantine")
    )
    alert_history.append(PipelinePlace(behind.layout, "orders"), [lag, quarantine])
    result = behind.run("alerts", "orders")
    assert f"{since:%Y-%m-%d %H:%M} UTC (3 h" in result.row("orders/bronze", "lag", "3 rows behind")
    assert "quarantine was odd (when it opened; cannot be evaluated now)" in result.row("orders/bronze", "quarantine")
    alerts = behind.run("alerts", "--json").json["alerts"]
    assert [(each["flow"], each["rule"], each["recorded"], each["certain"]) for each in alerts] == [
        ("bronze", "lag", True, True),
        ("bronze", "quarantine", True, False),
        ("silver", "quarantine_age", False, True),
    ]


def test_without_open_alerts_one_line_is_printed(project: Project) -> None:
    project.declare(orders())
    (project.folder / "landing" / "orders").mkdir()
    assert project.run("alerts").out == "No alert is open.\n"


def test_a_declaration_that_does_not_load_is_an_alert(behind: Project) -> None:
    (behind.folder / "pipelines" / "broken.py").write_text("pipeline = 1 /")
    result = behind.run("alerts")
    assert result.code == 0
    assert "pipelines/broken.py does not load (line 1)" in result.row("broken", "unreadable")
    assert "lag" in result.row("orders/bronze")


def test_an_unknown_pipeline_is_refused(behind: Project) -> None:
    result = behind.run("alerts", "order")
    assert result.code == 64
    assert "did you mean 'orders'" in result.err
