"""What a Kafka topic holds, asked from the broker with librdkafka; nothing is subscribed, committed or created."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.errors import SourceError, SourceUnavailableError

if TYPE_CHECKING:
    from datetime import datetime

    from confluent_kafka.admin import AdminClient

_POLL_SECONDS = 0.1

_SAMPLE = 200
_SAMPLE_SECONDS = 1.0
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Zero as Kafka writes ids: what a broker older than 2.8 tells of its topics."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A topic as it is now."""

    topic_id: str
    """Kafka's own id of it: another one after it was deleted and made anew. Empty where the broker tells none."""
    cluster_id: str
    bounds: dict[int, tuple[int, int]]
    """By partition: the first offset that it still holds, and the one at which a reader stops."""


def end_offsets(bootstrap: str, topic: str, timeout: float = 5.0) -> dict[int, int]:
    """The offset that the next message of each partition will get.

    Args:
        bootstrap: ``host:port``, or several with commas.
        topic: Its name.
        timeout: Seconds for everything.

    Raises:
        SourceError: The broker knows no such topic.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return {partition: end for partition, (_, end) in offset_bounds(bootstrap, topic, timeout).items()}


def offset_bounds(
    bootstrap: str, topic: str, timeout: float = 5.0, isolation: str = "read_uncommitted"
) -> dict[int, tuple[int, int]]:
    """The first offset that each partition still holds, and the one at which a reader stops.

    Args:
        bootstrap: ``host:port``, or several with commas.
        topic: Its name.
        timeout: Seconds for everything.
        isolation: Of the reader. ``read_committed`` stops before the first transaction that is open;
            ``read_uncommitted`` at the offset that the next message will get.

    Raises:
        SourceError: The broker knows no such topic.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return look(bootstrap, topic, timeout, isolation).bounds


def look(bootstrap: str, topic: str, timeout: float = 5.0, isolation: str = "read_uncommitted") -> Topic:
    """A topic with its ids and its bounds, all of one moment: between the two looks at its id lies the one at its offsets.

    Args:
        bootstrap: ``host:port``, or several with commas.
        topic: Its name.
        timeout: Seconds for everything.
        isolation: Of the reader, as in `offset_bounds`.

    Raises:
        SourceError: The broker knows no such topic.
        SourceUnavailableError: No broker answers in time, or the topic is being made anew. Transient.
    """
    level = _level(isolation)

    def ask(client: AdminClient, topic: str, until: float) -> Topic:
        cluster = client.describe_cluster(request_timeout=_left(until))
        before, partitions = _described(client, topic, until)
        bounds = _bounds(client, partitions, until, level)
        after, _ = _described(client, topic, until)
        if before != after:
            raise _unavailable(bootstrap, f"topic {topic} is just being made anew")
        return Topic(topic_id=after, cluster_id=str(cluster.result(_left(until)).cluster_id or ""), bounds=bounds)

    return _asked(bootstrap, topic, timeout, ask)


def topic_id(bootstrap: str, topic: str, timeout: float = 5.0) -> str:
    """Kafka's own id of a topic; empty where the broker tells none.

    Raises:
        SourceError: The broker knows no such topic.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return _asked(bootstrap, topic, timeout, lambda client, topic, until: _described(client, topic, until)[0])


def offsets_within(
    bootstrap: str,
    topic: str,
    start: datetime,
    end: datetime,
    timeout: float = 5.0,
    isolation: str = "read_uncommitted",
) -> dict[int, tuple[int, int]]:
    """The range of each partition from its first message not older than ``start`` up to the first not older than ``end``.

    Messages before the range are older than the window. Timestamps that producers set may lie in any order: then some
    within the range are older too, and a message of the window may lie behind the range.

    Returns:
        Partition to its first offset, and the offset behind its last; both alike where there is none.

    Raises:
        SourceError: The broker knows no such topic.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    first, behind = (_offsets_at(bootstrap, topic, moment, timeout, isolation) for moment in (start, end))
    return {partition: (offset, max(offset, behind[partition])) for partition, offset in first.items()}


