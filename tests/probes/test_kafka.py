"""A topic is asked from a real broker; one that is not there is told in time and without noise."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.embedded import jars
from tidegate.embedded.broker import Broker
from tidegate.errors import SourceError, SourceUnavailableError
from tidegate.probes.kafka import end_offsets, offset_bounds

PROJECT = Path(__file__).parents[2]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    "bootstrap", ["127.0.0.1:{port}", "PLAINTEXT://127.0.0.1:{port}", "127.0.0.1:{port},127.0.0.1:{port}", "no-port"]
)
def test_without_a_broker_it_fails_at_once_and_transiently(bootstrap: str, capfd: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with pytest.raises(SourceUnavailableError, match="no Kafka broker answers") as raised:
        end_offsets(bootstrap.format(port=unused_port()), "clicks")
    assert raised.value.transient
    assert time.monotonic() - started < 5
    assert capfd.readouterr().err == ""


def test_somebody_who_listens_and_never_answers_is_given_up_in_time(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        started = time.monotonic()
        with pytest.raises(SourceUnavailableError):
            end_offsets(f"127.0.0.1:{mute.getsockname()[1]}", "clicks", timeout=2)
    assert time.monotonic() - started < 4
    assert capfd.readouterr().err == ""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka"), class_path=jars.class_path(PROJECT, "broker")) as running:
        yield running


@pytest.mark.jvm
@pytest.mark.kafka
def test_bounds_are_what_was_produced_and_deleted(broker: Broker) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    broker.create_topic("clicks", partitions=3)
    assert end_offsets(broker.bootstrap, "clicks") == {0: 0, 1: 0, 2: 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(60):
        producer.produce("clicks", value=str(number), partition=number % 2)
    producer.flush(10)
    assert end_offsets(broker.bootstrap, "clicks") == {0: 30, 1: 30, 2: 0}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition("clicks", 0, 12)]).values():
        deleted.result(10)
    assert offset_bounds(broker.bootstrap, "clicks") == {0: (12, 30), 1: (0, 30), 2: (0, 0)}


@pytest.mark.jvm
@pytest.mark.kafka
def test_an_unknown_topic_is_named_and_not_created(broker: Broker) -> None:
    from confluent_kafka.admin import AdminClient

    with pytest.raises(SourceError, match="no topic 'clik'") as raised:
        end_offsets(broker.bootstrap, "clik")
    assert not raised.value.transient
    assert "clik" not in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=5).topics


@pytest.mark.jvm
@pytest.mark.kafka
def test_asking_is_quick(broker: Broker) -> None:
    broker.create_topic("wide", partitions=12)
    end_offsets(broker.bootstrap, "wide")
    took = []
    for _ in range(3):
        started = time.process_time()
        end_offsets(broker.bootstrap, "wide")
        took.append(time.process_time() - started)
    # The processor's time is that of all threads of this process, those that other tests left behind too.
    assert min(took) < 0.5
