"""Topics are read from a real broker; a missing broker is reported in time and without log output."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from typing import Any

import pytest

from devstack.broker import Broker
from tests import topics
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.environment.clusters import Cluster
from tidegate.errors import NotDeliveredError, SourceUnavailableError
from tidegate.probes import kafka, retention
from tidegate.probes.kafka import end_offsets, offset_bounds

pytestmark = pytest.mark.slow

NEVER = 3600.0
"""Seconds; longer than the timeout of a test."""


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    "bootstrap", ["127.0.0.1:{port}", "PLAINTEXT://127.0.0.1:{port}", "127.0.0.1:{port},127.0.0.1:{port}", "no-port"]
)
def test_without_a_broker_a_request_fails_at_once_with_a_transient_error(
    bootstrap: str, capfd: pytest.CaptureFixture[str]
) -> None:
    # Without the check of the port the request would retry until `NEVER`.
    with pytest.raises(SourceUnavailableError, match="no Kafka broker answers") as raised:
        end_offsets(Cluster(servers=bootstrap.format(port=unused_port())), "clicks", timeout=NEVER)
    assert raised.value.transient
    assert capfd.readouterr().err == ""


def test_a_server_that_never_answers_is_given_up_in_time(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(SourceUnavailableError):
            end_offsets(Cluster(servers=f"127.0.0.1:{silent.getsockname()[1]}"), "clicks", timeout=0.5)
    assert capfd.readouterr().err == ""


@pytest.mark.jvm
@pytest.mark.kafka
def test_bounds_follow_produced_and_deleted_messages(broker: Broker, topic: str) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    broker.create_topic(topic, partitions=3)
    assert end_offsets(broker.cluster, topic, TIMEOUT_SECONDS) == {0: 0, 1: 0, 2: 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(60):
        producer.produce(topic, value=str(number), partition=number % 2)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    assert end_offsets(broker.cluster, topic, TIMEOUT_SECONDS) == {0: 30, 1: 30, 2: 0}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 12)]).values():
        deleted.result(TIMEOUT_SECONDS)
    assert offset_bounds(broker.cluster, topic, TIMEOUT_SECONDS) == {0: (12, 30), 1: (0, 30), 2: (0, 0)}


@pytest.mark.jvm
@pytest.mark.kafka
def test_an_unknown_topic_is_an_error_and_is_not_created(broker: Broker, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    with pytest.raises(NotDeliveredError, match=f"topic {topic} of Kafka does not exist") as raised:
        end_offsets(broker.cluster, topic, TIMEOUT_SECONDS)
    assert not raised.value.transient
    assert topic not in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=TIMEOUT_SECONDS).topics


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.parametrize("when", ["before its offsets are read", "after them", "after them, and created again"])
def test_the_error_for_a_topic_that_is_deleted_meanwhile_says_so(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    from confluent_kafka.admin import AdminClient

    broker.create_topic(topic)
    read_bounds = kafka._bounds

    def delete(*arguments: Any) -> dict[int, tuple[int, int]]:
        bounds = {} if when.startswith("before") else read_bounds(*arguments)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics([topic], operation_timeout=30)[topic].result(TIMEOUT_SECONDS)
        wait_until(lambda: topic not in admin.list_topics(timeout=TIMEOUT_SECONDS).topics, "the topic is deleted")
        if when.endswith("created again"):
            broker.create_topic(topic)
        return bounds or read_bounds(*arguments)

    monkeypatch.setattr(kafka, "_bounds", delete)
    with pytest.raises(SourceUnavailableError, match=f"topic '{topic}' at .* was deleted while") as raised:
        kafka.describe(broker.cluster, topic, TIMEOUT_SECONDS)
    assert "start it" not in raised.value.message


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_topic_with_many_partitions_has_bounds_for_each(broker: Broker, topic: str) -> None:
    broker.create_topic(topic, partitions=12)
    assert end_offsets(broker.cluster, topic, TIMEOUT_SECONDS) == dict.fromkeys(range(12), 0)


@pytest.mark.jvm
@pytest.mark.kafka
def test_unread_messages_are_kept_for_the_rest_of_the_retention_time_of_the_oldest_one(
    broker: Broker, topic: str
) -> None:
    hour, now = 3_600_000, datetime.now(UTC)
    sent = round(now.timestamp() * 1000) - 6 * hour
    broker.create_topic(topic, 3, {"retention.ms": str(10 * hour)})
    for partition, moment in ((0, sent), (1, sent + hour // 2), (2, 0)):
        topics.send(broker, topic, range(3), partition, sent_ms=moment)

    def until(**unread: int) -> datetime | None:
        return retention.unread_until(broker.cluster, topic, {int(name[1:]): offset for name, offset in unread.items()})

    def deleted(milliseconds: int) -> datetime:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)

    assert until(p0=1, p1=0, p2=0) == deleted(sent + 10 * hour)
    assert until(p1=2, p2=0) == deleted(sent + hour // 2 + 10 * hour), "partition 0 is read to its end"
    assert until(p2=0) is None, "younger than half of the retention"
    topics.configure(broker, topic, retention_ms="-1")
    wait_until(lambda: until(p0=0) is None, "the topic keeps all messages")
    assert retention.unread_until(Cluster(servers="127.0.0.1:1"), topic, {0: 0}) is None
