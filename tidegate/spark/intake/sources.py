"""The stream of each kind of source, bounded and loud."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint, progress, topic
from tidegate.errors import TopicReplacedError
from tidegate.probes import delta, files, kafka
from tidegate.spark.intake import bounds
from tidegate.spark.intake.landing import glob_escaped
from tidegate.spec import ChangeFeed, FileSource, KafkaSource
from tidegate.spec.sources import MAX_FILE_AGE_DAYS, in_bytes
from tidegate.status import topic_backlog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext

PATIENCE = {
    # A call of the driver or of a task that no broker answers; Kafka's own is 60 s.
    "kafka.default.api.timeout.ms": "10000",
    "kafka.request.timeout.ms": "8000",
    # How often the driver asks for offsets; Spark's own is 3, each time as long as the call above.
    "fetchOffset.numRetries": "2",
    # How long a task waits for the first message; Spark's own is 120 s.
    "kafkaConsumer.pollTimeoutMs": "15000",
}
"""How long a broker that stopped is waited for: less than a minute altogether. The next run goes on where this one ended."""
_LOOK_SECONDS = 10.0
_FOUND = "path string, modificationTime timestamp, length bigint, content binary"


def read_stream(context: FlowContext) -> DataFrame:
    """The flow's source as a stream that stops when it has read what is there now.

    Args:
        context: The flow.

    Returns:
        Files: ``path, length, modificationTime`` of what arrived, never content. Kafka: the connector's columns with
        headers. A change feed: the table's columns, ``_change_type``, ``_commit_version``, ``_commit_timestamp``.
    """
    source = context.flow.source
    if isinstance(source, FileSource):
        return _files(context, source)
    if isinstance(source, KafkaSource):
        return _kafka(context, source)
    return _change_feed(context, source)


def _files(context: FlowContext, source: FileSource) -> DataFrame:
    return (
        context.spark.readStream.format("binaryFile")
        .schema(_FOUND)
        .option("pathGlobFilter", source.glob)
        .option("recursiveFileLookup", "true")
        # After the first batch, a file older than the newest by more than this is skipped in silence (default 7 days).
        .option("maxFileAge", f"{MAX_FILE_AGE_DAYS}d")
        .option(*_bound(context, source))
        .load(glob_escaped(str(context.layout.landing(source.path))))
        .select("path", "length", "modificationTime")
    )


def _bound(context: FlowContext, source: FileSource) -> tuple[str, int]:
    """Spark's option that bounds a micro-batch of the files that are pending now."""
    known = {file.path for file in progress.source_files(context.checkpoint)}
    landed = files.list_files(context.layout.landing(source.path), source.glob).files
    pending = sorted((file.modified_ms, file.size) for file in landed if file.path not in known)
    most_bytes = in_bytes(source.max_bytes_per_trigger)
    return bounds.of_files([size for _, size in pending], source.max_files_per_trigger, most_bytes)


def _kafka(context: FlowContext, source: KafkaSource) -> DataFrame:
    return (
        context.spark.readStream.format("kafka")
        .options(**kafka_options(context, source))
        .option("subscribe", source.topic)
        .option("maxOffsetsPerTrigger", offsets_at_once(context, source, _next_messages(context, source)))
        .option("startingOffsets", _starting_offsets(context, source))
        .load()
    )


def offsets_at_once(context: FlowContext, source: KafkaSource, starts: Mapping[int, int]) -> int:
    """How many messages a micro-batch may have, by the declared number and by the declared bytes.

    Args:
        context: The flow.
        source: Its source.
        starts: Partition to the offset of the next message, of those that hold one: a message is taken to be as large as
            those; where none can be looked at, as a row of bronze, or a guess.
    """
    size = kafka.message_bytes(context.kafka, source.topic, starts, isolation=source.isolation) if starts else None
    size = size or delta.row_bytes(context.live) or topic_backlog.BYTES_PER_MESSAGE
    return max(1, min(source.max_offsets_per_trigger, int(in_bytes(source.max_bytes_per_trigger) / size)))


def _next_messages(context: FlowContext, source: KafkaSource) -> dict[int, int]:
    bounds = kafka.offset_bounds(context.kafka, source.topic, _LOOK_SECONDS, source.isolation)
    committed = progress.read(context.checkpoint).last_committed
    read: dict[int, int] = {}
    if committed is not None:
        read = progress.planned_batch(context.checkpoint, committed).kafka_offsets(source.topic)
    firsts = {partition: (max(read.get(partition, 0), begin), end) for partition, (begin, end) in bounds.items()}
    return {partition: first for partition, (first, end) in firsts.items() if first < end}


