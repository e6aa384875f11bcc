"""A flow whose source cannot be read fails alone: the flows behind it wait, all others are planned as ever."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.status.place import BRONZE, GOLD, SILVER, Place
from tidegate.checkpoints import intervention
from tidegate.errors import CheckpointCorruptError, SourceError, SourceUnavailableError
from tidegate.ops import plans
from tidegate.spec import ChangeFeed, FileSource, Flow, KafkaSource, Pipeline, Table

LOST = Flow(name="lost", source=FileSource(path="lost", format="csv", schema="a INT"), target=Table("bronze.lost"))
BELOW = replace(SILVER, name="below", source=ChangeFeed("bronze.lost"), target=Table("silver.lost", keys=("id",)))
TOPIC = Flow(name="topic", source=KafkaSource(topic="clicks", schema="a INT"), target=Table("bronze.clicks"))
PIPELINE = Pipeline(name="trips", flows=(TOPIC, LOST, BELOW, BRONZE, SILVER, GOLD))


def test_a_landing_folder_that_is_missing_stops_its_own_flow_and_those_behind_it(place: Place) -> None:
    place.land("a.csv")

    plan = place.plan(pipeline=replace(PIPELINE, flows=PIPELINE.flows[1:]))

    assert plan.work
    assert {told.flow: told.has_work for told in plan.lags} == {
        "lost": False,
        "below": False,
        "bronze": True,
        "silver": True,
        "gold": True,
    }
    lost, below = plan.lags[:2]
    (error,) = plan.errors
    assert isinstance(error, SourceError)
    assert (lost.failed, lost.error, lost.rows, lost.bytes) == (True, error, None, None)
    assert below.reason == "waits: flow lost does not get through"
    assert plan.reasons[:3] == (f"lost: {error.message}", f"below: {below.reason}", "bronze: 1 new file in trips")
    assert plan.small, "what cannot be read is not much either"


def test_the_error_of_a_flow_is_plain_json_and_its_plan_is_noted_as_one_without_an_answer(place: Place) -> None:
    place.land("a.csv")
    plan = place.plan(LOST, BRONZE, pipeline=PIPELINE)
    told = [lag.to_json() for lag in plan.lags]
    assert json.loads(json.dumps(told)) == told
    assert [each["error"] and (each["error"]["kind"], each["error"]["exit_code"]) for each in told] == [
        ("SourceError", 78),
        None,
    ]
    plans.record(place.layout, "trips", plan.lags)
    behind = {flow: [each.behind for each in plans.read(place.layout, "trips", flow)] for flow in ("lost", "bronze")}
    assert behind == {"lost": [None], "bronze": [1]}


def test_of_several_errors_the_one_that_needs_a_person_comes_first(place: Place) -> None:
    place.environment = replace(place.environment, kafka="127.0.0.1:1")
    plan = place.plan(TOPIC, LOST, BRONZE, pipeline=PIPELINE)
    assert [type(error) for error in plan.errors] == [SourceError, SourceUnavailableError]
    assert not plan.work, "nothing new in the landing folder that is there"


def test_a_flow_that_is_switched_off_does_not_fail_and_stops_nobody(place: Place) -> None:
    intervention.switch(place.layout, "trips", "lost", on=False, by="ada", reason="the folder has moved")
    plan = place.plan(LOST, BELOW, pipeline=PIPELINE)
    lost, below = plan.lags
    assert (plan.errors, lost.failed, lost.switched_off) == ((), False, True)
    assert lost.reason.endswith("the folder has moved")
    assert below.reason == "waits: bronze.lost does not exist yet"


def test_a_damaged_file_of_one_flow_stops_no_other(place: Place) -> None:
    place.land("a.csv")
    place.layout.landing("lost").mkdir()
    path = place.layout.interventions("trips", "lost")
    path.parent.mkdir(parents=True)
    path.write_text('{"act": "off", "by"')
    plan = place.plan(LOST, BRONZE, pipeline=PIPELINE)
    assert [type(error) for error in plan.errors] == [CheckpointCorruptError]
    assert [told.has_work for told in plan.lags] == [False, True]
