"""A topic is asked from a real broker; one that is not there is told in time and without noise."""

from __future__ import annotations

import socket

import pytest

from tests.patience import PATIENCE
from tidegate.embedded.broker import Broker
from tidegate.errors import SourceError, SourceUnavailableError
from tidegate.probes.kafka import end_offsets, offset_bounds

NEVER = 3600.0
"""Seconds; whoever waits so long is ended by pytest."""


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    "bootstrap", ["127.0.0.1:{port}", "PLAINTEXT://127.0.0.1:{port}", "127.0.0.1:{port},127.0.0.1:{port}", "no-port"]
)
def test_without_a_broker_it_fails_at_once_and_transiently(bootstrap: str, capfd: pytest.CaptureFixture[str]) -> None:
    # It would ask until `NEVER` if it did not hear that the port is closed.
    with pytest.raises(SourceUnavailableError, match="no Kafka broker answers") as raised:
        end_offsets(bootstrap.format(port=unused_port()), "clicks", timeout=NEVER)
    assert raised.value.transient
    assert capfd.readouterr().err == ""


def test_somebody_who_listens_and_never_answers_is_given_up_in_time(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(SourceUnavailableError):
            end_offsets(f"127.0.0.1:{mute.getsockname()[1]}", "clicks", timeout=0.5)
    assert capfd.readouterr().err == ""


@pytest.mark.jvm
@pytest.mark.kafka
def test_bounds_are_what_was_produced_and_deleted(broker: Broker, topic: str) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    broker.create_topic(topic, partitions=3)
    assert end_offsets(broker.bootstrap, topic, PATIENCE) == {0: 0, 1: 0, 2: 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(60):
        producer.produce(topic, value=str(number), partition=number % 2)
    assert producer.flush(PATIENCE) == 0
    assert end_offsets(broker.bootstrap, topic, PATIENCE) == {0: 30, 1: 30, 2: 0}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 12)]).values():
        deleted.result(PATIENCE)
    assert offset_bounds(broker.bootstrap, topic, PATIENCE) == {0: (12, 30), 1: (0, 30), 2: (0, 0)}


@pytest.mark.jvm
@pytest.mark.kafka
def test_an_unknown_topic_is_named_and_not_created(broker: Broker, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    with pytest.raises(SourceError, match=f"no topic '{topic}'") as raised:
        end_offsets(broker.bootstrap, topic, PATIENCE)
    assert not raised.value.transient
    assert topic not in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=PATIENCE).topics


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_wide_topic_is_told_partition_by_partition(broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=12)
    assert end_offsets(broker.bootstrap, topic, PATIENCE) == dict.fromkeys(range(12), 0)
