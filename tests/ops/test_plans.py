"""What `plan` found is noted for rules about several runs in a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.project import Project, orders
from tidegate.layout import Layout
from tidegate.ops import plans
from tidegate.status import lag


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def test_each_plan_is_told_flow_by_flow_the_oldest_first(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    pipeline = orders()
    bronze = pipeline.flow("bronze")
    for number in range(2):
        project.land(f"{number}.csv", "order_id,amount\nA-1,1.0\n")
        plans.record(project.layout, "orders", [lag.measure(project.environment, pipeline, bronze)])
    plans.record_failure(project.layout, "orders")
    found = plans.read(project.layout, "orders", "bronze")
    assert [plan.behind for plan in found] == [1, 2, None]
    assert [plan.rows is None for plan in found] == [False, False, True]
    assert found[0].at < found[1].at < found[2].at
    assert [plan.behind for plan in plans.read(project.layout, "orders", "silver")] == [None], "it was not asked"


def test_before_the_first_plan_nothing_is_known(layout: Layout) -> None:
    assert plans.read(layout, "orders", "bronze") == ()


def test_half_a_line_hides_no_other(layout: Layout) -> None:
    plans.record_failure(layout, "orders")
    with layout.plans("orders").open("a") as file:
        file.write('{"at": "2026-01-05T1\n[]\n')
    plans.record_failure(layout, "orders")
    assert len(plans.read(layout, "orders", "bronze")) == 2


def test_the_file_does_not_grow_for_ever(layout: Layout) -> None:
    plans.record_failure(layout, "orders")
    path = layout.plans("orders")
    path.write_text(path.read_text() * 2 * plans.KEPT)
    plans.record_failure(layout, "orders")
    assert len(path.read_text().splitlines()) == plans.KEPT


def test_a_place_that_cannot_be_written_fails_no_plan(layout: Layout, caplog: pytest.LogCaptureFixture) -> None:
    layout.lake.write_text("a file where a folder should be")
    plans.record_failure(layout, "orders")
    assert "could not be noted" in caplog.text


def test_the_first_look_is_noted_once_and_gives_way_to_the_first_plan(layout: Layout) -> None:
    assert plans.last_sign(layout, "orders") is None
    plans.look(layout, "orders")
    looked = plans.last_sign(layout, "orders")
    assert looked is not None
    plans.look(layout, "orders")
    assert plans.last_sign(layout, "orders") == looked
    assert plans.read(layout, "orders", "bronze") == (), "a look is no plan"
    plans.record_failure(layout, "orders")
    planned = plans.last_sign(layout, "orders")
    assert planned is not None and planned > looked
