"""The stream of each source, with bounded micro-batches, and fails on data loss."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint, progress, topic
from tidegate.errors import TopicReplacedError
from tidegate.probes import delta, files, kafka
from tidegate.spark.intake import batch_bounds
from tidegate.spark.intake.landing import glob_escaped
from tidegate.spec import ChangeFeed, FileSource, KafkaSource
from tidegate.spec.sources import MAX_FILE_AGE_DAYS, in_bytes
from tidegate.status.sources import topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext

BROKER_TIMEOUTS = {
    # A call of the driver or of a task when no broker answers; Kafka's default is 60 s.
    "kafka.default.api.timeout.ms": "10000",
    "kafka.request.timeout.ms": "8000",
    # Attempts of the driver to fetch offsets, each as long as the call above; Spark's default is 3.
    "fetchOffset.numRetries": "2",
    # How long a task waits for the first message; Spark's default is 120 s.
    "kafkaConsumer.pollTimeoutMs": "15000",
}
"""Timeouts for a broker that stops during a run: less than a minute in total. The next run continues with the same batch."""
PROBE_SECONDS = 10.0
"""Timeout for questions to the broker."""
_FILE_SCHEMA = "path string, modificationTime timestamp, length bigint, content binary"


def files_stream(context: FlowContext) -> DataFrame:
    """The new files of a landing folder, without their content: ``path, length, modificationTime``."""
    source = context.flow.source
    assert isinstance(source, FileSource)
    return (
        context.spark.readStream.format("binaryFile")
        .schema(_FILE_SCHEMA)
        .option("pathGlobFilter", source.glob)
        .option("recursiveFileLookup", "true")
        # After the first batch Spark silently skips files that are older than the newest by more than this (default 7 days).
        .option("maxFileAge", f"{MAX_FILE_AGE_DAYS}d")
        .option(*_bound(context, source))
        .load(glob_escaped(str(context.layout.landing(source.path))))
        .select("path", "length", "modificationTime")
    )


def _bound(context: FlowContext, source: FileSource) -> tuple[str, int]:
    """The option that bounds a micro-batch of the files that are pending now."""
    read_paths = {file.path for file in progress.source_files(context.checkpoint)}
    landed = files.list_files(context.layout.landing(source.path), source.glob).files
    pending = sorted((file.modified_ms, file.size) for file in landed if file.path not in read_paths)
    most_bytes = in_bytes(source.max_bytes_per_trigger)
    return batch_bounds.trigger_option([size for _, size in pending], source.max_files_per_trigger, most_bytes)


def topic_of(context: FlowContext) -> KafkaSource:
    """The source of a flow that reads a topic."""
    assert isinstance(context.flow.source, KafkaSource)
    return context.flow.source


def topic_stream(context: FlowContext) -> DataFrame:
    """The messages of a topic: the connector's columns with headers."""
    source = topic_of(context)
    return (
        context.spark.readStream.format("kafka")
        .options(**kafka_options(context, source))
        .option("subscribe", source.topic)
        .option("maxOffsetsPerTrigger", max_offsets_per_batch(context, source, _next_messages(context, source)))
        .option("startingOffsets", _starting_offsets(context, source))
        .load()
    )


def max_offsets_per_batch(context: FlowContext, source: KafkaSource, starts: Mapping[int, int]) -> int:
    """The maximum number of messages in a micro-batch, by the declared number and the declared bytes.

    Args:
        starts: Partition to the offset of its next message, for partitions that have one. The size of a message is estimated
            from these messages; if they cannot be read, from the rows of bronze; else `topics.BYTES_PER_MESSAGE`.
    """
    size = (
        kafka.message_bytes(context.stores.kafka, source.topic, starts, isolation=source.isolation) if starts else None
    )
    size = size or delta.row_bytes(context.live) or topics.BYTES_PER_MESSAGE
    return max(1, min(source.max_offsets_per_trigger, int(in_bytes(source.max_bytes_per_trigger) / size)))


def _next_messages(context: FlowContext, source: KafkaSource) -> dict[int, int]:
    bounds = kafka.offset_bounds(context.stores.kafka, source.topic, PROBE_SECONDS, source.isolation)
    committed = progress.read(context.checkpoint).last_committed
    read: dict[int, int] = {}
    if committed is not None:
        read = progress.planned_batch(context.checkpoint, committed).kafka_offsets(source.topic)
    firsts = {partition: (max(read.get(partition, 0), begin), end) for partition, (begin, end) in bounds.items()}
    return {partition: first for partition, (first, end) in firsts.items() if first < end}


def kafka_options(context: FlowContext, source: KafkaSource) -> dict[str, str]:
    """Options for every reader of a topic: broker, isolation level, failure on data loss, timeouts."""
    return {
        "kafka.bootstrap.servers": context.stores.kafka,
        "kafka.isolation.level": source.isolation,
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        **BROKER_TIMEOUTS,
    }


