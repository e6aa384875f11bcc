"""A gate on a flow that recomputes groups: it refuses or records, and never sets a group aside."""

from __future__ import annotations

import dataclasses
from datetime import date
from typing import Any

import pytest

import pipelines.flights
from demo import flights_feed
from tests.deployment import Deployment
from tidegate.spec import Gate

pytestmark = pytest.mark.jvm


@pytest.fixture
def flights(deployment: Deployment, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Flights of some carriers, whose daily figures have a gate as well."""
    declared = pipelines.flights.pipeline
    flows = tuple(
        dataclasses.replace(flow, gate=Gate("flights/gold")) if flow.name == "gold" else flow for flow in declared.flows
    )
    monkeypatch.setattr(pipelines.flights, "pipeline", dataclasses.replace(declared, flows=flows))
    deployment.land("one.csv", flights_feed._csv(flights_feed.days()[date(2013, 1, 1)][:100]))
    return deployment


def busy(severity: str, **more: Any) -> dict[str, Any]:
    """That a carrier has at most five flights a day."""
    kwargs = {"column": "flights", "max_value": 5, **more}
    return {"type": "expect_column_values_to_be_between", "kwargs": kwargs, "severity": severity}


def test_a_group_that_breaks_a_rule_is_recorded_and_written(flights: Deployment) -> None:
    flights.edit_suite("flights/gold", [busy("warning"), busy("critical", mostly=0.1)])

    gold = flights.run().flow("gold")

    assert (gold.state, gold.error) == ("done", None)
    (verdict,) = gold.verdicts
    assert verdict.outcome == "passed", "nothing is in quarantine"
    assert [(result.success, bool(result.unexpected)) for result in verdict.results] == [(False, True), (True, True)]
    written = flights.table("gold.daily_delay").column("flights").to_pylist()
    assert max(written) > 5 and len(written) == gold.batches[0].groups
    assert not (flights.layout.quarantine("flights", "gold") / "_delta_log").exists()


def test_a_critical_rule_below_its_mostly_refuses_the_groups_until_the_suite_is_mended(flights: Deployment) -> None:
    flights.edit_suite("flights/gold", [busy("critical", mostly=0.9)])

    refused = flights.run()

    assert [flow.state for flow in refused.flows] == ["done", "done", "refused"]
    assert not (flights.layout.table("gold.daily_delay") / "_delta_log").exists()
    flights.edit_suite("flights/gold", [busy("critical", mostly=0.1)])
    assert flights.run().flow("gold").state == "done"
    assert flights.table("gold.daily_delay").num_rows > 0
