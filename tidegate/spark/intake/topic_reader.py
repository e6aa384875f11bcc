"""The stream of the topics of a flow, with bounded micro-batches; it fails on data loss."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints import checkpoint, gap, progress, topic
from tidegate.errors import TopicReplacedError
from tidegate.probes import delta, kafka, samples
from tidegate.sources.topics import measure as topics
from tidegate.sources.topics import start, unread
from tidegate.sources.topics.unread import BoundTopic
from tidegate.spec import KafkaSource
from tidegate.spec.checks import in_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.checkpoints.progress import KafkaOffsets
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
    """The topics of a flow as one checkpoint reads them."""

    place: Place
    source: KafkaSource
    cluster: Cluster
    bronze: Address
    """The table that readers see, with the messages that were read."""

    def stream(self, spark: SparkSession, target: Address) -> DataFrame | None:
        """The messages of the topics: the connector's columns with headers; None if a committed batch ends where each partition ends."""
        bound = self.bind()
        last = progress.settled(self.place.checkpoint)
        ends = {current.name: current.ends for _, current in bound}
        if last is not None and last.kafka_offsets(self.source.topics) == ends:
            return None
        starts = self._starting_offsets(bound, target)
        return (
            spark.readStream.format("kafka")
            .options(**self.options(spark))
            .option("subscribe", ",".join(current.name for _, current in bound))
            .option("maxOffsetsPerTrigger", self.max_offsets_per_batch(self._next_messages(bound)))
            .option("startingOffsets", starts)
            .load()
        )

    def max_offsets_per_batch(self, starts: Mapping[str, Mapping[int, int]]) -> int:
        """The maximum number of messages in a micro-batch, by the declared number and the declared bytes.

        Args:
            starts: By topic: partition to the offset of its next message, for partitions that have one. The size of a message is
                estimated from these messages, of the topic with the largest ones; if they cannot be read, from the rows of bronze;
                else `topics.BYTES_PER_MESSAGE`.
        """
        sizes = [
            samples.message_bytes(self.cluster, name, firsts, isolation=self.source.isolation)
            for name, firsts in starts.items()
            if firsts
        ]
        size = max(filter(None, sizes), default=None) or delta.row_bytes(self.bronze) or topics.BYTES_PER_MESSAGE
        return max(1, min(self.source.max_offsets_per_trigger, int(in_bytes(self.source.max_bytes_per_trigger) / size)))

    def _next_messages(self, bound: Sequence[BoundTopic]) -> KafkaOffsets:
        committed = progress.read(self.place.checkpoint).last_committed
        read = {known.topic: known.begins for known in topic.recorded(self.place).values()}
        if committed is not None:
            read = progress.planned_batch(self.place.checkpoint, committed).kafka_offsets(self.source.topics)
        return {
            current.name: {
                partition: first
                for partition, (begin, end) in current.bounds.items()
                if (first := max(read.get(current.name, {}).get(partition, 0), begin)) < end
            }
            for _, current in bound
        }

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

    def bind(self) -> list[BoundTopic]:
        """Check that the topics are those that the checkpoint version reads, and record their ids, and where the version begins, beside it.

        Both are recorded before the version reads its first message. The caller must hold the flow's lease.

        Returns:
            Those that exist.

        Raises:
            CheckpointIncompatibleError: The version began with another start.
            SourceError: As `unread.existing`, or a topic lacks the declared start.
        """
        bound, _ = unread.existing(self.cluster, self.source, self.place, PROBE_SECONDS)
        begun: list[tuple[topic.CheckpointTopic, start.Opening | None]] = []
        for known, current in bound:
            read = functools.partial(self._read_before, known, self.bronze)
            begun.append((known, start.opening(self.cluster, self.source, current, self.place, read)))
        start.record(self.place, self.source, begun)
        return bound

    def _read_before(self, checkpoint_topic: topic.CheckpointTopic, target: Address) -> dict[int, int]:
        """After the last message of this topic in bronze or in any checkpoint, by partition."""
        read = topic.next_offsets(self.place, checkpoint_topic)
        for partition, next_offset in unread.next_offsets_in_table(target, checkpoint_topic).items():
            read[partition] = max(next_offset, read.get(partition, 0))
        return read

    def check_same_topic(self, checkpoint_topic: topic.CheckpointTopic) -> None:
        """Check that the messages just read are from the topic that the checkpoint reads, not from a newer one.

        Raises:
            TopicReplacedError: The topic was deleted and created again. Nothing of the batch may be written.
            SourceError: The topic does not exist any more, or no broker answers.
        """
        name, expected = checkpoint_topic.topic, checkpoint_topic.topic_id
        actual = kafka.topic_id(self.cluster, name, PROBE_SECONDS)
        if expected and actual != expected:
            raise TopicReplacedError(
                self.place.flow, self.place.version, name, cluster=self.cluster, expected=expected, actual=actual
            )

    def needs_refresh(self) -> bool:
        """Whether the next messages of the checkpoint were deleted, and the gap was accepted if they are in no other checkpoint.

        Only a new refresh of the checkpoint can start after them, or begin a topic or a partition that has appeared and has no offset 0
        any more: Spark reads one that is new to a checkpoint from offset 0 on.

        Raises:
            GapError: Messages were deleted, and not all of the gap was accepted.
            SourceError: As in `bind`.
        """
        state = progress.read(self.place.checkpoint)
        # Spark stores its starting offsets before it plans its first batch.
        if state.last_planned is None and not (self.place.checkpoint / "sources" / "0" / "0").exists():
            return False
        committed, next_offsets = state.last_committed is not None, self._next_offsets(state.last_committed)
        planned = next_offsets
        if not committed and state.last_planned is not None:
            planned = progress.planned_batch(self.place.checkpoint, state.last_planned).kafka_offsets(
                self.source.topics
            )
        needed = False
        for known, current in self.bind():
            name, begins = current.name, current.begins
            own = next_offsets.get(name, {})
            read = own if committed and name in next_offsets else topic.next_offsets(self.place, known)
            unread.check_gap(self.place, self.source, known, current, read, self.bronze)
            needed |= bool(unread.unaccepted_gap(known, current, read, self.bronze))
            needed |= any(begin and partition not in planned.get(name, {}) for partition, begin in begins.items())
            # Bronze has what a checkpoint that reads again has not reached.
            needed |= bool(gap.missing(own, begins)) and checkpoint.reads_again(self.place)
        return needed

    def is_reading_again(self) -> bool:
        """Whether the checkpoint was opened to read the whole source again, and has not reached what was read before.

        Raises:
            SourceError: As in `bind`.
        """
        if not checkpoint.reads_again(self.place):
            return False
        own = self._next_offsets(progress.read(self.place.checkpoint).last_committed)
        return any(
            own.get(current.name, {}).get(partition, 0) < offset
            for known, current in self.bind()
            for partition, offset in self._read_before(known, self.bronze).items()
        )

    def _next_offsets(self, committed: int | None) -> KafkaOffsets:
        """The offset that the checkpoint reads next in each partition, by topic, after a committed batch; None: where its stream began."""
        if committed is None:
            return progress.initial_offsets(self.place.checkpoint)
        return progress.planned_batch(self.place.checkpoint, committed).kafka_offsets(self.source.topics)

    def _starting_offsets(self, bound: Sequence[BoundTopic], target: Address) -> str:
        """Where a new checkpoint starts: after the last message of this topic in bronze or in an older checkpoint.

        Spark uses it for the first batch only. A partition that was never read starts at its beginning (-2, the connector's
        "earliest"). After an accepted gap a partition starts at its first available offset.
        """
        if progress.read(self.place.checkpoint).last_planned is not None:
            return "earliest"
        starts: dict[str, dict[str, int]] = {}
        for known, current in bound:
            read = self._read_before(known, target)
            unread.check_not_truncated(current, read)
            unread.check_gap(self.place, self.source, known, current, read, target)
            starts[current.name] = {
                str(partition): max(read[partition], begin) if partition in read else -2
                for partition, begin in sorted(current.begins.items())
            }
        read_before = any(offset >= 0 for offsets in starts.values() for offset in offsets.values())
        return json.dumps(starts) if read_before and not checkpoint.reads_again(self.place) else "earliest"


def java_version(spark: SparkSession) -> int:
    """The version of the JVM of a session, such as 17."""
    runtime: Any = getattr(spark._jvm, "java.lang.Runtime")
    return int(runtime.version().feature())
