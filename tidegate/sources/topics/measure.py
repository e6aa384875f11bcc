"""The messages of topics: the unread ones, and those of a window. Needs no JVM."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tidegate import hidden
from tidegate.checkpoints import checkpoint, progress, topic
from tidegate.errors import NotDeliveredError
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, Place
from tidegate.ops import store
from tidegate.probes import delta, delta_table, kafka, retention, samples
from tidegate.sources.topics import unread
from tidegate.spec import Flow, KafkaSource, Pipeline
from tidegate.status import freshness, topic_intervals
from tidegate.status.completeness import Completeness
from tidegate.status.source import NOTHING_READ, Backlog, Extent, MeasuredSource, not_delivered, together

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        parts, absent = unread.of_flow(cluster, source, target, reading.place, reading.committed)
    except NotDeliveredError as missing:
        return not_delivered(missing, reading.place, target)
    backlog = together({part.topic.name: _of_topic(cluster, source, target, part) for part in parts})
    return replace(backlog, what="; ".join([backlog.what, *(f"{each.what} does not exist yet" for each in absent)]))


def _of_topic(cluster: Cluster, source: KafkaSource, target: Address, part: unread.Unread) -> Backlog:
    name, ranges, begins = part.topic.name, part.ranges, part.begins
    pending = sum(end - begin for begin, end in ranges.values())
    firsts = {partition: first for partition, (first, end) in ranges.items() if first < end}
    until = retention.unread_until(cluster, name, firsts, isolation=source.isolation) if firsts else None
    what = f"up to {count(pending, 'new message')} in topic {name}" if pending else f"nothing new in topic {name}"
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
        else " ".join(f"{partition}:{offset}" for partition, offset in sorted(part.positions.items())) or NOTHING_READ,
        # The first run records where the flow begins, also if nothing is left to read: with latest it would never begin.
        has_data=pending > 0 or begins is not None,
        ahead=f"offsets {format_offsets(ranges)}" if pending else "",
        first_offsets={f"{source.prefix(name)}{partition}": begin for partition, begin in part.topic.begins.items()},
        unread={f"{source.prefix(name)}{partition}": first for partition, first in firsts.items()},
        unread_until_ms=None if until is None else round(until.timestamp() * 1000),
    )


def format_offsets(ranges: Mapping[int, tuple[int, int]], prefix: str = "") -> str:
    """``0:15-19 1:10-14``: first and last offset of each partition with messages.

    Args:
        ranges: Partition to the first offset and the offset after the last one.
        prefix: As `KafkaSource.prefix`.
    """
    return " ".join(
        f"{prefix}{partition}:{begin}-{end - 1}" for partition, (begin, end) in ranges.items() if end > begin
    )


def _extent(environment: Environment, pipeline: Pipeline, flow: Flow, request: RunRequest) -> Extent:
    layout, source, window = Layout.of(environment), _source(flow), request.window
    cluster, bronze = environment.cluster(source.cluster), layout.table(flow.target.name)
    recorded = topic.recorded(Place(layout, pipeline.name, flow.name, flow.checkpoint_version, 0))
    parts, offsets = list[str](), 0
    for current in unread.present(cluster, source):
        name, ranges = current.name, current.bounds
        if window is not None:
            ranges = kafka.offsets_within(cluster, name, window.since, window.until, isolation=source.isolation)
        within = sum(end - begin for begin, end in ranges.values())
        # Compaction and transactions leave offsets without a message, which never arrive in bronze.
        missing = max(0, within - _ingested_messages(bronze, name, ranges, recorded.get(name)))
        parts.append(
            f"offsets {format_offsets(ranges) or 'none'} of {name}, at most {missing:,} of which are not in bronze"
        )
        offsets += within
    return Extent(
        what="; ".join(parts),
        rows=offsets,
        size=round(offsets * (delta.row_bytes(bronze) or BYTES_PER_MESSAGE)),
        rows_exact=not offsets,
        size_exact=not offsets,
    )


def _ingested_messages(
    bronze: Address, name: str, ranges: dict[int, tuple[int, int]], recorded: topic.CheckpointTopic | None
) -> int:
    if hidden.TOPIC_ID not in delta_table.columns(bronze) or not ranges:
        return 0
    of_topic = f"{hidden.TOPIC} = '{name}'" if recorded is None else unread.topic_condition(recorded)
    sql = f"SELECT count(*) AS messages FROM delta_table WHERE {of_topic} AND ({unread.ranges_condition(ranges)})"
    return sum(int(row["messages"]) for row in store.select(bronze, sql))


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
    # What does not answer, or has a time that cannot be right, may be of any interval.
    never, latest = datetime.fromtimestamp(0, UTC), now + freshness.SKEW
    moments: list[datetime] = []
    for part in unread.of_flow(cluster, source, table, current, committed)[0]:
        starts = {partition: begin for partition, (begin, _) in part.ranges.items()}
        answers = samples.next_timestamps(cluster, part.topic.name, starts)
        moments += [moment for each in starts if (moment := answers.get(each, never)) is not None]
    return Completeness(
        unit=source.intervals.unit,
        intervals=tuple(
            topic_intervals.states(
                source.intervals,
                ZoneInfo(timezone),
                first,
                [moment if moment <= latest else never for moment in moments],
                now,
                spans=freshness.spans(table, hidden.TIMESTAMP),
            )
        ),
    )


SOURCE = MeasuredSource(backlog=_backlog, extent=_extent, completeness=_completeness, is_local=False)
