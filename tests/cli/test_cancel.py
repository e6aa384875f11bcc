"""`tidegate cancel` records who ends a run whose driver is on a cluster."""

from __future__ import annotations

import pytest

from tests.cli.project import Project, orders
from tidegate.checkpoints import recorded_attempt
from tidegate.lake.layout import run_key
from tidegate.lake.place import AttemptPlace, RunPlace
from tidegate.reports.report import RunReport

pytestmark = pytest.mark.slow

RUN = "scheduled__2026-01-05T00:00:00+00:00"


def test_a_run_is_cancelled_once_and_only_while_its_attempt_has_not_ended(project: Project) -> None:
    project.declare(orders())
    place = RunPlace(project.layout, "orders", run_key(RUN))
    refused = project.run("cancel", RUN, "--reason", "the wrong day")
    assert (refused.code, "no driver of run" in refused.err) == (64, True)
    recorded_attempt.claim(place, recorded_attempt.begun("a1", "q1"), None)
    recorded_attempt.name(place, "a1", "application_1_0001")
    assert "Its application is application_1_0001." in project.run("cancel", RUN, "--reason", "the wrong day").out
    recorded = recorded_attempt.read(place)
    assert recorded is not None and recorded.cancelled is not None
    assert recorded.cancelled.by and recorded.cancelled.reason == "the wrong day"
    again = project.run("cancel", RUN, "--reason", "another one", "--pipeline", "orders")
    assert (again.code, "the wrong day" in again.out) == (0, True)
    report = RunReport(dag_id="orders", run_key=run_key(RUN), attempt="a1", started_at="x", ended_at="2026-01-05")
    report.write(AttemptPlace(project.layout, "orders", run_key(RUN), "a1").report)
    ended = project.run("cancel", RUN, "--reason", "x")
    assert (ended.code, "ended at 2026-01-05" in ended.err) == (64, True)


def test_the_pipeline_is_chosen_where_several_have_a_run_of_the_id(project: Project) -> None:
    for pipeline in (project.declare(orders()), project.declare(orders(topic="returns"))):
        place = RunPlace(project.layout, pipeline.name, run_key(RUN))
        recorded_attempt.claim(place, recorded_attempt.begun("a1", "q1"), None)
    refused = project.run("cancel", RUN, "--reason", "x")
    assert (refused.code, "several pipelines have a run" in refused.err) == (64, True)
    assert project.run("cancel", RUN, "--reason", "x", "--pipeline", "returns").code == 0
    cancelled = [recorded_attempt.read(RunPlace(project.layout, name, run_key(RUN))) for name in ("orders", "returns")]
    assert [each is not None and each.cancelled is not None for each in cancelled] == [False, True]
