"""A pipeline is a chain of flows in graph order that knows who writes what."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.spec.trips import BRONZE, GOLD, SILVER, TRIPS
from tidegate.errors import FieldError, SpecError
from tidegate.spec import ChangeFeed, Pipeline


def test_flows_that_feed_themselves_are_refused_with_their_chain() -> None:
    one = replace(SILVER, source=ChangeFeed("gold.trips"))
    with pytest.raises(FieldError, match="silver -> gold -> silver"):
        Pipeline(name="trips", flows=(one, GOLD))


def test_flows_come_in_graph_order_however_they_are_written() -> None:
    turned = Pipeline(name="trips", flows=(GOLD, SILVER, BRONZE))
    assert turned.flows == TRIPS.flows


def test_a_pipeline_knows_who_writes_what() -> None:
    assert TRIPS.writer_of("silver.trips") == SILVER
    assert TRIPS.writer_of("silver.other") is None
    assert TRIPS.upstream_of(GOLD) == SILVER
    assert TRIPS.upstream_of(BRONZE) is None
    assert TRIPS.flow("gold") == GOLD
    with pytest.raises(SpecError, match="it has: bronze, silver, gold"):
        TRIPS.flow("tin")


@pytest.mark.parametrize("name", ["alerts", "quarantine", "schema_approval"])
def test_a_pipeline_cannot_have_the_name_of_a_dag_that_serves_all(name: str) -> None:
    with pytest.raises(FieldError, match=f"{name}.*another name"):
        replace(TRIPS, name=name)


@pytest.mark.parametrize("name", ["plan", "run"])
def test_a_flow_cannot_have_the_name_of_a_task_that_every_dag_has(name: str) -> None:
    with pytest.raises(FieldError, match=f"'{name}'.*tasks of every DAG"):
        Pipeline(name="trips", flows=(replace(BRONZE, name=name),))


def test_a_whole_declaration_is_plain_json() -> None:
    told = json.loads(json.dumps(TRIPS.to_json()))
    assert [flow["source"]["kind"] for flow in told["flows"]] == ["files", "change_feed", "change_feed"]
    assert told["flows"][1]["target"]["keys"] == ["id"]
