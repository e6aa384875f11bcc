"""The stream of a topic, with bounded micro-batches; it fails on data loss."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints import checkpoint, progress, topic
from tidegate.errors import TopicReplacedError
from tidegate.probes import delta, kafka, samples
from tidegate.sources.topics import measure as topics
from tidegate.sources.topics import start
from tidegate.spec import KafkaSource
from tidegate.spec.checks import in_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.environment.clusters import Cluster
    from tidegate.lake.place import Place
    from tidegate.store import Address


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


@dataclass(frozen=True)
class TopicReader:
    """A topic as one checkpoint reads it."""

    place: Place
    source: KafkaSource
    cluster: Cluster
    bronze: Address
    """The table that readers see, with the messages that were read."""

    def stream(self, spark: SparkSession, target: Address) -> DataFrame:
        """The messages of a topic: the connector's columns with headers."""
        starts = self._starting_offsets(target)
        return (
            spark.readStream.format("kafka")
            .options(**self.options(spark))
            .option("subscribe", self.source.topic)
            .option("maxOffsetsPerTrigger", self.max_offsets_per_batch(self._next_messages()))
            .option("startingOffsets", starts)
            .load()
        )

    def max_offsets_per_batch(self, starts: Mapping[int, int]) -> int:
        """The maximum number of messages in a micro-batch, by the declared number and the declared bytes.

        Args:
            starts: Partition to the offset of its next message, for partitions that have one. The size of a message is estimated
                from these messages; if they cannot be read, from the rows of bronze; else `topics.BYTES_PER_MESSAGE`.
        """
        size = (
            samples.message_bytes(self.cluster, self.source.topic, starts, isolation=self.source.isolation)
            if starts
            else None
        )
        size = size or delta.row_bytes(self.bronze) or topics.BYTES_PER_MESSAGE
        return max(1, min(self.source.max_offsets_per_trigger, int(in_bytes(self.source.max_bytes_per_trigger) / size)))

    def _next_messages(self) -> dict[int, int]:
        bounds = kafka.offset_bounds(self.cluster, self.source.topic, PROBE_SECONDS, self.source.isolation)
        committed = progress.read(self.place.checkpoint).last_committed
        read: dict[int, int] = {}
        if committed is not None:
            read = progress.planned_batch(self.place.checkpoint, committed).kafka_offsets(self.source.topic)
        elif (recorded := topic.recorded(self.place)) is not None:
            read = recorded.begins
        firsts = {partition: (max(read.get(partition, 0), begin), end) for partition, (begin, end) in bounds.items()}
        return {partition: first for partition, (first, end) in firsts.items() if first < end}

    def options(self, spark: SparkSession) -> dict[str, str]:
        """Options for every reader of a topic: broker, isolation level, failure on data loss, timeouts.

        Raises:
            SetupError: A reference to a secret cannot be followed, or the JVM of the session could not read what it names.
        """
        return {
            **self.cluster.spark(java_version(spark)),
            "kafka.isolation.level": self.source.isolation,
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            **BROKER_TIMEOUTS,
        }

    def bind(self) -> tuple[topic.CheckpointTopic, kafka.Topic]:
        """Check that the topic is the one that the checkpoint version reads, and record its id, and where the version begins, beside it.

        Both are recorded before the version reads its first message. The caller must hold the flow's lease.

        Returns:
            The topic as recorded beside the checkpoint, and the topic as it is now.

        Raises:
            OtherClusterError: The broker belongs to another cluster than the one that the checkpoint reads.
            TopicReplacedError: The topic was deleted and created again.
            CheckpointIncompatibleError: The version began with another start.
            SourceError: The topic does not exist or lacks the declared start, or no broker answers.
        """
        current = kafka.describe(self.cluster, self.source.topic, PROBE_SECONDS, self.source.isolation)
        place, ids = self.place, {"topic_id": current.topic_id, "cluster_id": current.cluster_id}
        topic.check(place, self.source.topic, cluster=self.cluster, **ids)
        checkpoint_topic = topic.of_version(place, self.source.topic, **ids)
        begins = start.opening(
            self.cluster, self.source, current, place, lambda: self._read_before(checkpoint_topic, self.bronze)
        )
        start.record(place, self.source, checkpoint_topic, begins)
        return checkpoint_topic, current

    def _read_before(self, checkpoint_topic: topic.CheckpointTopic, target: Address) -> dict[int, int]:
        """After the last message of this topic in bronze or in any checkpoint, by partition."""
        read = topic.next_offsets(self.place, checkpoint_topic)
        for partition, next_offset in topics.next_offsets_in_table(target, checkpoint_topic).items():
            read[partition] = max(next_offset, read.get(partition, 0))
        return read

    def check_same_topic(self, checkpoint_topic: topic.CheckpointTopic) -> None:
        """Check that the messages just read are from the topic that the checkpoint reads, not from a newer one.

        Raises:
            TopicReplacedError: The topic was deleted and created again. Nothing of the batch may be written.
            SourceError: The topic does not exist any more, or no broker answers.
        """
        topic_id = kafka.topic_id(self.cluster, self.source.topic, PROBE_SECONDS)
        if checkpoint_topic.topic_id and topic_id != checkpoint_topic.topic_id:
            raise TopicReplacedError(
                self.place.flow,
                self.place.version,
                self.source.topic,
                expected=checkpoint_topic.topic_id,
                actual=topic_id,
            )

    def needs_refresh_for_gap(self) -> bool:
        """Whether the next messages of the checkpoint were deleted and the gap was accepted.

        Only a new refresh of the checkpoint can start after such a gap.

        Raises:
            GapError: Messages were deleted, and not all of the gap was accepted.
            SourceError: As in `bind`.
        """
        state = progress.read(self.place.checkpoint)
        # Spark stores its starting offsets before it plans its first batch.
        if state.last_planned is None and not (self.place.checkpoint / "sources" / "0" / "0").exists():
            return False
        checkpoint_topic, current = self.bind()
        if state.last_committed is None:
            read = topic.next_offsets(self.place, checkpoint_topic)
        else:
            read = progress.planned_batch(self.place.checkpoint, state.last_committed).kafka_offsets(self.source.topic)
        first_offsets = {partition: begin for partition, (begin, _) in current.bounds.items()}
        topics.check_gap(self.place, checkpoint_topic, read, first_offsets, self.bronze)
        return bool(topics.unaccepted_gap(read, first_offsets, checkpoint_topic, self.bronze))

    def _starting_offsets(self, target: Address) -> str:
        """Where a new checkpoint starts: after the last message of this topic in bronze or in an older checkpoint.

        Spark uses it for the first batch only. A partition that was never read starts at its beginning (-2, the connector's
        "earliest"). After an accepted gap a partition starts at its first available offset.
        """
        checkpoint_topic, current = self.bind()
        if progress.read(self.place.checkpoint).last_planned is not None:
            return "earliest"
        read = self._read_before(checkpoint_topic, target)
        first_offsets = {partition: begin for partition, (begin, _) in current.bounds.items()}
        topics.check_not_truncated(
            self.source.topic, read, {partition: end for partition, (_, end) in current.bounds.items()}
        )
        topics.check_gap(self.place, checkpoint_topic, read, first_offsets, target)
        if not read or checkpoint.reads_again(self.place):
            return "earliest"
        starts = {
            str(partition): max(read[partition], begin) if partition in read else -2
            for partition, begin in sorted(first_offsets.items())
        }
        return json.dumps({self.source.topic: starts})


def java_version(spark: SparkSession) -> int:
    """The version of the JVM of a session, such as 17."""
    runtime: Any = getattr(spark._jvm, "java.lang.Runtime")
    return int(runtime.version().feature())
