"""Results of `plan` are recorded for alert rules about several runs in a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project, orders
from tests.resolved import resolved
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import plans
from tidegate.status import lag


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


def test_plans_are_read_by_flow_the_oldest_first(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    bronze = resolved(orders()).flow("bronze")
    for number in range(2):
        project.land(f"{number}.csv", "order_id,amount\nA-1,1.0\n")
        plans.record(
            PipelinePlace(project.layout, "orders"), {"bronze": lag.measure(project.environment, bronze).planned_lag}
        )
    plans.record_failure(PipelinePlace(project.layout, "orders"))
    results = plans.read(FlowPlace(project.layout, "orders", "bronze"))
    assert [plan.behind for plan in results] == [1, 2, None]
    assert [plan.rows is None for plan in results] == [False, False, True]
    assert results[0].at < results[1].at < results[2].at
    assert [plan.behind for plan in plans.read(FlowPlace(project.layout, "orders", "silver"))] == [None], (
        "only the failed plan counts for it"
    )


def test_before_the_first_plan_there_are_no_results(layout: Layout) -> None:
    assert plans.read(FlowPlace(layout, "orders", "bronze")) == ()


def test_an_incomplete_line_is_skipped(layout: Layout) -> None:
    plans.record_failure(PipelinePlace(layout, "orders"))
    PipelinePlace(layout, "orders").plans.append(b'{"at": "2026-01-05T1\n[]\n')
    plans.record_failure(PipelinePlace(layout, "orders"))
    assert len(plans.read(FlowPlace(layout, "orders", "bronze"))) == 2


def test_the_file_has_a_maximum_length(layout: Layout) -> None:
    plans.record_failure(PipelinePlace(layout, "orders"))
    path = Path(PipelinePlace(layout, "orders").plans)
    path.write_text(path.read_text() * 2 * plans.MAX_LINES)
    plans.record_failure(PipelinePlace(layout, "orders"))
    assert len(path.read_text().splitlines()) == plans.MAX_LINES


def test_a_plan_does_not_fail_if_its_result_cannot_be_recorded(
    layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    Path(layout.root).write_text("a file where a folder should be")
    plans.record_failure(PipelinePlace(layout, "orders"))
    assert "could not be recorded" in caplog.text


def test_the_start_of_watching_is_recorded_once_and_replaced_by_the_first_plan(layout: Layout) -> None:
    assert plans.last_activity(PipelinePlace(layout, "orders")) is None
    plans.record_watched(PipelinePlace(layout, "orders"))
    watched = plans.last_activity(PipelinePlace(layout, "orders"))
    assert watched is not None
    plans.record_watched(PipelinePlace(layout, "orders"))
    assert plans.last_activity(PipelinePlace(layout, "orders")) == watched
    assert plans.read(FlowPlace(layout, "orders", "bronze")) == (), "watching is not a plan"
    plans.record_failure(PipelinePlace(layout, "orders"))
    planned = plans.last_activity(PipelinePlace(layout, "orders"))
    assert planned is not None and planned > watched
