"""Where a checkpoint version begins to read a topic, and which messages it skips. Needs no JVM.

The first run of a version evaluates `KafkaSource.start` and records it beside the checkpoint; it never changes after that. So two
attempts at a first run begin at the same offsets, also with ``latest``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidegate.advice import Edit, new_version
from tidegate.checkpoints import checkpoint, gap, overrides, progress, topic
from tidegate.checkpoints.overrides import Override
from tidegate.errors import CheckpointIncompatibleError, SourceError
from tidegate.formatting import count
from tidegate.probes import kafka
from tidegate.sources.topics import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidegate.environment.clusters import Cluster
    from tidegate.lake.place import Place
    from tidegate.spec import KafkaSource

_SECONDS = 10.0
BY = "the declaration"
"""Who decided on a start, in decisions and the ledger."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """Where a version that has read nothing would begin now."""

    offsets: dict[int, int]
    """Partition to the first offset that is read. One that is not among them begins as without a declared start."""
    skipped: gap.Offsets
    """The messages that are skipped: partition to first and last offset."""

    def after(self, read: Mapping[int, int]) -> dict[int, int]:
        """Partition to the offset that is read next, if earlier versions have read up to ``read``."""
        return {each: max(read.get(each, 0), self.offsets.get(each, 0)) for each in read.keys() | self.offsets.keys()}

    def summary(self, start: str) -> str:
        """``its start at latest skips 15 messages (0:0-9, 10; 1:0-4, 5)``, for plans."""
        total = sum(last - first + 1 for first, last in self.skipped.values())
        parts = "; ".join(
            f"{partition}:{first}-{last}, {last - first + 1}" for partition, (first, last) in self.skipped.items()
        )
        return f"its start at {start} skips {count(total, 'offset')}" + (f" ({parts})" if parts else "")


def opening(
    cluster: Cluster, source: KafkaSource, described: kafka.Topic, place: Place, read: Callable[[], Mapping[int, int]]
) -> Opening | None:
    """Where a version would begin now; None if its start is recorded, or begins with the first message, or it has planned a batch.

    Args:
        read: Partition to the offset after the last message that earlier versions read, which are not skipped.

    Raises:
        SourceError: The declared start is not in the topic, or in the future, or no broker answers.
        CheckpointIncompatibleError: The version began with another start.
    """
    of_version = topic.recorded(place)
    recorded = of_version.get(described.name)
    if recorded is not None and recorded.start != source.start:
        raise CheckpointIncompatibleError(
            place.flow,
            place.version,
            {"start": (recorded.start, source.start)},
            again=new_version(place.version, "set {} in the declaration: a new version begins at the new start"),
        )
    # A topic that appears later is read from its first message.
    if source.start == EARLIEST or of_version or checkpoint.reads_again(place):
        return None
    if progress.read(place.checkpoint).last_planned is not None:
        return None
    offsets, before = _offsets(cluster, source, described), read()
    skipped: gap.Offsets = {}
    for partition, offset in sorted(offsets.items()):
        first = before.get(partition, described.bounds[partition][0])
        if first < offset:
            skipped[partition] = (first, offset - 1)
    return Opening(offsets=offsets, skipped=skipped)


def _offsets(cluster: Cluster, source: KafkaSource, described: kafka.Topic) -> dict[int, int]:
    if source.start == LATEST:
        return described.ends
    moment = source.start_time
    if moment is None:
        return _declared_offsets(source, described)
    if moment > datetime.now(UTC):
        raise SourceError(
            f"topic {described.name}: its start {source.start} is in the future. What arrives before that would be read nevertheless.",
            Edit("set start to a time in the past, or to 'latest'", "declaration"),
        )
    first = kafka.offsets_at(cluster, described.name, moment, _SECONDS, source.isolation)
    # A message that came after the question about the bounds is not skipped. A partition that begins with its first message is left
    # out: what the broker deleted before that may be younger than the time, and is a gap.
    return {
        partition: min(first[partition], end)
        for partition, (begin, end) in described.bounds.items()
        if first.get(partition, begin) > begin
    }


def _declared_offsets(source: KafkaSource, described: kafka.Topic) -> dict[int, int]:
    for partition, offset in source.start_offsets.items():
        if partition not in described.bounds:
            raise SourceError(
                f"topic {described.name} has no partition {partition}, which start={source.start!r} names: it has "
                f"{count(len(described.bounds), 'partition')}, from 0 on.",
                Edit("name partitions that the topic has", "declaration"),
            )
        begin, end = described.bounds[partition]
        if not begin <= offset <= end:
            raise SourceError(
                f"topic {described.name}, partition {partition}: start={source.start!r} names offset {offset}, and the partition has "
                f"messages from offset {begin} on and ends at {end}.",
                Edit(f"name an offset from {begin} to {end}", "declaration"),
            )
    return source.start_offsets


def record(place: Place, source: KafkaSource, begun: Iterable[tuple[topic.CheckpointTopic, Opening | None]]) -> None:
    """Record topics of a version, and where each begins, once. The caller holds the checkpoint's lease."""
    has_no_start = source.start != EARLIEST and (checkpoint.reads_again(place) or bool(topic.recorded(place)))
    topic.record(place, [_beginning(known, source, begins, has_no_start) for known, begins in begun])


def _beginning(
    known: topic.CheckpointTopic, source: KafkaSource, begins: Opening | None, has_no_start: bool
) -> topic.CheckpointTopic:
    if begins is None:
        return replace(known, start=source.start) if has_no_start else known
    return replace(
        known,
        start=source.start,
        starts={str(partition): offset for partition, offset in sorted(begins.offsets.items())} or None,
        skipped={str(partition): [first, last] for partition, (first, last) in sorted(begins.skipped.items())} or None,
    )


def record_decisions(place: Place) -> list[Override]:
    """Record the start of each topic of a version as a decision about the flow, unless it began with the first message.

    Returns:
        Those that were not recorded yet.
    """
    decided = {each.topic for each in overrides.history(place) if each.act == "start" and each.version == place.version}
    return [
        overrides.record(
            place,
            Override(
                act="start",
                by=BY,
                reason=f"start={known.start!r}",
                topic=known.topic,
                topic_id=known.topic_id,
                offsets=known.skipped,
                version=place.version,
            ),
        )
        for known in topic.recorded(place).values()
        if known.starts and known.topic not in decided
    ]
