"""Reads the state of Kafka topics with librdkafka. Subscribes to nothing, commits nothing, creates nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.errors import NotDeliveredError
from tidegate.probes.broker_errors import deleted, failure, unavailable

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


_PAUSE_SECONDS = 0.1
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The all-zero id in Kafka's notation: brokers before 2.8 have no topic ids."""

CONSUMER: Mapping[str, Any] = {
    "group.id": "tidegate-look",
    "enable.auto.commit": False,
    "log_level": 0,
    "error_cb": lambda _error: None,
}
"""Settings of consumers that only look; the last two stop librdkafka from logging each refused connection to standard error."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Topic:
    """The state of a topic."""

    topic_id: str
    """Kafka's id of the topic, which changes when it is deleted and created again. Empty if the broker has no topic ids."""
    cluster_id: str
    bounds: dict[int, tuple[int, int]]
    """Partition to its first available offset, and its end: the offset at which a reader stops."""


def end_offsets(bootstrap: str, topic: str, timeout: float = 5.0) -> dict[int, int]:
    """The offset that the next message of each partition will have.

    Args:
        bootstrap: ``host:port``, or several separated by commas.
        timeout: Total timeout in seconds.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return {partition: end for partition, (_, end) in offset_bounds(bootstrap, topic, timeout).items()}


def offset_bounds(
    bootstrap: str, topic: str, timeout: float = 5.0, isolation: str = "read_uncommitted"
) -> dict[int, tuple[int, int]]:
    """The first available offset of each partition, and its end: the offset at which a reader stops.

    Args:
        bootstrap: ``host:port``, or several separated by commas.
        timeout: Total timeout in seconds.
        isolation: Isolation level of the reader. ``read_committed`` stops before the first open transaction,
            ``read_uncommitted`` at the offset that the next message will have.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return describe(bootstrap, topic, timeout, isolation).bounds


def describe(bootstrap: str, topic: str, timeout: float = 5.0, isolation: str = "read_uncommitted") -> Topic:
    """The ids and offset bounds of a topic. The topic id is read before and after the offsets, so both are of the same topic.

    Args:
        bootstrap: ``host:port``, or several separated by commas.
        timeout: Total timeout in seconds.
        isolation: Isolation level of the reader, as in `offset_bounds`.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time, or the topic is deleted meanwhile. Transient.
    """
    level = _level(isolation)

    def request(client: AdminClient, topic: str, deadline: float) -> Topic:
        cluster = client.describe_cluster(request_timeout=remaining(deadline))
        id_before, partitions = _describe_topic(client, topic, deadline)
        bounds = _bounds(client, partitions, deadline, level)
        id_after, _ = _describe_topic(client, topic, deadline)
        if id_before != id_after:
            raise deleted(bootstrap, topic)
        cluster_id = str(cluster.result(remaining(deadline)).cluster_id or "")
        return Topic(topic_id=id_after, cluster_id=cluster_id, bounds=bounds)

    return _with_client(bootstrap, topic, timeout, request)


def topic_id(bootstrap: str, topic: str, timeout: float = 5.0) -> str:
    """Kafka's id of a topic; empty if the broker has no topic ids.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return _with_client(
        bootstrap, topic, timeout, lambda client, topic, deadline: _describe_topic(client, topic, deadline)[0]
    )


def is_compacted(bootstrap: str, topic: str, timeout: float = 5.0) -> bool:
    """Whether the broker compacts a topic: it may delete any message that is not the newest of its key.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return "compact" in settings_of(bootstrap, topic, timeout)["cleanup.policy"]


def settings_of(bootstrap: str, topic: str, timeout: float) -> dict[str, str]:
    """The settings of a topic; errors as of `describe`."""
    from confluent_kafka import admin

    kinds: Any = admin  # its stubs lack both classes

    def request(client: AdminClient, topic: str, deadline: float) -> dict[str, str]:
        resource = kinds.ConfigResource(kinds.ResourceType.TOPIC, topic)
        settings = client.describe_configs([resource], request_timeout=remaining(deadline))[resource]
        return {name: str(entry.value) for name, entry in settings.result(remaining(deadline)).items()}

    return _with_client(bootstrap, topic, timeout, request)


