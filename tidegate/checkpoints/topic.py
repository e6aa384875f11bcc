"""Records which topic a checkpoint version reads, by Kafka's topic id and cluster id.

A topic that is deleted and created again has the same name and begins at offset 0 again, so offsets of the old topic mean
nothing in the new one. A checkpoint version belongs to one topic: a job records it before the first read, and it never
changes. To read the new topic, a person raises ``checkpoint_version``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

from msgspec import Meta

from tidegate.checkpoints import checkpoint, progress
from tidegate.checkpoints.checkpoint import REPAIR
from tidegate.checkpoints.note import Note
from tidegate.errors import CheckpointCorruptError, OtherClusterError, TopicReplacedError
from tidegate.lake.place import Place
from tidegate.reports.report import now

_Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{0,64}\Z")]


@dataclass(frozen=True, kw_only=True)
class CheckpointTopic:
    """The topic of a checkpoint version."""

    topic: str
    """Its name."""
    topic_id: _Id
    """Kafka's id of the topic; empty for a broker older than 2.8, which has no topic ids."""
    cluster_id: _Id
    start: str = "earliest"
    """Where the version began, as its declaration said at its first run."""
    starts: dict[str, int] | None = field(default=None, compare=False)
    """Partition to the offset at which the version began; None if ``start`` put it nowhere."""
    skipped: dict[str, list[int]] | None = field(default=None, compare=False)
    """The messages that ``start`` skipped: partition to first and last offset."""
    recorded_at: str = field(default="", compare=False)
    """The instant, in UTC, as ISO 8601; empty before it is recorded."""

    @property
    def begins(self) -> dict[int, int]:
        """Partition to the offset at which the version began, as ``starts``."""
        return {int(partition): offset for partition, offset in (self.starts or {}).items()}


TOPIC: Note[CheckpointTopic, Place] = Note(
    name="topic",
    file="v{version}.topic.json",
    content=CheckpointTopic,
    says="the topic that the version reads, by Kafka's ids of topic and cluster, and where it began",
    absent="no run of the version has read the topic",
    written="a run of the flow, once, before the version first reads the topic",
    repair=REPAIR,
)


def recorded(place: Place) -> CheckpointTopic | None:
    """The topic of a checkpoint version; None when no job has recorded it yet.

    Raises:
        DamagedFileError: The file does not have the content of a topic.
    """
    return TOPIC.read(place)


def check(place: Place, topic: str, *, topic_id: str, cluster_id: str, cluster: object) -> None:
    """Compare the broker's topic with the one that a checkpoint version reads. Changes nothing, needs no JVM.

    Args:
        cluster: The cluster that responded, for messages.
        topic_id: The broker's id of the topic; empty when it has none.
        cluster_id: The broker's id of its cluster; empty when it has none.

    Raises:
        OtherClusterError: The broker belongs to another cluster.
        TopicReplacedError: The topic was deleted and created again.
        DamagedFileError: The recorded topic cannot be read.
    """
    expected = recorded(place)
    if expected is None:
        return
    if expected.cluster_id and cluster_id and expected.cluster_id != cluster_id:
        raise OtherClusterError(
            place.flow, place.version, topic, cluster=cluster, expected=expected.cluster_id, actual=cluster_id
        )
    if expected.topic_id and topic_id and expected.topic_id != topic_id:
        raise TopicReplacedError(place.flow, place.version, topic, expected=expected.topic_id, actual=topic_id)


def of_version(place: Place, topic: str, *, topic_id: str, cluster_id: str) -> CheckpointTopic:
    """The topic of a checkpoint version: as recorded, or as a job would record it now.

    Raises:
        DamagedFileError: A recorded topic cannot be read.
    """
    existing = recorded(place)
    return existing or CheckpointTopic(topic=topic, topic_id=topic_id, cluster_id=cluster_id)


def record(place: Place, topic: CheckpointTopic) -> None:
    """Record a version's topic, once, before the version first reads it. The caller holds the checkpoint's lease."""
    if not TOPIC.exists(place):
        TOPIC.write(place, replace(topic, recorded_at=now()))


def next_offsets(place: Place, topic: CheckpointTopic) -> dict[int, int]:
    """The offset that is read next in each partition of a topic, over all checkpoints of a flow, also one that only began somewhere.

    A checkpoint that cannot be read is left out; the caller reads the offsets of its table.

    Args:
        place: A checkpoint of the flow; older versions and all refreshes are included.
    """
    highest: dict[int, int] = {}
    notes = {version: recorded(place.of_version(version)) for version in range(1, place.version + 1)}
    same = {
        version: other
        for version, other in notes.items()
        if other is not None and (other.topic_id, other.cluster_id) == (topic.topic_id, topic.cluster_id)
    }
    begun = (other.begins for other in same.values())
    committed = (offsets for version, offsets in _committed(place, topic.topic) if version in same)
    for offsets in (*begun, *committed):
        for partition, next_offset in offsets.items():
            highest[partition] = max(next_offset, highest.get(partition, 0))
    return highest


def _committed(place: Place, topic: str) -> Iterator[tuple[int, dict[int, int]]]:
    """Version and committed offsets of each readable checkpoint of the flow, up to the version of ``place``."""
    for each in checkpoint.of_flow(place):
        if each.version > place.version:
            continue
        try:
            last = progress.read(each.checkpoint).last_committed
            if last is not None:
                yield each.version, progress.planned_batch(each.checkpoint, last).kafka_offsets(topic)
        except CheckpointCorruptError:
            continue
