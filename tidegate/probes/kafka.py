"""Reads the state of Kafka topics with librdkafka. Subscribes to nothing, commits nothing, creates nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.errors import NotDeliveredError
from tidegate.probes.broker_errors import deleted, failure
from tidegate.probes.connection import Client, check_listening, remaining

if TYPE_CHECKING:
    from tidegate.environment.clusters import Cluster
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

    name: str
    topic_id: str
    """Kafka's id of the topic, which changes when it is deleted and created again. Empty if the broker has no topic ids."""
    cluster_id: str
    bounds: dict[int, tuple[int, int]]
    """Partition to its first available offset, and its end: the offset at which a reader stops."""

    @property
    def ids(self) -> dict[str, str]:
        """Its id and that of its cluster, as arguments."""
        return {"topic_id": self.topic_id, "cluster_id": self.cluster_id}

    @property
    def begins(self) -> dict[int, int]:
        """Partition to its first available offset."""
        return {partition: begin for partition, (begin, _) in self.bounds.items()}

    @property
    def ends(self) -> dict[int, int]:
        """Partition to its end."""
        return {partition: end for partition, (_, end) in self.bounds.items()}


def end_offsets(cluster: Cluster, topic: str, timeout: float = 5.0) -> dict[int, int]:
    """The offset that the next message of each partition will have.

    Args:
        timeout: Total timeout in seconds.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return describe(cluster, topic, timeout).ends


def offset_bounds(
    cluster: Cluster, topic: str, timeout: float = 5.0, isolation: str = "read_uncommitted"
) -> dict[int, tuple[int, int]]:
    """The first available offset of each partition, and its end: the offset at which a reader stops.

    Args:
        timeout: Total timeout in seconds.
        isolation: Isolation level of the reader. ``read_committed`` stops before the first open transaction,
            ``read_uncommitted`` at the offset that the next message will have.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return describe(cluster, topic, timeout, isolation).bounds


def describe(cluster: Cluster, topic: str, timeout: float = 5.0, isolation: str = "read_uncommitted") -> Topic:
    """The ids and offset bounds of a topic. The topic id is read before and after the offsets, so both are of the same topic.

    Args:
        timeout: Total timeout in seconds.
        isolation: Isolation level of the reader, as in `offset_bounds`.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time, or the topic is deleted meanwhile. Transient.
    """
    level = _level(isolation)

    def request(client: Client, topic: str, deadline: float) -> Topic:
        described = client.admin.describe_cluster(request_timeout=remaining(deadline))
        id_before, partitions = _describe_topic(client, topic, deadline)
        bounds = _bounds(client, partitions, deadline, level)
        if _id_or_none(client, topic, deadline) != id_before:
            raise deleted(cluster, topic)
        cluster_id = str(client.answer(described, deadline).cluster_id or "")
        return Topic(name=topic, topic_id=id_before, cluster_id=cluster_id, bounds=bounds)

    return _with_client(cluster, topic, timeout, request)


def topic_id(cluster: Cluster, topic: str, timeout: float = 5.0) -> str:
    """Kafka's id of a topic; empty if the broker has no topic ids.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return _with_client(
        cluster, topic, timeout, lambda client, topic, deadline: _describe_topic(client, topic, deadline)[0]
    )


def is_compacted(cluster: Cluster, topic: str, timeout: float = 5.0) -> bool:
    """Whether the broker compacts a topic: it may delete any message that is not the newest of its key.

    Raises:
        NotDeliveredError: The topic does not exist.
        SourceUnavailableError: No broker answers in time. Transient.
    """
    return "compact" in settings_of(cluster, topic, timeout)["cleanup.policy"]


def settings_of(cluster: Cluster, topic: str, timeout: float) -> dict[str, str]:
    """The settings of a topic; errors as of `describe`."""
    from confluent_kafka import admin

    kinds: Any = admin  # its stubs lack both classes

    def request(client: Client, topic: str, deadline: float) -> dict[str, str]:
        resource = kinds.ConfigResource(kinds.ResourceType.TOPIC, topic)
        settings = client.admin.describe_configs([resource], request_timeout=remaining(deadline))[resource]
        return {name: str(entry.value) for name, entry in client.answer(settings, deadline).items()}

    return _with_client(cluster, topic, timeout, request)


def offsets_within(
    cluster: Cluster,
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
    first, ends = (offsets_at(cluster, topic, moment, timeout, isolation) for moment in (start, end))
    return {partition: (offset, max(offset, ends[partition])) for partition, offset in first.items()}


def offsets_at(cluster: Cluster, topic: str, moment: datetime, timeout: float, isolation: str) -> dict[int, int]:
    """The offset of the first message of each partition at or after a moment; the partition's end if there is none."""
    from confluent_kafka import admin

    specs: Any = admin.OffsetSpec
    # Negative timestamps have other meanings, for example -1 is the end.
    since, level = specs.for_timestamp(max(0, int(moment.timestamp() * 1000))), _level(isolation)

    def request(client: Client, topic: str, deadline: float) -> dict[int, int]:
        _, partitions = _describe_topic(client, topic, deadline)
        first, end = (_offsets(client, partitions, spec, deadline, level) for spec in (since, specs.latest()))
        # The broker returns -1 for a partition without such a message.
        return {partition: end[partition] if first[partition] < 0 else first[partition] for partition in sorted(end)}

    return _with_client(cluster, topic, timeout, request)


