"""A pipeline sorts its flows topologically and finds the writer of each table."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.spec.trips import BRONZE, GOLD, SILVER, TRIPS
from tidegate.errors import FieldError, SpecError
from tidegate.json_codec import encode
from tidegate.spec import ChangeFeed, Pipeline


def test_a_cycle_of_flows_is_refused_and_named() -> None:
    one = replace(SILVER, source=ChangeFeed("gold.trips"))
    with pytest.raises(FieldError, match="silver -> gold -> silver"):
        Pipeline(name="trips", flows=(one, GOLD))


def test_flows_are_sorted_topologically() -> None:
    reverse = Pipeline(name="trips", flows=(GOLD, SILVER, BRONZE))
    assert reverse.flows == TRIPS.flows


def test_a_pipeline_finds_the_writer_of_a_table() -> None:
    assert TRIPS.writer_of("silver.trips") == SILVER
    assert TRIPS.writer_of("silver.other") is None
    assert TRIPS.upstream_of(GOLD) == (SILVER,)
    assert TRIPS.upstream_of(BRONZE) == ()
    assert TRIPS.flow("gold") == GOLD
    with pytest.raises(SpecError, match="it has: bronze, silver, gold"):
        TRIPS.flow("tin")


@pytest.mark.parametrize("name", ["alerts", "quarantine", "schema_approval"])
def test_a_pipeline_cannot_have_the_name_of_a_shared_dag(name: str) -> None:
    with pytest.raises(FieldError, match=f"{name}.*another name"):
        replace(TRIPS, name=name)


@pytest.mark.parametrize("name", ["plan", "run"])
def test_a_flow_cannot_have_the_name_of_a_shared_task(name: str) -> None:
    with pytest.raises(FieldError, match=f"'{name}'.*tasks of every DAG"):
        Pipeline(name="trips", flows=(replace(BRONZE, name=name),))


def test_a_declaration_converts_to_json() -> None:
    declaration = json.loads(encode(TRIPS))
    assert [flow["source"]["table"] for flow in declaration["flows"][1:]] == ["bronze.trips", "silver.trips"]
    assert declaration["flows"][1]["target"]["keys"] == ["id"]
