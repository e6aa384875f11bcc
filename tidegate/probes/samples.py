"""Looks at some messages of a topic with librdkafka. Joins no consumer group, commits nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.probes import broker_errors
from tidegate.probes.connection import remaining
from tidegate.probes.kafka import CONSUMER, offset_bounds
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.environment.clusters import Cluster

_SAMPLE_MESSAGES = 200
_SAMPLE_SECONDS = 1.0
_POLL_SECONDS = 0.1


def message_bytes(
    cluster: Cluster, topic: str, starts: Mapping[int, int], timeout: float = 5.0, isolation: str = "read_uncommitted"
) -> float | None:
    """The mean size of messages in bytes, with keys and headers, from a sample at given offsets.

    Commits nothing and joins no consumer group.

    Args:
        starts: Partition to the offset at which its sample starts.
        timeout: Seconds for everything.
        isolation: Isolation level of the reader, as in `offset_bounds`.

    Returns:
        The mean of up to 200 messages; None if none arrived in time.
    """
    sizes = [_size(message) for message in consume(cluster, topic, starts, _SAMPLE_MESSAGES, timeout, isolation)]
    return sum(sizes) / len(sizes) if sizes else None


def next_timestamps(
    cluster: Cluster, topic: str, starts: Mapping[int, int], timeout: float = 5.0
) -> dict[int, datetime | None]:
    """The timestamp of the first message at or after an offset of each partition, of open transactions too; None at the partition's end.

    A partition that does not answer in time is left out, and so is one whose message has no timestamp, or one that is out of range. Commits
    nothing and joins no consumer group.

    Args:
        starts: Partition to offset.
        timeout: Seconds for everything.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    settings: dict[str, Any] = {
        "isolation.level": "read_uncommitted",
        "enable.partition.eof": True,
        # An offset that was deleted meanwhile must not count as the end.
        "auto.offset.reset": "error",
        # One message of each partition is enough: not more is fetched ahead.
        "queued.min.messages": 1,
        "fetch.message.max.bytes": 65_536,
    }
    consumer = Consumer({**cluster.librdkafka(), **CONSUMER, **settings})
    moments: dict[int, datetime | None] = {}
    deadline, waiting = time.monotonic() + timeout, set(starts)
    try:
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in starts.items()])
        while waiting and time.monotonic() < deadline:
            message = consumer.poll(_POLL_SECONDS)
            partition = None if message is None else message.partition()
            if message is None or partition is None or partition not in waiting:
                continue
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                continue
            waiting.discard(partition)
            consumer.incremental_unassign([TopicPartition(topic, partition)])
            if error is not None:
                moments[partition] = None
            elif 0 < (sent_ms := message.timestamp()[1]) < dates.END_MS:
                moments[partition] = datetime.fromtimestamp(sent_ms / 1000, UTC)
    except KafkaException:
        return moments
    finally:
        consumer.close()
    return moments


def newest_values(
    cluster: Cluster, topic: str, limit: int, timeout: float = 10.0, isolation: str = "read_committed"
) -> list[bytes | None]:
    """The values of the newest messages, about as many from each partition, oldest first in each.

    Commits nothing and joins no consumer group.

    Raises:
        SourceUnavailableError: The broker does not answer, or the topic does not exist.
    """
    bounds = offset_bounds(cluster, topic, timeout, isolation)
    each = max(1, limit // max(1, len(bounds)))
    starts = {partition: max(first, end - each) for partition, (first, end) in bounds.items() if end > first}
    return [message.value() for message in consume(cluster, topic, starts, limit, timeout, isolation)]


def consume(
    cluster: Cluster, topic: str, starts: Mapping[int, int], limit: int, timeout: float, isolation: str
) -> list[Any]:
    """Up to so many messages from given offsets; fewer if they do not arrive in time.

    Raises:
        SourceError: The user may not read the topic.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    consumer = Consumer({**cluster.librdkafka(), **CONSUMER, "isolation.level": isolation})
    messages: list[Any] = []
    deadline = time.monotonic() + timeout
    try:
        for partition, offset in starts.items():
            # One partition at a time: else the partition that answers first would fill the sample.
            consumer.assign([TopicPartition(topic, partition, offset)])
            count = max(1, limit // len(starts))
            received = consumer.consume(count, timeout=min(_SAMPLE_SECONDS, remaining(deadline)))
            for error in filter(None, (message.error() for message in received)):
                if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise broker_errors.failure(cluster, topic, error)
            messages += [message for message in received if message.error() is None]
            if len(messages) >= limit or time.monotonic() > deadline:
                break
    except KafkaException:
        return []
    finally:
        consumer.close()
    return messages


def _size(message: Any) -> int:
    parts = [message.key(), message.value(), *(part for header in message.headers() or () for part in header)]
    return sum(len(part) for part in parts if part is not None)
