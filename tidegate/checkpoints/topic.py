"""Records which topics a checkpoint version reads, by Kafka's topic ids and cluster id.

A topic that is deleted and created again has the same name and begins at offset 0 again, so offsets of the old topic mean
nothing in the new one. A checkpoint version belongs to its topics: a job records each before the first read, and it never
changes. To read the new topic, a person raises ``checkpoint_version``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from tidegate.advice import new_version
from tidegate.checkpoints import checkpoint, progress
from tidegate.checkpoints.checkpoint import REPAIR
from tidegate.checkpoints.note import Note
from tidegate.errors import (
    CheckpointCorruptError,
    CheckpointIncompatibleError,
    OtherClusterError,
    TopicReplacedError,
)
from tidegate.lake.place import Place
from tidegate.reports.report import now

_Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{0,64}\Z")]


@dataclass(frozen=True, kw_only=True)
class CheckpointTopic:
    """A topic of a checkpoint version."""

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
    others: tuple[CheckpointTopic, ...] | UnsetType = field(default=UNSET, compare=False)
    """In the file, where the first topic is outside: the others of the version."""

    @property
    def begins(self) -> dict[int, int]:
        """Partition to the offset at which the version began, as ``starts``."""
        return {int(partition): offset for partition, offset in (self.starts or {}).items()}


TOPIC: Note[CheckpointTopic, Place] = Note(
    name="topic",
    file="v{version}.topic.json",
    content=CheckpointTopic,
    says="the topics that the version reads, by Kafka's ids of topic and cluster, and where it began",
    absent="no run of the version has read a topic",
    written="a run of the flow, before the version first reads a topic, once for each",
    repair=REPAIR,
)


def recorded(place: Place) -> dict[str, CheckpointTopic]:
    """The topics of a checkpoint version by name, as far as jobs have recorded them.

    Raises:
        DamagedFileError: The file does not have the content of a topic.
    """
    first = TOPIC.read(place)
    return {} if first is None else {each.topic: each for each in (first, *(first.others or ()))}


def recorded_of(place: Place, declared: Sequence[str]) -> dict[str, CheckpointTopic]:
    """As `recorded`. Each must still be declared: what is unread of another would be left out.

    Raises:
        CheckpointIncompatibleError: One is not.
        DamagedFileError: The recorded topics cannot be read.
    """
    topics = recorded(place)
    if left_out := sorted(topics.keys() - set(declared)):
        again = new_version(place.version, "set {} in the declaration: a new version reads only the declared topics")
        changed = {"topic": (", ".join(left_out), "not declared")}
        raise CheckpointIncompatibleError(place.flow, place.version, changed, again=again)
    return topics


def check(place: Place, topic: str, *, topic_id: str, cluster_id: str, cluster: object) -> CheckpointTopic:
    """Compare the broker's topic with the one that a checkpoint version reads. Changes nothing, needs no JVM.

    Args:
        cluster: The cluster that responded, for messages.
        topic_id: The broker's id of the topic; empty when it has none.
        cluster_id: The broker's id of its cluster; empty when it has none.

    Returns:
        The topic as recorded, or as a job would record it now.

    Raises:
        OtherClusterError: The broker belongs to another cluster.
        TopicReplacedError: The topic was deleted and created again.
        DamagedFileError: The recorded topic cannot be read.
    """
    expected = recorded(place).get(topic)
    if expected is None:
        return CheckpointTopic(topic=topic, topic_id=topic_id, cluster_id=cluster_id)
    if expected.cluster_id and cluster_id and expected.cluster_id != cluster_id:
        raise OtherClusterError(
            place.flow, place.version, topic, cluster=cluster, expected=expected.cluster_id, actual=cluster_id
        )
    if expected.topic_id and topic_id and expected.topic_id != topic_id:
        raise TopicReplacedError(
            place.flow, place.version, topic, cluster=cluster, expected=expected.topic_id, actual=topic_id
        )
    return expected


def record(place: Place, topics: Sequence[CheckpointTopic]) -> None:
    """Record topics of a version, each once, before the version first reads it. The caller holds the checkpoint's lease."""
    known = recorded(place)
    if new := [replace(each, recorded_at=now()) for each in topics if each.topic not in known]:
        first, *others = *known.values(), *new
        TOPIC.write(place, replace(first, others=tuple(others) or UNSET))


def next_offsets(place: Place, topic: CheckpointTopic) -> dict[int, int]:
    """The offset that is read next in each partition of a topic, over all checkpoints of a flow, also one that only began somewhere.

    A checkpoint that cannot be read is left out; the caller reads the offsets of its table.

    Args:
        place: A checkpoint of the flow; older versions and all refreshes are included.
    """
    highest: dict[int, int] = {}
    notes = {version: recorded(place.of_version(version)) for version in range(1, place.version + 1)}
    same = {
        version: known
        for version, topics in notes.items()
        if (known := topics.get(topic.topic)) is not None
        and (known.topic_id, known.cluster_id) == (topic.topic_id, topic.cluster_id)
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
                yield each.version, progress.planned_batch(each.checkpoint, last).kafka_offsets().get(topic, {})
        except CheckpointCorruptError:
            continue
