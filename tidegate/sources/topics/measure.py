"""The messages of a topic: the unread ones, whether the broker still has them, and those of a window. Needs no JVM.

Offsets are only valid for one topic id: a topic that is deleted and created again starts at 0. See
`tidegate.checkpoints.topic`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidegate import hidden
from tidegate.advice import Either, OutsideAct, new_version
from tidegate.checkpoints import checkpoint, gap, progress, topic
from tidegate.errors import GapError, NotDeliveredError, OffsetsExpiredError
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, Place
from tidegate.ops import query, store
from tidegate.probes import delta, kafka, retention, samples
from tidegate.sources.topics import start
from tidegate.spec import Flow, KafkaSource, Pipeline
from tidegate.status import freshness, topic_intervals
from tidegate.status.completeness import Completeness
from tidegate.status.source import NOTHING_READ, Backlog, Extent, MeasuredSource, not_delivered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidegate.checkpoints.overrides import Override
    from tidegate.checkpoints.progress import PlannedBatch
    from tidegate.environment import Environment
    from tidegate.environment.clusters import Cluster, Clusters
    from tidegate.requests.request import RunRequest
    from tidegate.status.checkpoint_reading import CheckpointReading
    from tidegate.store import Address

BYTES_PER_MESSAGE = 1024
"""Assumed size while no message of a topic has been read: the broker does not report sizes."""


def _backlog(reading: CheckpointReading) -> Backlog:
    """Messages of a topic that are in no committed batch.

    Their number is that of their offsets and an upper limit: compaction and transactions leave offsets without a message.

    Raises:
        NotDeliveredError: The topic does not exist, and messages of it were read before.
        SourceUnavailableError: No broker answers.
        OtherClusterError: The broker belongs to another cluster than the one that the checkpoint reads.
        TopicReplacedError: The topic was deleted and created again.
        GapError: The broker deleted messages before they were read, and the gap was not accepted.
        OffsetsExpiredError: The topic ends before the next offset of the checkpoint.
    """
    source, target = _source(reading.resolved.flow), reading.layout.table(reading.target)
    cluster = reading.clusters(source.cluster)
    try:
        description, positions, ranges, begins = unread_ranges(
            cluster, source, target, reading.place, reading.committed
        )
    except NotDeliveredError as missing:
        return not_delivered(missing, reading.place, target)
    first_offsets = {partition: begin for partition, (begin, _) in description.bounds.items()}
    pending = sum(end - begin for begin, end in ranges.values())
    unread = {partition: first for partition, (first, end) in ranges.items() if first < end}
    until = retention.unread_until(cluster, source.topic, unread, isolation=source.isolation) if unread else None
    what = f"up to {count(pending, 'new message')} in topic {source.topic}"
    what = what if pending else f"nothing new in topic {source.topic}"
    message_bytes = (delta.row_bytes(target) or BYTES_PER_MESSAGE) if pending else 0
    return Backlog(
        what=what if begins is None else f"{what}; {begins.summary(source.start)}",
        behind=pending,
        rows=pending,
        size=round(pending * message_bytes),
        # Also, a new version starts after the offsets that are in bronze; only the job looks them up.
        rows_exact=not pending,
        size_exact=not pending,
        position=NOTHING_READ
        if begins is not None
        else " ".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items())) or NOTHING_READ,
        # The first run records where the flow begins, also if nothing is left to read: with latest it would never begin.
        has_data=pending > 0 or begins is not None,
        ahead=f"offsets {format_offsets(ranges)}" if pending else "",
        first_offsets=first_offsets,
        unread=unread,
        unread_until_ms=None if until is None else round(until.timestamp() * 1000),
    )


def unread_ranges(
    cluster: Cluster, source: KafkaSource, target: Address, place: Place, committed: PlannedBatch | None
) -> tuple[kafka.Topic, Mapping[int, int], dict[int, tuple[int, int]], start.Opening | None]:
    """The topic, the committed positions, each partition with the offset that is read next and its end, and where a first run begins.

    Raises:
        TidegateError: As for the backlog.
    """
    description = kafka.describe(cluster, source.topic, isolation=source.isolation)
    ids = {"topic_id": description.topic_id, "cluster_id": description.cluster_id}
    topic.check(place, source.topic, cluster=cluster, **ids)
    checkpoint_topic = topic.of_version(place, source.topic, **ids)
    read = topic.next_offsets(place, checkpoint_topic) if committed is None else committed.kafka_offsets(source.topic)
    begins = start.opening(cluster, source, description, place, lambda: read)
    read = read if begins is None else begins.after(read)
    # A new checkpoint version continues after the older ones; a reingest reads all messages that the topic still has.
    positions = {} if committed is None and checkpoint.reads_again(place) else read
    check_not_truncated(source.topic, read, {partition: end for partition, (_, end) in description.bounds.items()})
    first_offsets = {partition: begin for partition, (begin, _) in description.bounds.items()}
    check_gap(place, checkpoint_topic, read, first_offsets, target)
    # A partition that is not in the checkpoint is new and read from its beginning. A partition with an accepted gap continues
    # at its first offset.
    return (
        description,
        positions,
        {
            partition: (min(max(positions.get(partition, begin), begin), end), end)
            for partition, (begin, end) in sorted(description.bounds.items())
        },
        begins,
    )


def check_gap(
    place: Place,
    checkpoint_topic: topic.CheckpointTopic,
    read: Mapping[int, int],
    first_offsets: Mapping[int, int],
    target: Address,
) -> None:
    """Check that the topic still has all unread messages, except for accepted gaps.

    Args:
        layout: The paths of the lake, with the accepted gaps.
        read: Partition to the offset that is read next.
        first_offsets: Partition to the first offset that the topic still has.
        target: The flow's table. Messages in it were read, even if their batch is not committed in the checkpoint yet.

    Raises:
        GapError: Messages are missing; the error lists their offsets.
    """
    accepted = gap.accepted(place)
    if lost := unaccepted_gap(read, first_offsets, checkpoint_topic, target, accepted):
        raise GapError(place.pipeline, place.flow, checkpoint_topic.topic, lost)


def unaccepted_gap(
    read: Mapping[int, int],
    first_offsets: Mapping[int, int],
    checkpoint_topic: topic.CheckpointTopic,
    target: Address,
    accepted: Sequence[Override] = (),
) -> gap.Offsets:
    """Unread offsets that the topic no longer has and that are in no accepted gap; arguments as for `check_gap`."""
    if not gap.missing(read, first_offsets, accepted, checkpoint_topic.topic_id):
        return {}
    in_table = next_offsets_in_table(target, checkpoint_topic)
    next_offsets = {partition: max(offset, in_table.get(partition, 0)) for partition, offset in read.items()}
    return gap.missing(next_offsets, first_offsets, accepted, checkpoint_topic.topic_id)


def next_offsets_in_table(target: Address, checkpoint_topic: topic.CheckpointTopic) -> dict[int, int]:
    """Partition to the offset after the highest one of a topic in a bronze table."""
    if hidden.TOPIC_ID not in query.columns(target):
        return {}
    sql = f"SELECT {hidden.PARTITION}, max({hidden.OFFSET}) + 1 AS next_offset FROM delta_table"
    rows = store.select(target, f"{sql} WHERE {topic_condition(checkpoint_topic)} GROUP BY {hidden.PARTITION}")
    return {int(row[hidden.PARTITION]): int(row["next_offset"]) for row in rows}


def topic_condition(checkpoint_topic: topic.CheckpointTopic) -> str:
    """SQL condition for the rows of a bronze table that come from a topic. The id is NULL where the broker has none."""
    return f"{hidden.TOPIC} = '{checkpoint_topic.topic}' AND coalesce({hidden.TOPIC_ID}, '') = '{checkpoint_topic.topic_id}'"


def check_not_truncated(name: str, read: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Check that no partition ends before the offset that is read next.

    Args:
        read: Partition to the offset that is read next.
        ends: Partition to its end offset.

    Raises:
        OffsetsExpiredError: A partition ends before that, or does not exist any more.
    """
    for partition, offset in read.items():
        end = ends.get(partition)
        if end is not None and offset <= end:
            continue
        why = "it no longer has that partition" if end is None else f"it ends at {end}"
        raise OffsetsExpiredError(
            f"topic {name}, partition {partition}: the checkpoint continues at offset {offset}, but {why}: "
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


def format_offsets(ranges: Mapping[int, tuple[int, int]]) -> str:
    """``0:15-19 1:10-14``: first and last offset of each partition with messages.

    Args:
        ranges: Partition to the first offset and the offset after the last one.
    """
    return " ".join(f"{partition}:{begin}-{end - 1}" for partition, (begin, end) in ranges.items() if end > begin)


def _extent(environment: Environment, pipeline: Pipeline, flow: Flow, request: RunRequest) -> Extent:
    layout, source, window = Layout.of(environment), _source(flow), request.window
    cluster, bronze = environment.cluster(source.cluster), layout.table(flow.target.name)
    recorded = topic.recorded(Place(layout, pipeline.name, flow.name, flow.checkpoint_version, 0))
    if window is None:
        ranges = kafka.offset_bounds(cluster, source.topic, isolation=source.isolation)
    else:
        ranges = kafka.offsets_within(cluster, source.topic, window.since, window.until, isolation=source.isolation)
    offsets = sum(end - begin for begin, end in ranges.values())
    # Compaction and transactions leave offsets without a message, which never arrive in bronze.
    missing = max(0, offsets - _ingested_messages(bronze, source.topic, ranges, recorded))
    return Extent(
        what=f"offsets {format_offsets(ranges) or 'none'} of {source.topic}, at most {missing:,} of which are not in bronze",
        rows=offsets,
        size=round(offsets * (delta.row_bytes(bronze) or BYTES_PER_MESSAGE)),
        rows_exact=not offsets,
        size_exact=not offsets,
    )


def _ingested_messages(
    bronze: Address, name: str, ranges: dict[int, tuple[int, int]], recorded: topic.CheckpointTopic | None
) -> int:
    if hidden.TOPIC_ID not in query.columns(bronze) or not ranges:
        return 0
    within = " OR ".join(
        f"({hidden.PARTITION} = {partition} AND {hidden.OFFSET} >= {begin} AND {hidden.OFFSET} < {end})"
        for partition, (begin, end) in ranges.items()
    )
    of_topic = f"{hidden.TOPIC} = '{name}'" if recorded is None else topic_condition(recorded)
    counts = store.select(bronze, f"SELECT count(*) AS messages FROM delta_table WHERE {of_topic} AND ({within})")
    return sum(int(row["messages"]) for row in counts)


def _source(flow: Flow) -> KafkaSource:
    assert isinstance(flow.source, KafkaSource)
    return flow.source


def _completeness(
    clusters: Clusters, place: FlowPlace, flow: Flow, timezone: str, now: datetime
) -> Completeness | None:
    """The intervals of a topic; None if it declares none.

    Args:
        timezone: The name of the pipeline's time zone.
        now: With a time zone, from before the call.

    Raises:
        TidegateError: As `_backlog`.
    """
    source = _source(flow)
    if source.intervals is None:
        return None
    cluster = clusters(source.cluster)
    table, current = place.layout.table(flow.target.name), checkpoint.current(place, flow.checkpoint_version)
    first = freshness.oldest(table, hidden.TIMESTAMP)
    if first is None:
        return Completeness(unit=source.intervals.unit, intervals=())
    last_committed = progress.read(current.checkpoint).last_committed
    committed = None if last_committed is None else progress.planned_batch(current.checkpoint, last_committed)
    _, _, ranges, _ = unread_ranges(cluster, source, table, current, committed)
    starts = {partition: begin for partition, (begin, _) in ranges.items()}
    answers = samples.next_timestamps(cluster, source.topic, starts)
    # What did not answer, or has a time that cannot be right, may be of any interval.
    never, latest = datetime.fromtimestamp(0, UTC), now + freshness.SKEW
    moments = [moment for each in starts if (moment := answers.get(each, never)) is not None]
    unread = [moment if moment <= latest else never for moment in moments]
    return Completeness(
        unit=source.intervals.unit,
        intervals=tuple(
            topic_intervals.states(
                source.intervals,
                ZoneInfo(timezone),
                first,
                unread,
                now,
                spans=freshness.spans(table, hidden.TIMESTAMP),
            )
        ),
    )


SOURCE = MeasuredSource(backlog=_backlog, extent=_extent, completeness=_completeness, is_local=False)
