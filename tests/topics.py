"""Topics of a real broker, as tests fill them, make them anew and cut them off."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.patience import PATIENCE, until
from tidegate.embedded.broker import Broker
from tidegate.errors import SourceError
from tidegate.probes import kafka


def send(broker: Broker, topic: str, ids: Iterable[int], partition: int = 0) -> None:
    """A message ``{"id": <id>}`` for each."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for each in ids:
        producer.produce(topic, json.dumps({"id": each}).encode(), partition=partition)
    assert producer.flush(PATIENCE) == 0


def make_anew(broker: Broker, topic: str, partitions: int = 1) -> None:
    """Delete a topic and create it again under its name."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(PATIENCE)

    def gone() -> bool:
        try:
            kafka.end_offsets(broker.bootstrap, topic, PATIENCE)
        except SourceError:
            return True
        return False

    until(gone, f"the topic {topic} to be gone")
    until(lambda: broker.create_topic(topic, partitions), f"the topic {topic} to be there again")


def delete_before(broker: Broker, topic: str, offset: int, partition: int = 0) -> None:
    """Delete the messages of a partition below an offset, as its retention would."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for deleted in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        deleted.result(PATIENCE)
