"""Reads the state of Kafka topics with librdkafka. Subscribes to nothing, commits nothing, creates nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import NotDeliveredError, SourceError, SourceUnavailableError
from tidegate.times import dates

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

_POLL_SECONDS = 0.1

_SAMPLE_MESSAGES = 200
_SAMPLE_SECONDS = 1.0
_LONGEST_RETENTION_MS = 10 * 366 * 86_400_000
"""Ten years. Without a limit, a time that is computed from it may overflow."""
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
        cluster = client.describe_cluster(request_timeout=_remaining(deadline))
        id_before, partitions = _describe_topic(client, topic, deadline)
        bounds = _bounds(client, partitions, deadline, level)
        id_after, _ = _describe_topic(client, topic, deadline)
        if id_before != id_after:
            raise _deleted(bootstrap, topic)
        cluster_id = str(cluster.result(_remaining(deadline)).cluster_id or "")
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
    return "compact" in _settings(bootstrap, topic, timeout)["cleanup.policy"]


def unread_until(
    bootstrap: str, topic: str, unread: Mapping[int, int], timeout: float = 5.0, isolation: str = "read_uncommitted"
) -> datetime | None:
    """Up to when the topic's retention certainly keeps all unread messages.

    A broker deletes a segment when its newest message is older than ``retention.ms``, so no message sooner than that.

    Args:
        unread: Partition to the offset that is read next, for partitions with unread messages.

    Returns:
        None if the topic deletes no message for its age, if all unread messages are younger than half of the retention, or if the
        broker does not say.
    """
    try:
        settings = _settings(bootstrap, topic, timeout)
        milliseconds = int(settings.get("retention.ms", "-1"))
        if milliseconds < 0 or "delete" not in settings.get("cleanup.policy", ""):
            return None
        retention = timedelta(milliseconds=min(milliseconds, _LONGEST_RETENTION_MS))
        young = _offsets_at(bootstrap, topic, datetime.now(UTC) - retention / 2, timeout, isolation)
    except (SourceError, SourceUnavailableError):
        # Reading a topic does not imply the permission to read its settings.
        return None
    old = {partition: offset for partition, offset in unread.items() if offset < young.get(partition, offset)}
    sent = [message.timestamp()[1] for message in _consume(bootstrap, topic, old, len(old), timeout, isolation)]
    # A message of Kafka before 0.10 has no timestamp. One with a time in the future keeps its segment until that time has come.
    past = [milliseconds for milliseconds in sent if milliseconds <= time.time() * 1000]
    return datetime.fromtimestamp(min(past) / 1000, UTC) + retention if past and min(past) > 0 else None


def _settings(bootstrap: str, topic: str, timeout: float) -> dict[str, str]:
    """The settings of a topic; errors as of `describe`."""
    from confluent_kafka import admin

    kinds: Any = admin  # its stubs lack both classes

    def request(client: AdminClient, topic: str, deadline: float) -> dict[str, str]:
        resource = kinds.ConfigResource(kinds.ResourceType.TOPIC, topic)
        settings = client.describe_configs([resource], request_timeout=_remaining(deadline))[resource]
        return {name: str(entry.value) for name, entry in settings.result(_remaining(deadline)).items()}

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
    first, ends = (_offsets_at(bootstrap, topic, moment, timeout, isolation) for moment in (start, end))
    return {partition: (offset, max(offset, ends[partition])) for partition, offset in first.items()}


def message_bytes(
    bootstrap: str, topic: str, starts: Mapping[int, int], timeout: float = 5.0, isolation: str = "read_uncommitted"
) -> float | None:
    """The mean size of messages in bytes, with keys and headers, from a sample at given offsets.

    Commits nothing and joins no consumer group.

    Args:
        bootstrap: ``host:port``, or several with commas.
        starts: Partition to the offset at which its sample starts.
        timeout: Seconds for everything.
        isolation: Isolation level of the reader, as in `offset_bounds`.

    Returns:
        The mean of up to 200 messages; None if none arrived in time.
    """
    sizes = [_size(message) for message in _consume(bootstrap, topic, starts, _SAMPLE_MESSAGES, timeout, isolation)]
    return sum(sizes) / len(sizes) if sizes else None


def next_timestamps(
    bootstrap: str, topic: str, starts: Mapping[int, int], timeout: float = 5.0
) -> dict[int, datetime | None]:
    """The timestamp of the first message at or after an offset of each partition, of open transactions too; None at the partition's end.

    A partition that does not answer in time is left out, and so is one whose message has no timestamp, or one that is out of range. Commits
    nothing and joins no consumer group.

    Args:
        bootstrap: ``host:port``, or several with commas.
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
    consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER, **settings})
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
    bootstrap: str, topic: str, limit: int, timeout: float = 10.0, isolation: str = "read_committed"
) -> list[bytes | None]:
    """The values of the newest messages, about as many from each partition, oldest first in each.

    Commits nothing and joins no consumer group.

    Raises:
        SourceUnavailableError: The broker does not answer, or the topic does not exist.
    """
    bounds = offset_bounds(bootstrap, topic, timeout, isolation)
    each = max(1, limit // max(1, len(bounds)))
    starts = {partition: max(first, end - each) for partition, (first, end) in bounds.items() if end > first}
    return [message.value() for message in _consume(bootstrap, topic, starts, limit, timeout, isolation)]


def _consume(
    bootstrap: str, topic: str, starts: Mapping[int, int], limit: int, timeout: float, isolation: str
) -> list[Any]:
    """Up to so many messages from given offsets; fewer if they do not arrive in time."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, **CONSUMER, "isolation.level": isolation})
    messages: list[Any] = []
    deadline = time.monotonic() + timeout
    try:
        for partition, offset in starts.items():
            # One partition at a time: else the partition that answers first would fill the sample.
            consumer.assign([TopicPartition(topic, partition, offset)])
            count = max(1, limit // len(starts))
            received = consumer.consume(count, timeout=min(_SAMPLE_SECONDS, _remaining(deadline)))
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


def _offsets_at(bootstrap: str, topic: str, moment: datetime, timeout: float, isolation: str) -> dict[int, int]:
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
            time.sleep(_POLL_SECONDS)
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
        dict.fromkeys(partitions, spec), isolation_level=level, request_timeout=_remaining(deadline)
    )
    return {partition.partition: future.result(_remaining(deadline)).offset for partition, future in futures.items()}


def _describe_topic(client: AdminClient, topic: str, deadline: float) -> tuple[str, list[Any]]:
    """The id and the partitions of a topic."""
    from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition

    try:
        futures = client.describe_topics(TopicCollection([topic]), request_timeout=_remaining(deadline))
        description = futures[topic].result(_remaining(deadline))
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


def _remaining(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


def failure(bootstrap: str, topic: str, error: KafkaError) -> SourceUnavailableError:
    """What librdkafka reports about a topic, as an error of the source."""
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID):
        return _deleted(bootstrap, topic)
    if error.code() > 0:
        # The broker's own errors; those of librdkafka, such as a connection that breaks, are negative.
        return SourceUnavailableError(
            f"the Kafka broker at {bootstrap} reports for topic {topic!r}: {error.str()}",
            OutsideAct("remove the cause, then run again"),
        )
    return unavailable(bootstrap, error.str())


def _deleted(bootstrap: str, topic: str) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"topic {topic!r} at {bootstrap} was deleted while its offsets were read",
        OutsideAct("run again when it exists"),
    )


def unavailable(bootstrap: str, reason: str) -> SourceUnavailableError:
    """No broker answers."""
    return SourceUnavailableError(
        f"no Kafka broker answers at {bootstrap} ({reason})",
        Either(OutsideAct("start it"), Edit("correct TIDEGATE_KAFKA, and run again", "setting")),
    )
