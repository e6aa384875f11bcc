"""`tidegate alerts`: what is open now, why and since when, with no JVM."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pendulum
import pytest

from tests.cli.project import Project, append, orders, quarantined
from tidegate.alerting.episodes import Event
from tidegate.ops import alert_history
from tidegate.spec.thresholds import Thresholds


@pytest.fixture
def behind(project: Project) -> Project:
    """Three orders wait, two are enough; one entry has been in quarantine since January."""
    project.declare(dataclasses.replace(orders(), thresholds=Thresholds(lag_rows=2)))
    project.land("1.csv", "order_id,amount\nA-1,1.0\nA-2,1.0\nA-3,1.0\n")
    append(project.layout.quarantine("orders", "silver"), [quarantined("r", ["x"], {}, "Ada Lovelace")])
    return project


def test_what_is_open_is_shown_with_why_and_nothing_is_changed(behind: Project) -> None:
    told = behind.run("alerts")
    assert told.code == 0
    assert "3 rows behind, more than 2" in told.row("orders/bronze", "lag", "now")
    assert "1 entry is open in quarantine" in told.row("orders/silver", "quarantine_age", "now")
    assert "Ada" not in told.out
    assert not behind.layout.ops("orders", "alerts").exists()


def test_what_is_recorded_tells_since_when(behind: Project) -> None:
    since = pendulum.now("UTC") - timedelta(hours=3)
    lag, state = (
        Event(flow="bronze", rule=rule, opened_at=since, kind="opened", at=since, message=f"{rule} was odd")
        for rule in ("lag", "state")
    )
    alert_history.append(behind.layout, "orders", [lag, state])
    told = behind.run("alerts", "orders")
    assert f"{since:%Y-%m-%d %H:%M} UTC (3 h" in told.row("orders/bronze", "lag", "3 rows behind")
    assert "state was odd (as it began; nobody can tell now)" in told.row("orders/bronze", "state")
    found = behind.run("alerts", "--json").json["alerts"]
    assert [(each["flow"], each["rule"], each["recorded"], each["certain"]) for each in found] == [
        ("bronze", "lag", True, True),
        ("bronze", "state", True, False),
        ("silver", "quarantine_age", False, True),
    ]


def test_where_all_is_well_one_line_says_so(project: Project) -> None:
    project.declare(orders())
    (project.folder / "landing" / "orders").mkdir()
    assert project.run("alerts").out == "No alert is open.\n"


def test_a_declaration_that_does_not_load_is_one_of_them(behind: Project) -> None:
    (behind.folder / "pipelines" / "broken.py").write_text("pipeline = 1 /")
    told = behind.run("alerts")
    assert told.code == 0
    assert "pipelines/broken.py does not load (line 1)" in told.row("broken", "unreadable")
    assert "lag" in told.row("orders/bronze")


def test_an_unknown_pipeline_is_refused(behind: Project) -> None:
    told = behind.run("alerts", "order")
    assert told.code == 64
    assert "did you mean 'orders'" in told.err