def bind_topic(context: FlowContext, source: KafkaSource) -> tuple[topic.CheckpointTopic, kafka.Topic]:
    """Check that the topic is the one that the checkpoint version reads, and record its id beside the checkpoint.

    The id is recorded before the version reads its first message. The caller must hold the flow's lease.

    Returns:
        The topic as recorded beside the checkpoint, and the topic as it is now.

    Raises:
        OtherClusterError: The broker belongs to another cluster than the one that the checkpoint reads.
        TopicReplacedError: The topic was deleted and created again.
        SourceError: The topic does not exist, or no broker answers.
    """
    current = kafka.describe(context.stores.kafka, source.topic, PROBE_SECONDS, source.isolation)
    place, ids = context.place, {"topic_id": current.topic_id, "cluster_id": current.cluster_id}
    topic.check(place, source.topic, bootstrap=context.stores.kafka, **ids)
    checkpoint_topic = topic.of_version(place, source.topic, **ids)
    topic.record(place, checkpoint_topic)
    return checkpoint_topic, current


def check_topic(context: FlowContext, source: KafkaSource, checkpoint_topic: topic.CheckpointTopic) -> None:
    """Check that the messages just read are from the topic that the checkpoint reads, not from a newer one.

    Raises:
        TopicReplacedError: The topic was deleted and created again. Nothing of the batch may be written.
        SourceError: The topic does not exist any more, or no broker answers.
    """
    topic_id = kafka.topic_id(context.stores.kafka, source.topic, PROBE_SECONDS)
    if checkpoint_topic.topic_id and topic_id != checkpoint_topic.topic_id:
        raise TopicReplacedError(
            context.flow.name, context.place.version, source.topic, expected=checkpoint_topic.topic_id, actual=topic_id
        )


def needs_refresh_for_gap(context: FlowContext, source: KafkaSource) -> bool:
    """Whether the next messages of the checkpoint were deleted and the gap was accepted.

    Only a new refresh of the checkpoint can start after such a gap.

    Raises:
        GapError: Messages were deleted, and not all of the gap was accepted.
        SourceError: As in `bind_topic`.
    """
    state = progress.read(context.checkpoint)
    # Spark stores its starting offsets before it plans its first batch.
    if state.last_planned is None and not (context.checkpoint / "sources" / "0" / "0").exists():
        return False
    checkpoint_topic, current = bind_topic(context, source)
    if state.last_committed is None:
        read = topic.next_offsets(context.place, checkpoint_topic)
    else:
        read = progress.planned_batch(context.checkpoint, state.last_committed).kafka_offsets(source.topic)
    first_offsets = {partition: begin for partition, (begin, _) in current.bounds.items()}
    topics.check_gap(context.place, checkpoint_topic, read, first_offsets, context.live)
    return bool(topics.unaccepted_gap(read, first_offsets, checkpoint_topic, context.live))


def _starting_offsets(context: FlowContext, source: KafkaSource) -> str:
    """Where a new checkpoint starts: after the last message of this topic in bronze or in an older checkpoint.

    Spark uses it for the first batch only. A partition that was never read starts at its beginning (-2, the connector's
    "earliest"). After an accepted gap a partition starts at its first available offset.
    """
    checkpoint_topic, current = bind_topic(context, source)
    if progress.read(context.checkpoint).last_planned is not None:
        return "earliest"
    read = topic.next_offsets(context.place, checkpoint_topic)
    for partition, next_offset in topics.next_offsets_in_table(context.target, checkpoint_topic).items():
        read[partition] = max(next_offset, read.get(partition, 0))
    first_offsets = {partition: begin for partition, (begin, _) in current.bounds.items()}
    topics.check_not_truncated(source.topic, read, {partition: end for partition, (_, end) in current.bounds.items()})
    topics.check_gap(context.place, checkpoint_topic, read, first_offsets, context.target)
    if not read or checkpoint.reads_again(context.place):
        return "earliest"
    starts = {
        str(partition): max(read[partition], begin) if partition in read else -2
        for partition, begin in sorted(first_offsets.items())
    }
    return json.dumps({source.topic: starts})


def change_feed(context: FlowContext) -> DataFrame:
    """The changes of the flow's source table: its columns, ``_change_type``, ``_commit_version``, ``_commit_timestamp``."""
    return changes_of(context, context.flow.feeds[0])


def changes_of(context: FlowContext, feed: ChangeFeed, start: int | None = None) -> DataFrame:
    """The changes of one table, as `change_feed`.

    Args:
        start: The first commit that a new checkpoint reads; None for the whole table and the commits after it.
    """
    reader = (
        context.spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("maxFilesPerTrigger", feed.max_files_per_trigger)
        .option("maxBytesPerTrigger", feed.max_bytes_per_trigger)
    )
    if start is not None:
        reader = reader.option("startingVersion", start)
    return reader.load(str(context.layout.table(feed.table)))