def _with_client(cluster: Cluster, topic: str, timeout: float, request: Callable[[Client, str, float], T]) -> T:
    """Send a request with an `AdminClient`, with retries while the leader of a partition changes."""
    from confluent_kafka import KafkaError, KafkaException

    deadline = time.monotonic() + timeout
    config = cluster.librdkafka()
    check_listening(cluster, topic, config.get("ssl.ca.pem"), timeout)
    client = Client(cluster, topic, config)
    retriable = (
        *(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE),
        *(KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.FENCED_LEADER_EPOCH),
    )
    while True:
        try:
            return request(client, topic, deadline)
        except KafkaException as error:
            # Just after a topic was created or its leader moved; the retry succeeds within a few polls.
            if error.args[0].code() not in retriable or time.monotonic() > deadline:
                client.admin.poll(0)
                raise failure(cluster, topic, error.args[0], client.reported) from None
            time.sleep(_PAUSE_SECONDS)
        except TimeoutError:
            client.admin.poll(0)
            waited = KafkaError(KafkaError._TIMED_OUT, f"no answer within {timeout:g} s")
            raise failure(cluster, topic, waited, client.reported) from None


def _level(isolation: str) -> Any:
    from confluent_kafka import IsolationLevel

    return IsolationLevel[isolation.upper()]


def _bounds(client: Client, partitions: list[Any], deadline: float, level: Any) -> dict[int, tuple[int, int]]:
    from confluent_kafka import admin

    specs: Any = admin.OffsetSpec
    begin, end = (_offsets(client, partitions, spec, deadline, level) for spec in (specs.earliest(), specs.latest()))
    return {partition: (begin[partition], end[partition]) for partition in sorted(end)}


def _offsets(client: Client, partitions: list[Any], spec: Any, deadline: float, level: Any) -> dict[int, int]:
    answers = client.admin.list_offsets(
        dict.fromkeys(partitions, spec), isolation_level=level, request_timeout=remaining(deadline)
    )
    return {partition.partition: client.answer(future, deadline).offset for partition, future in answers.items()}


def _id_or_none(client: Client, topic: str, deadline: float) -> str | None:
    """The id of a topic, None if it does not exist (any more)."""
    try:
        return _describe_topic(client, topic, deadline)[0]
    except NotDeliveredError:
        return None


def _describe_topic(client: Client, topic: str, deadline: float) -> tuple[str, list[Any]]:
    """The id and the partitions of a topic."""
    from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

    try:
        answers = client.admin.describe_topics(TopicCollection([topic]), request_timeout=remaining(deadline))
        description = client.answer(answers[topic], deadline)
    except KafkaException as error:
        if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise NotDeliveredError(f"topic {topic} of Kafka", "the declaration's topic") from None
        raise
    # librdkafka uses another base64 alphabet than Kafka's tools.
    topic_id = str(description.topic_id or "").translate(str.maketrans("+/", "-_", "="))
    partitions = [TopicPartition(topic, partition.id) for partition in description.partitions]
    return "" if topic_id == _NO_ID else topic_id, partitions
