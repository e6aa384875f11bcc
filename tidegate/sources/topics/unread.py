"""What a flow has not read of its topics, and whether the broker still has it. Needs no JVM.

Offsets are only valid for one topic id: a topic that is deleted and created again starts at 0. See
`tidegate.checkpoints.topic`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.advice import Edit, Either, OutsideAct, new_version
from tidegate.checkpoints import checkpoint, gap, topic
from tidegate.errors import GapError, NotDeliveredError, OffsetsExpiredError, SourceError
from tidegate.ops import store
from tidegate.probes import delta_table, kafka
from tidegate.sources.topics import start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegate.checkpoints.overrides import Override
    from tidegate.checkpoints.progress import PlannedBatch
    from tidegate.environment.clusters import Cluster
    from tidegate.lake.place import Place
    from tidegate.spec import KafkaSource
    from tidegate.store import Address


BoundTopic = tuple[topic.CheckpointTopic, kafka.Topic]
"""A topic as recorded beside the checkpoint, or as a job would record it now, and as it is."""


@dataclass(frozen=True, kw_only=True)
class Unread:
    """What a flow has not read of a topic."""

    topic: kafka.Topic
    positions: Mapping[int, int]
    """The committed ones."""
    ranges: dict[int, tuple[int, int]]
    """Partition to the offset that is read next, and its end."""
    begins: start.Opening | None
    """Where a first run begins."""


def _described(
    cluster: Cluster, source: KafkaSource, timeout: float
) -> tuple[list[kafka.Topic], dict[str, NotDeliveredError]]:
    """The topics that exist, and the errors of the others by name."""
    topics, absent = list[kafka.Topic](), dict[str, NotDeliveredError]()
    for name in source.topics:
        try:
            topics.append(kafka.describe(cluster, name, timeout, source.isolation))
        except NotDeliveredError as error:
            absent[name] = error
    return topics, absent


def present(cluster: Cluster, source: KafkaSource, timeout: float = 5.0) -> list[kafka.Topic]:
    """The topics of a flow that exist, at least one. Raises NotDeliveredError and SourceUnavailableError."""
    topics, absent = _described(cluster, source, timeout)
    if not topics:
        raise absent[source.topics[0]]
    return topics


def existing(
    cluster: Cluster, source: KafkaSource, place: Place, timeout: float = 5.0
) -> tuple[list[BoundTopic], list[NotDeliveredError]]:
    """The topics of a flow that exist, and the errors of those that the flow waits for.

    Raises:
        NotDeliveredError: None of them exists.
        OtherClusterError: The broker belongs to another cluster than the one that the checkpoint reads.
        TopicReplacedError: A topic was deleted and created again.
        CheckpointIncompatibleError: A topic is not declared any more.
        SourceError: A topic does not exist that was read, or for which the flow does not wait; or no broker answers.
    """
    recorded = topic.recorded_of(place, source.topics)
    topics, absent = _described(cluster, source, timeout)
    bound = [(topic.check(place, each.name, cluster=cluster, **each.ids), each) for each in topics]
    for name in absent:
        if source.missing == "refuse" or (name in recorded and source.prefix(name)):
            raise _absent(cluster, place, name, was_read=name in recorded)
    if not bound:
        raise absent[source.topics[0]]
    return bound, list(absent.values())


def _absent(cluster: Cluster, place: Place, name: str, *, was_read: bool) -> SourceError:
    if not was_read:
        return SourceError(
            f"topic {name} of {cluster} does not exist, and missing='refuse' waits for none",
            Either(OutsideAct("create it"), Edit("correct the declaration's topic", "declaration")),
        )
    return SourceError(
        f"topic {name} of {cluster} does not exist any more: flow {place.flow!r} has read it. What was unread in it is lost; "
        "nothing of the other topics is read meanwhile, and nothing of them is lost.",
        new_version(
            place.version,
            "set {} in the declaration, without the topic if it does not come back: the others are read on",
        ),
    )


def of_flow(
    cluster: Cluster, source: KafkaSource, target: Address, place: Place, committed: PlannedBatch | None
) -> tuple[list[Unread], list[NotDeliveredError]]:
    """What a flow has not read of its topics, and the errors of those that it waits for.

    Raises:
        TidegateError: As for the backlog.
    """
    read = {} if committed is None else committed.kafka_offsets(source.topics)
    bound, absent = existing(cluster, source, place)
    return [_unread_of(cluster, source, each, target, place, read.get(each[1].name)) for each in bound], absent


def _unread_of(
    cluster: Cluster,
    source: KafkaSource,
    bound: BoundTopic,
    target: Address,
    place: Place,
    committed: Mapping[int, int] | None,
) -> Unread:
    checkpoint_topic, current = bound
    read = topic.next_offsets(place, checkpoint_topic) if committed is None else committed
    begins = start.opening(cluster, source, current, place, lambda: read)
    read = read if begins is None else begins.after(read)
    # A new checkpoint version continues after the older ones; a reingest reads all messages that the topic still has.
    positions = {} if committed is None and checkpoint.reads_again(place) else read
    check_not_truncated(current, read)
    check_gap(place, source, checkpoint_topic, current, read, target)
    # A partition that is not in the checkpoint is new and read from its beginning. A partition with an accepted gap continues
    # at its first offset.
    ranges = {
        partition: (min(max(positions.get(partition, begin), begin), end), end)
        for partition, (begin, end) in sorted(current.bounds.items())
    }
    return Unread(topic=current, positions=positions, ranges=ranges, begins=begins)


def check_gap(
    place: Place,
    source: KafkaSource,
    known: topic.CheckpointTopic,
    current: kafka.Topic,
    read: Mapping[int, int],
    target: Address,
) -> None:
    """Check that the topic still has all unread messages, except for accepted gaps.

    Args:
        read: Partition to the offset that is read next.
        target: The flow's table. Messages in it were read, even if their batch is not committed in the checkpoint yet.

    Raises:
        GapError: Messages are missing; the error lists their offsets.
    """
    if lost := unaccepted_gap(known, current, read, target, gap.accepted(place, known.topic)):
        raise GapError(place.pipeline, place.flow, known.topic, lost, prefix=source.prefix(known.topic))


def unaccepted_gap(
    known: topic.CheckpointTopic,
    current: kafka.Topic,
    read: Mapping[int, int],
    target: Address,
    accepted: Sequence[Override] = (),
) -> gap.Offsets:
    """Unread offsets that the topic no longer has and that are in no accepted gap; arguments as for `check_gap`."""
    if not gap.missing(read, current.begins, accepted, known.topic_id):
        return {}
    in_table = next_offsets_in_table(target, known)
    next_offsets = {partition: max(offset, in_table.get(partition, 0)) for partition, offset in read.items()}
    return gap.missing(next_offsets, current.begins, accepted, known.topic_id)


def next_offsets_in_table(target: Address, checkpoint_topic: topic.CheckpointTopic) -> dict[int, int]:
    """Partition to the offset after the highest one of a topic in a bronze table."""
    if hidden.TOPIC_ID not in delta_table.columns(target):
        return {}
    sql = f"SELECT {hidden.PARTITION}, max({hidden.OFFSET}) + 1 AS next_offset FROM delta_table"
    rows = store.select(target, f"{sql} WHERE {topic_condition(checkpoint_topic)} GROUP BY {hidden.PARTITION}")
    return {int(row[hidden.PARTITION]): int(row["next_offset"]) for row in rows}


def topic_condition(checkpoint_topic: topic.CheckpointTopic) -> str:
    """SQL condition for the rows of a bronze table that come from a topic. The id is NULL where the broker has none."""
    return f"{hidden.TOPIC} = '{checkpoint_topic.topic}' AND coalesce({hidden.TOPIC_ID}, '') = '{checkpoint_topic.topic_id}'"


def check_not_truncated(current: kafka.Topic, read: Mapping[int, int]) -> None:
    """Check that no partition ends before the offset that is read next.

    Args:
        read: Partition to the offset that is read next.

    Raises:
        OffsetsExpiredError: A partition ends before that, or does not exist any more.
    """
    ends = current.ends
    for partition, offset in read.items():
        end = ends.get(partition)
        if end is not None and offset <= end:
            continue
        why = "it no longer has that partition" if end is None else f"it ends at {end}"
        raise OffsetsExpiredError(
            f"topic {current.name}, partition {partition}: the checkpoint continues at offset {offset}, but {why}: "
            "the broker lost messages, or it has no topic ids and the topic was created again.",
            Either(
                new_version(
                    says="if it was created again, raise checkpoint_version: the topic is then read from its start"
                ),
                OutsideAct(
                    "if the broker lost messages, create the topic again: otherwise its next messages get offsets "
                    "that count as already read"
                ),
            ),
        )


def ranges_condition(ranges: Mapping[int, tuple[int, int]]) -> str:
    """SQL condition for the rows of ranges: partition to the first offset and the offset after the last one."""
    return " OR ".join(
        f"({hidden.PARTITION} = {partition} AND {hidden.OFFSET} >= {begin} AND {hidden.OFFSET} < {end})"
        for partition, (begin, end) in ranges.items()
    )