def kafka_options(context: FlowContext, source: KafkaSource) -> dict[str, str]:
    """What every reader of a topic is told: where the broker is, what it reads, and when it gives up."""
    return {
        "kafka.bootstrap.servers": context.kafka,
        "kafka.isolation.level": source.isolation,
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        **PATIENCE,
    }


def settle_topic(context: FlowContext, source: KafkaSource) -> tuple[topic.Noted, kafka.Topic]:
    """The topic as it is now, once it is the one that the checkpoint version reads; it is noted before it is first read.

    Args:
        context: The flow, whose lease is held.
        source: Its source.

    Raises:
        OtherClusterError: Another cluster answers than the one that the checkpoint reads.
        TopicReplacedError: The topic was deleted and made anew.
        SourceError: There is no such topic, or no broker answers.
    """
    found = kafka.look(context.kafka, source.topic, _LOOK_SECONDS, source.isolation)
    ref, ids = context.ref, {"topic_id": found.topic_id, "cluster_id": found.cluster_id}
    topic.check(context.layout, ref.dag_id, ref.flow, ref.version, source.topic, bootstrap=context.kafka, **ids)
    ends = {partition: end for partition, (_, end) in found.bounds.items()}
    known = topic.of_version(context.layout, ref, source.topic, ends=ends, **ids)
    topic.note(context.layout, ref, known)
    return known, found


def check_topic(context: FlowContext, source: KafkaSource, known: topic.Noted) -> None:
    """See that messages which were just read are of the topic that the checkpoint reads, and of no newer one.

    Raises:
        TopicReplacedError: The topic was made anew meanwhile. Nothing of the batch may be written.
        SourceError: There is no such topic any more, or no broker answers.
    """
    found = kafka.topic_id(context.kafka, source.topic, _LOOK_SECONDS)
    if known.topic_id and found != known.topic_id:
        raise TopicReplacedError(
            context.flow.name, context.ref.version, source.topic, known=known.topic_id, found=found
        )


def must_leave_gap(context: FlowContext, source: KafkaSource) -> bool:
    """Whether messages that the checkpoint reads next are gone and were given up: only a fresh one can begin behind them.

    Args:
        context: The flow.
        source: Its source.

    Raises:
        GapError: They are gone, and not all of them were given up.
        SourceError: As `settle_topic`.
    """
    state = progress.read(context.checkpoint)
    # Spark keeps where it begins before it plans its first batch.
    if state.last_planned is None and not (context.checkpoint / "sources" / "0" / "0").exists():
        return False
    known, found = settle_topic(context, source)
    if state.last_committed is None:
        read = topic.read_up_to(context.layout, context.ref, known)
    else:
        read = progress.planned_batch(context.checkpoint, state.last_committed).kafka_offsets(source.topic)
    begins = {partition: begin for partition, (begin, _) in found.bounds.items()}
    topic_backlog.check_gap(context.layout, context.ref, known, read, begins, context.live)
    return bool(topic_backlog.gap_before(read, begins, known, context.live))


def _starting_offsets(context: FlowContext, source: KafkaSource) -> str:
    """Where a new checkpoint begins: behind what bronze or an older checkpoint holds of this very topic.

    Spark uses it for the very first batch only; a partition of which nothing was read is read from its beginning (-2,
    the connector's "earliest"), and so is one whose next messages are gone and were given up.
    """
    known, found = settle_topic(context, source)
    if progress.read(context.checkpoint).last_planned is not None:
        return "earliest"
    read = topic.read_up_to(context.layout, context.ref, known)
    for partition, behind in topic_backlog.held_offsets(context.target, known).items():
        read[partition] = max(behind, read.get(partition, 0))
    begins = {partition: begin for partition, (begin, _) in found.bounds.items()}
    topic_backlog.check_reached(source.topic, read, {partition: end for partition, (_, end) in found.bounds.items()})
    topic_backlog.check_gap(context.layout, context.ref, known, read, begins, context.target)
    if not read or checkpoint.opened(context.layout, context.ref).get("mode") == "reingest":
        return "earliest"
    starts = {
        str(partition): max(read[partition], begin) if partition in read else -2
        for partition, begin in sorted(begins.items())
    }
    return json.dumps({source.topic: starts})


def _change_feed(context: FlowContext, source: ChangeFeed) -> DataFrame:
    return (
        context.spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("maxFilesPerTrigger", source.max_files_per_trigger)
        .option("maxBytesPerTrigger", source.max_bytes_per_trigger)
        .load(str(context.layout.table(source.table)))
    )
