"""Helpers for topics of a real broker: send messages, recreate a topic, delete messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from devstack.broker import Broker
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.errors import SourceError
from tidegate.probes import kafka


def send(broker: Broker, topic: str, ids: Iterable[int], partition: int = 0, *, sent_ms: int = 0) -> None:
    """Send a message ``{"id": <id>}`` for each id.

    Args:
        sent_ms: The timestamp of the messages, in milliseconds since 1970; now by default.
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for each in ids:
        producer.produce(topic, json.dumps({"id": each}).encode(), partition=partition, timestamp=sent_ms)
    assert producer.flush(TIMEOUT_SECONDS) == 0


def values(broker: Broker, topic: str, partition: int = 0) -> dict[int, Any]:
    """What a plain client reads of a partition, from its first message to its end: offset to value, parsed."""
    from confluent_kafka import Consumer, TopicPartition

    end = kafka.end_offsets(broker.cluster, topic)[partition]
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "plain", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    read: dict[int, Any] = {}
    while max(read, default=-1) < end - 1:
        message = consumer.poll(TIMEOUT_SECONDS)
        assert message is not None
        value, offset = message.value(), message.offset()
        assert value is not None and offset is not None, message.error()
        read[offset] = json.loads(value)
    consumer.close()
    return read


def recreate(broker: Broker, topic: str, partitions: int = 1) -> None:
    """Delete a topic and create it again with the same name."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(TIMEOUT_SECONDS)

    def deleted() -> bool:
        try:
            kafka.end_offsets(broker.cluster, topic, TIMEOUT_SECONDS)
        except SourceError:
            return True
        return False

    wait_until(deleted, f"the topic {topic} is deleted")
    wait_until(lambda: broker.create_topic(topic, partitions), f"the topic {topic} is created again")


def configure(broker: Broker, topic: str, **settings: str) -> None:
    """Change settings of a topic; ``_`` in a name stands for ``.``."""
    from confluent_kafka import admin

    kinds: Any = admin  # its stubs lack these classes
    entries = [
        kinds.ConfigEntry(name.replace("_", "."), value, incremental_operation=kinds.AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = kinds.ConfigResource(kinds.ResourceType.TOPIC, topic, incremental_configs=entries)
    client = admin.AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for future in client.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_SECONDS)


def delete_before(broker: Broker, topic: str, offset: int, partition: int = 0) -> None:
    """Delete the messages of a partition below an offset, as retention does."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for future in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        future.result(TIMEOUT_SECONDS)
