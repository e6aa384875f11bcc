"""How far a flow is behind its topic, on a real broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.patience import PATIENCE
from tests.status.place import CLICKS, Place
from tidegate.embedded.broker import Broker
from tidegate.errors import OffsetsExpiredError, SourceError, SourceUnavailableError
from tidegate.spec import KafkaSource
from tidegate.status import lag


def test_without_a_broker_the_error_is_transient(place: Place) -> None:
    environment = replace(place.environment, kafka="127.0.0.1:1")
    with pytest.raises(SourceUnavailableError):
        lag.plan(environment, CLICKS, CLICKS.flows)


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_topic_is_behind_by_its_offsets_and_says_when_they_are_gone(place: Place, broker: Broker, topic: str) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    environment = replace(place.environment, kafka=broker.bootstrap)
    (declared,) = CLICKS.flows
    flow = replace(declared, source=KafkaSource(topic=topic, schema="a INT"))
    pipeline = replace(CLICKS, flows=(flow,))

    def measured() -> lag.Lag:
        return lag.measure(environment, pipeline, flow)

    with pytest.raises(SourceError, match=f"no topic '{topic}'"):
        measured()
    broker.create_topic(topic, partitions=2)
    assert (measured().has_work, measured().first) == (False, True)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(30):
        producer.produce(topic, value="x" * 10, partition=number % 2)
    assert producer.flush(PATIENCE) == 0
    told = measured()
    assert (told.has_work, told.behind, told.rows, told.rows_exact, told.bytes_exact) == (True, 30, 30, True, False)
    assert (told.reason, told.ahead) == (f"30 new messages in topic {topic}", "offsets 0:0-14 1:0-14")

    checkpoint = place.checkpoint("bronze", dag="clicks")
    checkpoint.run(0, {topic: {"0": 15, "1": 10}})
    told = measured()
    assert (told.has_work, told.behind, told.position, told.first) == (True, 5, "0:15 1:10", False)
    assert told.ahead == "offsets 1:10-14"
    checkpoint.run(1, {topic: {"0": 15, "1": 15}})
    assert measured().has_work is False
    checkpoint.plan(2, {topic: {"0": 15, "1": 15}})
    assert measured().has_work is True
    checkpoint.commit(2)

    checkpoint.run(3, {topic: {"0": 15}})
    assert measured().behind == 15, "a partition that the checkpoint does not know is new"
    checkpoint.run(4, {topic: {"0": 99, "1": 15}})
    with pytest.raises(OffsetsExpiredError, match="made anew"):
        measured()
    checkpoint.run(5, {topic: {"0": 15, "1": 15, "2": 1}})
    with pytest.raises(OffsetsExpiredError, match="no longer has that partition"):
        measured()
    checkpoint.run(6, {topic: {"0": 3, "1": 15}})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        deleted.result(PATIENCE)
    with pytest.raises(OffsetsExpiredError, match="deleted before they were read"):
        measured()