def message_bytes(
    bootstrap: str, topic: str, starts: Mapping[int, int], timeout: float = 5.0, isolation: str = "read_uncommitted"
) -> float | None:
    """How many bytes a message takes with its key and its headers, by the first ones behind some offsets.

    Nothing is committed, and no group is joined.

    Args:
        bootstrap: ``host:port``, or several with commas.
        topic: Its name.
        starts: Partition to the offset from which on it is looked at.
        timeout: Seconds for everything.
        isolation: Of the reader, as in `offset_bounds`.

    Returns:
        The mean of up to 200 messages; None where none came in time.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _error: None}
    group = {"group.id": "tidegate-look", "enable.auto.commit": False, "isolation.level": isolation}
    consumer = Consumer({"bootstrap.servers": bootstrap, **group, **quiet})
    sizes: list[int] = []
    until = time.monotonic() + timeout
    try:
        for partition, offset in starts.items():
            # Each on its own: of several the first to answer would fill the sample.
            consumer.assign([TopicPartition(topic, partition, offset)])
            wanted = max(1, _SAMPLE // len(starts))
            found = consumer.consume(wanted, timeout=min(_SAMPLE_SECONDS, _left(until)))
            sizes += [_size(message) for message in found if message.error() is None]
            if len(sizes) >= _SAMPLE or time.monotonic() > until:
                break
    except KafkaException:
        return None
    finally:
        consumer.close()
    return sum(sizes) / len(sizes) if sizes else None


def _size(message: Any) -> int:
    parts = [message.key(), message.value(), *(part for header in message.headers() or () for part in header)]
    return sum(len(part) for part in parts if part is not None)


def _offsets_at(bootstrap: str, topic: str, moment: datetime, timeout: float, isolation: str) -> dict[int, int]:
    """The first offset of each partition whose message is not older than a moment; the end where there is none.

    Raises:
        SourceError: The broker knows no such topic.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    from confluent_kafka import admin

    specs: Any = admin.OffsetSpec  # type: ignore[attr-defined]  # its stubs leave it out
    since, level = specs.for_timestamp(int(moment.timestamp() * 1000)), _level(isolation)

    def ask(client: AdminClient, topic: str, until: float) -> dict[int, int]:
        _, partitions = _described(client, topic, until)
        found, end = (_offsets(client, partitions, spec, until, level) for spec in (since, specs.latest()))
        return {partition: end[partition] if found[partition] < 0 else found[partition] for partition in sorted(end)}

    return _asked(bootstrap, topic, timeout, ask)


def _asked(bootstrap: str, topic: str, timeout: float, ask: Callable[[AdminClient, str, float], T]) -> T:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    until = time.monotonic() + timeout
    _check_listening(bootstrap, timeout)
    # Both silence librdkafka, which would tell each refused connection on standard error.
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _error: None}
    client = AdminClient(settings)
    moving = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    while True:
        try:
            return ask(client, topic, until)
        except KafkaException as error:
            # A topic that was just made, or whose leader just moved, settles within moments.
            if error.args[0].code() not in moving or time.monotonic() > until:
                raise _unavailable(bootstrap, error.args[0].str()) from None
            time.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise _unavailable(bootstrap, f"not within {timeout:g} s") from None


def _level(isolation: str) -> Any:
    from confluent_kafka import IsolationLevel

    return IsolationLevel[isolation.upper()]


def _bounds(client: AdminClient, partitions: list[Any], until: float, level: Any) -> dict[int, tuple[int, int]]:
    from confluent_kafka import admin

    specs: Any = admin.OffsetSpec  # type: ignore[attr-defined]  # its stubs leave it out
    begin, end = (_offsets(client, partitions, spec, until, level) for spec in (specs.earliest(), specs.latest()))
    return {partition: (begin[partition], end[partition]) for partition in sorted(end)}


def _offsets(client: AdminClient, partitions: list[Any], spec: Any, until: float, level: Any) -> dict[int, int]:
    asked = client.list_offsets(dict.fromkeys(partitions, spec), isolation_level=level, request_timeout=_left(until))
    return {found.partition: answer.result(_left(until)).offset for found, answer in asked.items()}


def _described(client: AdminClient, topic: str, until: float) -> tuple[str, list[Any]]:
    """Its id and its partitions."""
    from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

    try:
        asked = client.describe_topics(TopicCollection([topic]), request_timeout=_left(until))
        described = asked[topic].result(_left(until))
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise SourceError(f"Kafka has no topic {topic!r}; create it, or correct the declaration's topic") from None
        raise
    # librdkafka tells it in another base64 than Kafka's own tools.
    told = str(described.topic_id or "").translate(str.maketrans("+/", "-_", "="))
    return "" if told == _NO_ID else told, [TopicPartition(topic, partition.id) for partition in described.partitions]


def _check_listening(bootstrap: str, timeout: float) -> None:
    """Fail at once when nobody listens: librdkafka would try again until the time is up."""
    servers = [server.strip() for server in bootstrap.split(",") if server.strip()]
    reason = "no server is named"
    for server in servers:
        host, _, port = server.rpartition("://")[2].rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=max(0.2, timeout / 2 / len(servers))):
                return
        except (OSError, ValueError) as error:
            reason = str(error)
    raise _unavailable(bootstrap, reason)


def _left(until: float) -> float:
    return max(0.1, until - time.monotonic())


def _unavailable(bootstrap: str, reason: str) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"no Kafka broker answers at {bootstrap} ({reason}); start it, or correct TIDEGATE_KAFKA, and run again"
    )