def offsets_within(
    bootstrap: str,
    topic: str,
    start: datetime,
    end: datetime,
    timeout: float = 5.0,
    isolation: str = "read_uncommitted",
) -> dict[int, tuple[int, int]]:
    """The offsets of each partition from its first message at or after ``start`` to its first at or after ``end``.

    All messages before the range are older than ``start``. Timestamps set by producers can be out of order: then the range can
    contain older messages, and messages of the window can come after the range.

    Returns:
        Partition to its first offset and its end offset (exclusive); equal if the range is empty.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    first, ends = (offsets_at(bootstrap, topic, moment, timeout, isolation) for moment in (start, end))
    return {partition: (offset, max(offset, ends[partition])) for partition, offset in first.items()}


def offsets_at(bootstrap: str, topic: str, moment: datetime, timeout: float, isolation: str) -> dict[int, int]:
    """The offset of the first message of each partition at or after a moment; the partition's end if there is none."""
    from confluent_kafka import admin

    specs: Any = admin.OffsetSpec
    # Negative timestamps have other meanings, for example -1 is the end.
    since, level = specs.for_timestamp(max(0, int(moment.timestamp() * 1000))), _level(isolation)

    def request(client: AdminClient, topic: str, deadline: float) -> dict[int, int]:
        _, partitions = _describe_topic(client, topic, deadline)
        first, end = (_offsets(client, partitions, spec, deadline, level) for spec in (since, specs.latest()))
        # The broker returns -1 for a partition without such a message.
        return {partition: end[partition] if first[partition] < 0 else first[partition] for partition in sorted(end)}

    return _with_client(bootstrap, topic, timeout, request)


def _with_client(bootstrap: str, topic: str, timeout: float, request: Callable[[AdminClient, str, float], T]) -> T:
    """Send a request with an `AdminClient`, with retries while the leader of a partition changes."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    deadline = time.monotonic() + timeout
    _check_listening(bootstrap, timeout)
    # Both settings stop librdkafka from logging each refused connection to standard error.
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _error: None}
    client = AdminClient(settings)
    retriable = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    while True:
        try:
            return request(client, topic, deadline)
        except KafkaException as error:
            # Just after a topic was created or its leader moved; the retry succeeds within a few polls.
            if error.args[0].code() not in retriable or time.monotonic() > deadline:
                raise failure(bootstrap, topic, error.args[0]) from None
            time.sleep(_PAUSE_SECONDS)
        except TimeoutError:
            raise unavailable(bootstrap, f"no answer within {timeout:g} s") from None


def _level(isolation: str) -> Any:
    from confluent_kafka import IsolationLevel

    return IsolationLevel[isolation.upper()]


def _bounds(client: AdminClient, partitions: list[Any], deadline: float, level: Any) -> dict[int, tuple[int, int]]:
    from confluent_kafka import admin

    specs: Any = admin.OffsetSpec
    begin, end = (_offsets(client, partitions, spec, deadline, level) for spec in (specs.earliest(), specs.latest()))
    return {partition: (begin[partition], end[partition]) for partition in sorted(end)}


def _offsets(client: AdminClient, partitions: list[Any], spec: Any, deadline: float, level: Any) -> dict[int, int]:
    futures = client.list_offsets(
        dict.fromkeys(partitions, spec), isolation_level=level, request_timeout=remaining(deadline)
    )
    return {partition.partition: future.result(remaining(deadline)).offset for partition, future in futures.items()}


def _describe_topic(client: AdminClient, topic: str, deadline: float) -> tuple[str, list[Any]]:
    """The id and the partitions of a topic."""
    from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

    try:
        futures = client.describe_topics(TopicCollection([topic]), request_timeout=remaining(deadline))
        description = futures[topic].result(remaining(deadline))
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise NotDeliveredError(f"topic {topic} of Kafka", "the declaration's topic") from None
        raise
    # librdkafka uses another base64 alphabet than Kafka's tools.
    topic_id = str(description.topic_id or "").translate(str.maketrans("+/", "-_", "="))
    partitions = [TopicPartition(topic, partition.id) for partition in description.partitions]
    return "" if topic_id == _NO_ID else topic_id, partitions


def _check_listening(bootstrap: str, timeout: float) -> None:
    """Fail at once if no server listens; librdkafka would retry until the timeout."""
    servers = [server.strip() for server in bootstrap.split(",") if server.strip()]
    reason = "no server is configured"
    for server in servers:
        host, _, port = server.rpartition("://")[2].rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=max(0.2, timeout / 2 / len(servers))):
                return
        except (OSError, ValueError) as error:
            reason = str(error)
    raise unavailable(bootstrap, reason)


def remaining(deadline: float) -> float:
    """Seconds until a deadline, at least a tenth."""
    return max(0.1, deadline - time.monotonic())
