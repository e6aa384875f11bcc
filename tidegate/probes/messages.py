"""Reads a range of a topic's messages with librdkafka, which converts nothing. Subscribes to nothing, commits nothing."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

from tidegate.advice import OutsideAct
from tidegate.errors import OffsetsExpiredError, SourceError
from tidegate.probes import broker_errors, kafka
from tidegate.times import dates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import KafkaError

    from tidegate.environment.clusters import Cluster

RULE = "timestamp_out_of_range"
"""The rule of a message whose timestamp is outside of `tidegate.times.dates.FIRST_MS` and `tidegate.times.dates.END_MS`."""
_SILENCE_SECONDS = 15.0
"""How long no message may arrive, as for Spark's connector (`tidegate.spark.intake.topic_reader.BROKER_TIMEOUTS`)."""
_POLL_SECONDS = 0.1


def read_range(
    cluster: Cluster,
    topic: str,
    partition: int,
    first: int,
    end: int,
    *,
    isolation: str,
    silence: float = _SILENCE_SECONDS,
) -> Iterator[Any]:
    """The messages of a partition, in the order of their offsets, without those of aborted transactions.

    Args:
        topic: Its name.
        partition: Its number.
        first: The first offset.
        end: The offset after the last one; the partition goes at least so far. Compaction and transactions leave offsets without a
            message.
        isolation: Isolation level of the reader, as in `kafka.offset_bounds`.
        silence: Seconds without a message after which the broker counts as not responding.

    Yields:
        Messages of ``confluent_kafka``.

    Raises:
        OffsetsExpiredError: The broker deleted messages of the range.
        SourceUnavailableError: The broker does not answer. Transient.
        SourceError: The broker has stored a message that is damaged.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    settings: dict[str, Any] = {
        "isolation.level": isolation,
        "enable.partition.eof": True,
        # A deleted message must not be passed over, nor a damaged one be read.
        "auto.offset.reset": "error",
        "check.crcs": True,
    }
    consumer = Consumer({**cluster.librdkafka(), **kafka.CONSUMER, **settings})
    position, deadline = first, time.monotonic() + silence
    try:
        consumer.assign([TopicPartition(topic, partition, first)])
        while position < end:
            message: Any = consumer.poll(_POLL_SECONDS)
            if message is None:
                if time.monotonic() > deadline:
                    raise broker_errors.unavailable(cluster, topic, f"no message within {silence:g} s")
                continue
            error, deadline = message.error(), time.monotonic() + silence
            if error is None and message.offset() < end:
                position = message.offset() + 1
                yield message
            elif error is None:
                return
            elif error.code() != KafkaError._PARTITION_EOF:
                raise _failure(cluster, topic, partition, position, error)
            elif message.offset() < end:
                raise _lost(topic, partition, position, f"the partition ends at {message.offset()}")
            else:
                return
    except KafkaException as error:
        raise _failure(cluster, topic, partition, position, error.args[0]) from None
    finally:
        consumer.close()


def as_text(message: Any) -> str:
    """A message without its coordinates, as JSON: bytes that are UTF-8 as ``key`` and ``value``, others as ``key_base64`` and so on."""
    headers = [{"name": name, **_part("value", value)} for name, value in message.headers() or ()]
    parts = _part("key", message.key()) | _part("value", message.value())
    return json.dumps(parts | ({"headers": headers} if headers else {}), ensure_ascii=False)


def sent_ms(message: Any) -> int:
    """Its timestamp in milliseconds since 1970; -1 for none, as Kafka's own clients say."""
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

    kind, milliseconds = message.timestamp()
    return -1 if kind == TIMESTAMP_NOT_AVAILABLE else int(milliseconds)


def is_refused(message: Any) -> bool:
    """Whether its timestamp is one that not all readers of a table show alike."""
    return not dates.FIRST_MS <= sent_ms(message) < dates.END_MS


def _part(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def _failure(cluster: Cluster, topic: str, partition: int, position: int, error: KafkaError) -> SourceError:
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
        return _lost(topic, partition, position, "the broker deleted it")
    if error.code() in (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.INVALID_MSG):
        return SourceError(
            f"topic {topic}, partition {partition}: the broker cannot deliver the message at offset {position}, or one of the next: it is "
            f"damaged ({error.str()}).",
            OutsideAct(
                "restore the partition from a replica, or have the broker delete its messages up to the damaged one (kafka-delete-records) "
                "and accept the gap that the next run names"
            ),
        )
    return broker_errors.failure(cluster, topic, error)


def _lost(topic: str, partition: int, offset: int, why: str) -> OffsetsExpiredError:
    return OffsetsExpiredError(
        f"topic {topic}, partition {partition}: the message at offset {offset} was planned to be read, but {why}.",
        OutsideAct("run again: if it is gone for good, the error names the gap to accept"),
    )
