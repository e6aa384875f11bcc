"""Transforms and gates on a few rows, of the example pipelines and of flows that are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from tests.spark_jobs.test_flights import FLIGHT
from tidegate.errors import GateRefusedError, RequestError, SpecError
from tidegate.testing import judge_rows, transform_rows

pytestmark = [pytest.mark.jvm, pytest.mark.usefixtures("spark")]


def test_records_are_parsed_as_their_source_declares() -> None:
    texts, values, unfit = transform_rows(
        "flights",
        "silver",
        FLIGHT,
        {**FLIGHT, "year": 2013, "dep_delay": None, "published_on": datetime(2013, 1, 2, 11, tzinfo=UTC)},
        {**FLIGHT, "dep_delay": "late"},
    )
    assert {**texts, "_row_id": "r1", "dep_delay": None, "departed_at": None} == values
    assert (texts["dep_delay"], unfit["dep_delay"], texts["day"]) == (2, None, date(2013, 1, 1))


@pytest.mark.gx
def test_rows_are_judged_by_the_suite_and_a_batch_may_be_refused() -> None:
    good = [{**FLIGHT, "flight": number} for number in range(20)]
    judged = judge_rows("flights", "silver", *good, {**FLIGHT, "origin": "ZRH"}, {**FLIGHT, "dest": "LGA"})
    assert [each.disposition for each in judged] == ["written"] * 20 + ["quarantined", "filtered"]
    assert [each.rules for each in judged[20:]] == [("in_set(origin)",), ("ferry_flight",)]
    assert judged[0].row["flight_id"] == "20130101T10Z-UA-0"
    with pytest.raises(GateRefusedError):
        judge_rows("flights", "silver", {**FLIGHT, "sched_dep_time": "2575"})


def test_a_flow_that_cannot_be_tested_so_says_why() -> None:
    with pytest.raises(RequestError, match="lands records as they are"):
        transform_rows("flights", "bronze", {})
    with pytest.raises(RequestError, match=r"computes groups; run it in a tidegate\.testing\.Lake"):
        judge_rows("flights", "gold", {})
    with pytest.raises(RequestError, match="has no column wind; it has flight_id, day"):
        transform_rows("flights", "gold", {"wind": 1.0})
    with pytest.raises(RequestError, match="airlines"):
        transform_rows("delays", "delays", {}, weather=[])
    with pytest.raises(SpecError, match="has no flow 'iron'"):
        transform_rows("flights", "iron")
