"""Which topic a checkpoint version reads, as Kafka tells it apart from others of its name: by its id and its cluster's.

A topic that is deleted and made anew has the same name and begins at offset 0 again, so its offsets say nothing of what
was read of the old one. A version belongs to one topic: what a job notes before it first reads stays. Raising
``checkpoint_version`` is how a person says that the new topic is to be read.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tidegate import atomic
from tidegate.checkpoints import progress
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.errors import CheckpointCorruptError, OtherClusterError, TopicReplacedError
from tidegate.report import now

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tidegate.layout import Layout

_ID = re.compile(r"[A-Za-z0-9_-]{0,64}")


@dataclass(frozen=True, kw_only=True)
class Noted:
    """What is remembered of a version's topic."""

    topic: str
    """Its name."""
    topic_id: str
    """Kafka's id of it; empty where the broker is older than 2.8 and tells none."""
    cluster_id: str
    unnamed: str
    """The topic that messages without a ``_topic_id`` came from, which an older Tidegate read; empty when that one is gone."""

    def holds(self, topic_id: str | None) -> bool:
        """Whether a message with this ``_topic_id`` is of the topic."""
        return (topic_id or self.unnamed) == self.topic_id


def noted(layout: Layout, dag_id: str, flow: str, version: int) -> Noted | None:
    """The topic of a checkpoint version; None when no job has noted it yet.

    Raises:
        CheckpointCorruptError: The file is not what we wrote.
    """
    path = layout.topic(dag_id, flow, version)
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        found = Noted(**{name: told[name] for name in ("topic", "topic_id", "cluster_id", "unnamed")})
        if not all(_ID.fullmatch(each) for each in (found.topic_id, found.cluster_id, found.unnamed)):
            raise ValueError(path.name)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise CheckpointCorruptError(
            f"{path} does not say which topic the checkpoint reads. Restore it from a backup, or take another checkpoint_version.",
            path=str(path),
        ) from None
    return found


def check(
    layout: Layout, dag_id: str, flow: str, version: int, topic: str, *, topic_id: str, cluster_id: str, bootstrap: str
) -> None:
    """Compare the topic that is there now with the one that a checkpoint version reads. Touches nothing, needs no JVM.

    Args:
        layout: Where the checkpoint lies.
        dag_id: The pipeline's name.
        flow: The flow's.
        version: Of its checkpoint.
        topic: The topic's name.
        topic_id: As the broker tells it; empty where it tells none.
        cluster_id: The same.
        bootstrap: Where the broker was asked, for the message.

    Raises:
        OtherClusterError: Another cluster answers.
        TopicReplacedError: The topic was deleted and made anew.
        CheckpointCorruptError: What is remembered cannot be read.
    """
    known = noted(layout, dag_id, flow, version)
    if known is None:
        return
    if known.cluster_id and cluster_id and known.cluster_id != cluster_id:
        raise OtherClusterError(flow, version, topic, bootstrap=bootstrap, known=known.cluster_id, found=cluster_id)
    if known.topic_id and topic_id and known.topic_id != topic_id:
        raise TopicReplacedError(flow, version, topic, known=known.topic_id, found=topic_id)


def of_version(
    layout: Layout, ref: CheckpointRef, topic: str, *, topic_id: str, cluster_id: str, ends: Mapping[int, int]
) -> Noted:
    """The topic of a checkpoint version: as it is noted, or as a job will note it.

    Args:
        layout: Where the checkpoint lies.
        ref: The checkpoint.
        topic: The topic's name.
        topic_id: As the broker tells it.
        cluster_id: The same.
        ends: The end of each partition: an older checkpoint that read further did not read this topic.

    Raises:
        CheckpointCorruptError: What is remembered cannot be read.
    """
    known = noted(layout, ref.dag_id, ref.flow, ref.version)
    if known is not None:
        return known
    earlier = [
        found
        for version in range(1, ref.version)
        if (found := noted(layout, ref.dag_id, ref.flow, version)) is not None and found.topic == topic
    ]
    first = topic_id if _may_have_read(layout, ref, topic, ends) else ""
    unnamed = earlier[0].unnamed if earlier else first
    return Noted(topic=topic, topic_id=topic_id, cluster_id=cluster_id, unnamed=unnamed)


def note(layout: Layout, ref: CheckpointRef, known: Noted) -> None:
    """Remember a version's topic, once, before the version first reads it; the caller holds its lease."""
    path = layout.topic(ref.dag_id, ref.flow, ref.version)
    if not path.exists():
        atomic.write_text(path, json.dumps({**asdict(known), "noted_at": now()}, indent=1) + "\n")


def read_up_to(layout: Layout, ref: CheckpointRef, known: Noted) -> dict[int, int]:
    """What all checkpoints of a flow have read of a topic: partition to the offset that is read next.

    A checkpoint that cannot be read tells nothing: the table that it filled has to.

    Args:
        layout: Where the checkpoints lie.
        ref: One of them; older versions count, and all refreshes.
        known: The topic.
    """
    furthest: dict[int, int] = {}
    for version, offsets in _committed(layout, ref, known.topic):
        found = noted(layout, ref.dag_id, ref.flow, version)
        if (known.unnamed if found is None else found.topic_id) == known.topic_id:
            for partition, behind in offsets.items():
                furthest[partition] = max(behind, furthest.get(partition, 0))
    return furthest


def _may_have_read(layout: Layout, ref: CheckpointRef, topic: str, ends: Mapping[int, int]) -> bool:
    """Whether no checkpoint of the flow has read further than the topic goes."""
    return all(
        behind <= ends.get(partition, -1)
        for _, offsets in _committed(layout, ref, topic)
        for partition, behind in offsets.items()
    )


def _committed(layout: Layout, ref: CheckpointRef, topic: str) -> Iterator[tuple[int, dict[int, int]]]:
    """Version and committed offsets of each checkpoint of the flow that can be read, up to the version of ``ref``."""
    for version in range(1, ref.version + 1):
        folder = layout.checkpoints(ref.dag_id, ref.flow) / f"v{version}"
        refreshes = [entry for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []
        for refresh in refreshes:
            try:
                last = progress.read(refresh).last_committed
                if last is not None:
                    yield version, progress.planned_batch(refresh, last).kafka_offsets(topic)
            except CheckpointCorruptError:
                continue
