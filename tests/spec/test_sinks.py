"""A sink is the target of a flow that sends a table as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.spec.trips import FILES, SILVER, TRIPS
from tidegate.errors import FieldError
from tidegate.project.fingerprints import fingerprint
from tidegate.spec import ChangeFeed, Flow, FunctionSink, Gate, KafkaSink, Table

SENT = Flow(name="sent", source=ChangeFeed("silver.trips"), target=KafkaSink("trips.all"))


def test_a_flow_with_a_sink_sends_and_its_sink_has_a_name_like_a_table() -> None:
    assert (SENT.kind.sends, SENT.target.name, SENT.target.layer) == (True, "kafka.trips.all", "kafka")
    assert not SILVER.kind.sends
    with_sink = replace(TRIPS, flows=(SENT, *TRIPS.flows))
    assert [flow.name for flow in with_sink.flows] == ["bronze", "silver", "sent", "gold"]


@pytest.mark.parametrize("topic", ["", "a b", ".", "..", "ä", "a/b", "x" * 250, 7])
def test_names_that_kafka_does_not_allow_are_refused(topic: str) -> None:
    with pytest.raises(FieldError, match="KafkaSink: topic="):
        KafkaSink(topic)


def test_a_sink_of_another_cluster_is_another_sink() -> None:
    assert [KafkaSink("a").name, KafkaSink("a", cluster="events").name] == ["kafka.a", "kafka.a@events"]
    with pytest.raises(FieldError, match="KafkaSink: cluster='Events'"):
        KafkaSink("a", cluster="Events")


@pytest.mark.parametrize("name", ["orders", "gold.orders", "kafka.orders", "Postgres.orders", "postgres.", 7])
def test_a_function_sink_has_the_name_of_its_system(name: str) -> None:
    assert FunctionSink("postgres.orders", write="orders_out:upsert").layer == "postgres"
    with pytest.raises(FieldError, match="FunctionSink: name="):
        FunctionSink(name, write="orders_out:upsert")
    with pytest.raises(FieldError, match="as in 'orders_out:upsert'"):
        FunctionSink("postgres.orders", write="orders_out.upsert")


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        (
            {"transform": "trips:clean"},
            "none for a flow that sends a table: declare it on the flow that writes silver.trips",
        ),
        (
            {"gate": Gate("trips/silver")},
            "none for a flow that sends a table: declare it on the flow that writes silver.trips",
        ),
        ({"source": FILES}, "a table without keys for a landing flow"),
        ({"target": "trips"}, "a Table, a KafkaSink or a FunctionSink"),
    ],
)
def test_a_flow_sends_a_table_as_it_is(wrong: dict[str, object], allowed: str) -> None:
    with pytest.raises(FieldError, match=allowed):
        replace(SENT, **wrong)  # type: ignore[arg-type]  # that is what the test is about


def test_source_and_topic_are_in_the_fingerprint() -> None:
    for changed in (
        replace(SENT, target=KafkaSink("other")),
        replace(SENT, source=ChangeFeed("gold.trips")),
        replace(SENT, target=Table("silver.all", keys=("id",), sequence_by=("at",))),
    ):
        assert fingerprint(changed.remembered()) != fingerprint(SENT.remembered())
    assert fingerprint(replace(SENT, checkpoint_version=2).remembered()) == fingerprint(SENT.remembered())
