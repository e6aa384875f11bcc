"""Flows are switched off and files skipped with a reason; plan reads both without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import places
from tests.cli.project import Project, orders
from tests.resolved import resolved
from tidegate.checkpoints import overrides
from tidegate.checkpoints.overrides import OVERRIDES
from tidegate.errors import DamagedFileError, RequestError
from tidegate.lake.place import FlowPlace
from tidegate.spec import Pipeline
from tidegate.status.lag import measure
from tidegate.status.plan import decide

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project")


@pytest.fixture
def pipeline(project: Project) -> Pipeline:
    """One file was read and one is pending."""
    pipeline = project.declare(orders())
    path = project.land("read.csv", "order_id,amount\na,1\n")
    written = project.checkpoint(pipeline, pipeline.flow("bronze"))
    written.listed(0, path).plan(0, {"logOffset": 0}).commit(0)
    project.land("day=1/poison.csv", "order_id,amount\nb,2\n")
    return pipeline


def test_a_flow_that_is_switched_off_has_no_work_whatever_its_lag(project: Project, pipeline: Pipeline) -> None:
    assert decide(project.environment, resolved(pipeline), pipeline.flows).readings[0].has_work
    overrides.switch(
        FlowPlace(project.layout, "orders", "bronze"), on=False, by="ada", reason="the source sends rubbish"
    )

    decided = decide(project.environment, resolved(pipeline), pipeline.flows)

    bronze = decided.readings[0]
    assert (bronze.has_work, bronze.failed, bronze.backlog.behind) == (False, False, 1)
    assert bronze.reason.startswith("switched off by ada on 20")
    assert bronze.reason.endswith(": the source sends rubbish")
    assert not decided.work, "what is below has nothing new either"
    with pytest.raises(RequestError, match=r"is switched off by ada .*: tidegate flow on orders bronze --reason"):
        overrides.check_on(FlowPlace(project.layout, "orders", "bronze"))
    overrides.switch(FlowPlace(project.layout, "orders", "bronze"), on=True, by="bob", reason="corrected")
    assert decide(project.environment, resolved(pipeline), pipeline.flows).work
    overrides.check_on(FlowPlace(project.layout, "orders", "bronze"))
    summaries = [each.summary() for each in overrides.history(FlowPlace(project.layout, "orders", "bronze"))]
    assert [line.rpartition(": ")[2] for line in summaries] == ["the source sends rubbish", "corrected"]


def test_a_flow_that_is_switched_off_stays_off_when_its_upstream_flow_has_work(
    project: Project, pipeline: Pipeline
) -> None:
    overrides.switch(FlowPlace(project.layout, "orders", "silver"), on=False, by="ada", reason="a test")
    decided = decide(project.environment, resolved(pipeline), pipeline.flows)
    assert [lag.has_work for lag in decided.readings] == [True, False, False]


def test_a_decision_without_a_reason_or_without_effect_is_refused(project: Project, pipeline: Pipeline) -> None:
    with pytest.raises(RequestError, match="reason is empty"):
        overrides.switch(FlowPlace(project.layout, "orders", "gold"), on=False, by="ada", reason=" ")
    with pytest.raises(RequestError, match="is already on"):
        overrides.switch(FlowPlace(project.layout, "orders", "gold"), on=True, by="ada", reason="a test")
    overrides.switch(FlowPlace(project.layout, "orders", "gold"), on=False, by="ada", reason="a test")
    with pytest.raises(RequestError, match="off: switched off by ada"):
        overrides.switch(FlowPlace(project.layout, "orders", "gold"), on=False, by="bob", reason="me too")
    assert len(overrides.history(FlowPlace(project.layout, "orders", "gold"))) == 1


def test_a_file_can_be_skipped_until_it_is_read(project: Project, pipeline: Pipeline) -> None:
    bronze = pipeline.flow("bronze")
    place = places.current(project.layout, pipeline, bronze)
    for name, why in (("read.csv", "read already"), ("other.csv", "no file other.csv"), ("day=1", "no file day=1")):
        with pytest.raises(RequestError, match=why):
            overrides.skip(place, bronze, name, by="ada", reason="a test")
    with pytest.raises(RequestError, match="reads no landing folder"):
        overrides.skip(place, pipeline.flow("gold"), "read.csv", by="ada", reason="a test")

    overrides.skip(place, bronze, "day=1/poison.csv", by="ada", reason="kills the driver")

    assert list(overrides.skipped_files(FlowPlace(project.layout, "orders", "bronze"))) == ["day=1/poison.csv"]
    overrides.skip(place, bronze, "day=1/poison.csv", by="ada", reason="not that one", undo=True)
    assert overrides.skipped_files(FlowPlace(project.layout, "orders", "bronze")) == {}
    with pytest.raises(RequestError, match="not among the files"):
        overrides.skip(place, bronze, "day=1/poison.csv", by="ada", reason="again", undo=True)


def test_a_damaged_file_of_overrides_is_an_error_and_not_treated_as_empty(project: Project, pipeline: Pipeline) -> None:
    path = OVERRIDES.path(FlowPlace(project.layout, "orders", "bronze"))
    Path(path).write_text('{"act": "off", "by"')
    with pytest.raises(DamagedFileError, match=r"overrides\.jsonl"):
        measure(project.environment, resolved(pipeline).flow("bronze"))


def test_the_commands_record_decisions_and_show_them(project: Project, pipeline: Pipeline) -> None:
    assert project.run("flow", "off", "orders", "gold", "--reason", "holidays").code == 0
    assert project.run("status", "orders").row("orders/gold", "off", "v1")
    assert "holidays" in project.run("status", "orders").out
    assert project.run("flow", "skip", "orders", "bronze", "day=1/poison.csv", "--reason", "kills it").code == 0
    shown = project.run("flow", "show", "orders")
    assert shown.row("gold", "holidays")
    assert shown.row("bronze", "day=1/poison.csv skipped", "kills it")
    decisions = project.run("flow", "show", "orders", "--json").json["decisions"]
    assert [(each["flow"], each["act"]) for each in decisions] == [("gold", "off"), ("bronze", "skip")]
    assert project.run("flow", "off", "orders", "gold").code == 64
    assert project.run("flow", "on", "orders", "gold", "--reason", "back").code == 0
    assert "orders/gold" in project.run("status", "orders").out
