"""How far a flow is behind its topic, on a real broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.status.place import CLICKS, PROJECT, Place
from tidegate.embedded import jars
from tidegate.embedded.broker import Broker
from tidegate.errors import OffsetsExpiredError, SourceError, SourceUnavailableError
from tidegate.status import lag


def test_without_a_broker_the_error_is_transient(place: Place) -> None:
    environment = replace(place.environment, kafka="127.0.0.1:1")
    with pytest.raises(SourceUnavailableError):
        lag.plan(environment, CLICKS, CLICKS.flows)


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_topic_is_behind_by_its_offsets_and_says_when_they_are_gone(place: Place, tmp_path: Path) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    with Broker(tmp_path / "kafka", class_path=jars.class_path(PROJECT, "broker")) as broker:
        environment = replace(place.environment, kafka=broker.bootstrap)
        (flow,) = CLICKS.flows

        def measured() -> lag.Lag:
            return lag.measure(environment, CLICKS, flow)

        with pytest.raises(SourceError, match="no topic 'clicks'"):
            measured()
        broker.create_topic("clicks", partitions=2)
        assert (measured().has_work, measured().first) == (False, True)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(30):
            producer.produce("clicks", value="x" * 10, partition=number % 2)
        producer.flush(10)
        told = measured()
        assert (told.has_work, told.behind, told.rows, told.rows_exact, told.bytes_exact) == (True, 30, 30, True, False)
        assert (told.reason, told.ahead) == ("30 new messages in topic clicks", "offsets 0:0-14 1:0-14")

        checkpoint = place.checkpoint("bronze", dag="clicks")
        checkpoint.run(0, {"clicks": {"0": 15, "1": 10}})
        told = measured()
        assert (told.has_work, told.behind, told.position, told.first) == (True, 5, "0:15 1:10", False)
        assert told.ahead == "offsets 1:10-14"
        checkpoint.run(1, {"clicks": {"0": 15, "1": 15}})
        assert measured().has_work is False
        checkpoint.plan(2, {"clicks": {"0": 15, "1": 15}})
        assert measured().has_work is True
        checkpoint.commit(2)

        checkpoint.run(3, {"clicks": {"0": 15}})
        assert measured().behind == 15, "a partition that the checkpoint does not know is new"
        checkpoint.run(4, {"clicks": {"0": 99, "1": 15}})
        with pytest.raises(OffsetsExpiredError, match="made anew"):
            measured()
        checkpoint.run(5, {"clicks": {"0": 15, "1": 15, "2": 1}})
        with pytest.raises(OffsetsExpiredError, match="no longer has that partition"):
            measured()
        checkpoint.run(6, {"clicks": {"0": 3, "1": 15}})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for deleted in admin.delete_records([TopicPartition("clicks", 0, 5)]).values():
            deleted.result(10)
        with pytest.raises(OffsetsExpiredError, match="deleted before they were read"):
            measured()
