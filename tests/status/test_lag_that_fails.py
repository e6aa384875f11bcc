"""A flow whose source cannot be read blocks its downstream flows and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.status.sample_project import BRONZE, GOLD, SILVER, SampleProject
from tidegate.checkpoints import overrides
from tidegate.checkpoints.overrides import OVERRIDES
from tidegate.errors import DamagedFileError, SourceError, SourceUnavailableError
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import plans
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSource, Pipeline, Table
from tidegate.status.lag import to_json

LOST = Flow(name="lost", source=FileSource(path="lost", format="csv", schema="a INT"), target=Table("bronze.lost"))
BELOW = replace(SILVER, name="below", source=ChangeFeed("bronze.lost"), target=Table("silver.lost", keys=("id",)))
TOPIC = Flow(name="topic", source=KafkaSource(topic="clicks", schema="a INT"), target=Table("bronze.clicks"))
PIPELINE = Pipeline(name="trips", flows=(TOPIC, LOST, BELOW, BRONZE, SILVER, GOLD))


@pytest.fixture(autouse=True)
def lost(project: SampleProject) -> None:
    """The landing folder of flow `lost` is a file."""
    project.layout.landing("lost").put(b"a file in place of the folder")


def test_a_landing_folder_that_cannot_be_read_blocks_its_own_flow_and_downstream_flows(project: SampleProject) -> None:
    project.land("a.csv")

    plan = project.plan(pipeline=replace(PIPELINE, flows=PIPELINE.flows[1:]))

    assert plan.work
    assert {lag.flow: lag.has_work for lag in plan.readings} == {
        "lost": False,
        "below": False,
        "bronze": True,
        "silver": True,
        "gold": True,
    }
    lost, below = plan.readings[:2]
    (error,) = plan.errors
    assert isinstance(error, SourceError)
    assert (lost.failed, lost.error, lost.lag) == (True, error, None)
    assert below.reason == "waits for lost: error"
    assert plan.reasons[:3] == (f"lost: {error.message}", f"below: {below.reason}", "bronze: 1 new file in trips")
    assert plan.small, "flows that cannot be read do not count towards the size"


def test_the_error_of_a_flow_is_json_serializable_and_its_lag_is_recorded_as_unknown(project: SampleProject) -> None:
    project.land("a.csv")
    plan = project.plan(LOST, BRONZE, pipeline=PIPELINE)
    values = [to_json(lag) for lag in plan.readings]
    assert json.loads(json.dumps(values)) == values
    assert [each["error"] and (each["error"]["kind"], each["error"]["exit_code"]) for each in values] == [
        ("SourceError", 78),
        None,
    ]
    plans.record(PipelinePlace(project.layout, "trips"), {each.flow: each.planned_lag for each in plan.readings})
    behind = {
        flow: [each.behind for each in plans.read(FlowPlace(project.layout, "trips", flow))]
        for flow in ("lost", "bronze")
    }
    assert behind == {"lost": [None], "bronze": [1]}


def test_permanent_errors_come_before_transient_ones(project: SampleProject) -> None:
    project.environment = replace(project.environment, kafka="127.0.0.1:1")
    plan = project.plan(TOPIC, LOST, BRONZE, pipeline=PIPELINE)
    assert [type(error) for error in plan.errors] == [SourceError, SourceUnavailableError]
    assert not plan.work, "nothing new in the existing landing folder"


def test_a_flow_that_is_switched_off_does_not_fail_and_blocks_no_flow(project: SampleProject) -> None:
    overrides.switch(FlowPlace(project.layout, "trips", "lost"), on=False, by="ada", reason="the folder has moved")
    plan = project.plan(LOST, BELOW, pipeline=PIPELINE)
    lost, below = plan.readings
    assert (plan.errors, lost.failed, lost.switched_off is None) == ((), False, False)
    assert lost.reason.endswith("the folder has moved")
    assert below.reason == "waits: bronze.lost does not exist yet"


def test_a_corrupt_file_of_one_flow_blocks_no_other(project: SampleProject) -> None:
    project.land("a.csv")
    project.layout.landing("lost").delete()
    project.layout.landing("lost").make_folder()
    path = OVERRIDES.path(FlowPlace(project.layout, "trips", "lost"))
    Path(path.parent).mkdir(parents=True)
    Path(path).write_text('{"act": "off", "by"')
    plan = project.plan(LOST, BRONZE, pipeline=PIPELINE)
    assert [type(error) for error in plan.errors] == [DamagedFileError]
    assert [lag.has_work for lag in plan.readings] == [False, True]
