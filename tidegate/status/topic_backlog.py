"""What a flow has still to read of its topic, and whether the topic still holds it. Needs no JVM.

Offsets tell what was read only of the very topic that they are of: see `tidegate.checkpoints.topic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint, gap, topic
from tidegate.errors import GapError, OffsetsExpiredError
from tidegate.ops import query, store
from tidegate.probes import delta, kafka
from tidegate.status.backlog import NOTHING_READ, Backlog
from tidegate.wording import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tidegate.checkpoints.checkpoint import CheckpointRef
    from tidegate.checkpoints.intervention import Intervention
    from tidegate.checkpoints.progress import PlannedBatch
    from tidegate.layout import Layout
    from tidegate.spec import KafkaSource

BYTES_PER_MESSAGE = 1024
"""A guess for a topic of which nothing was read yet: the broker does not tell sizes."""


def of_topic(
    bootstrap: str,
    source: KafkaSource,
    target: Path,
    layout: Layout,
    ref: CheckpointRef,
    committed: PlannedBatch | None,
) -> Backlog:
    """Messages of a topic that no committed batch holds.

    Args:
        bootstrap: Where the broker is.
        source: The topic.
        target: The flow's table, whose rows tell how large a message is.
        layout: Where the checkpoint lies.
        ref: The flow's checkpoint.
        committed: Its last committed batch.

    Raises:
        SourceError: There is no such topic.
        SourceUnavailableError: No broker answers.
        OtherClusterError: Another cluster answers than the one that the checkpoint reads.
        TopicReplacedError: The topic was deleted and made anew.
        GapError: The topic no longer holds the next message, and nobody gave it up.
        OffsetsExpiredError: The topic no longer reaches the next message.
    """
    found = kafka.look(bootstrap, source.topic, isolation=source.isolation)
    ids = {"topic_id": found.topic_id, "cluster_id": found.cluster_id}
    topic.check(layout, ref.dag_id, ref.flow, ref.version, source.topic, bootstrap=bootstrap, **ids)
    ends = {partition: end for partition, (_, end) in found.bounds.items()}
    known = topic.of_version(layout, ref, source.topic, ends=ends, **ids)
    if committed is not None:
        read = ours = committed.kafka_offsets(source.topic)
    else:
        # A new checkpoint goes on behind the older ones; a reingest reads what is there once more.
        read = topic.read_up_to(layout, ref, known)
        ours = {} if checkpoint.opened(layout, ref).get("mode") == "reingest" else read
    check_reached(source.topic, read, ends)
    begins = {partition: begin for partition, (begin, _) in found.bounds.items()}
    check_gap(layout, ref, known, read, begins, target)
    # A partition that the checkpoint does not know is new: it is read from its beginning. So is what was given up.
    ranges = {
        partition: (min(max(ours.get(partition, begin), begin), end), end)
        for partition, (begin, end) in sorted(found.bounds.items())
    }
    pending = sum(end - begin for begin, end in ranges.values())
    new = f"{count(pending, 'new message')} in topic {source.topic}"
    each = (delta.row_bytes(target) or BYTES_PER_MESSAGE) if pending else 0
    return Backlog(
        what=new if pending else f"nothing new in topic {source.topic}",
        behind=pending,
        rows=pending,
        size=round(pending * each),
        # A new version begins behind what bronze already holds, which only the job looks up.
        rows_exact=committed is not None or delta.current_version(target) is None,
        size_exact=not pending,
        position=" ".join(f"{partition}:{next_one}" for partition, next_one in sorted(ours.items())) or NOTHING_READ,
        anything=pending > 0,
        ahead=f"offsets {offsets_told(ranges)}" if pending else "",
        begins=begins,
        unread={partition: first for partition, (first, end) in ranges.items() if first < end},
    )


def check_gap(
    layout: Layout,
    ref: CheckpointRef,
    known: topic.Noted,
    read: Mapping[int, int],
    begins: Mapping[int, int],
    target: Path,
) -> None:
    """See that the topic still holds all that was not read, but for what a person gave up.

    Args:
        layout: Where the decisions lie.
        ref: The flow's checkpoint.
        known: Its topic.
        read: Partition to the offset that is read next.
        begins: Partition to the first offset that the topic still holds.
        target: The flow's table: a batch that it holds was read, although its checkpoint does not say so yet.

    Raises:
        GapError: Something is gone; it names what.
    """
    given_up = gap.accepted(layout, ref.dag_id, ref.flow)
    if lost := gap_before(read, begins, known, target, given_up):
        raise GapError(ref.dag_id, ref.flow, known.topic, lost)


def gap_before(
    read: Mapping[int, int],
    begins: Mapping[int, int],
    known: topic.Noted,
    target: Path,
    given_up: Sequence[Intervention] = (),
) -> gap.Offsets:
    """What the topic no longer holds, was not read and was not given up; arguments as of `check_gap`."""
    if not gap.missing(read, begins, given_up, known.topic_id):
        return {}
    held = held_offsets(target, known)
    further = {partition: max(behind, held.get(partition, 0)) for partition, behind in read.items()}
    return gap.missing(further, begins, given_up, known.topic_id)


def held_offsets(target: Path, known: topic.Noted) -> dict[int, int]:
    """By partition, the offset behind the highest one that a bronze table holds of a topic."""
    if not {"_topic", "_partition", "_offset"} <= set(query.columns(target)):
        return {}
    sql = "SELECT _partition, max(_offset) + 1 AS behind FROM held"
    rows = store.select(target, f"{sql} WHERE {of_that_topic(target, known)} GROUP BY _partition")
    return {int(row["_partition"]): int(row["behind"]) for row in rows}


def of_that_topic(target: Path, known: topic.Noted) -> str:
    """Which rows of a bronze table are of a topic, in SQL: by name, and by its id where rows have one."""
    named = f"_topic = '{known.topic}'"
    if "_topic_id" not in query.columns(target):
        return named if known.unnamed == known.topic_id else "false"
    return f"{named} AND coalesce(_topic_id, '{known.unnamed}') = '{known.topic_id}'"


def check_reached(name: str, read: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """See that the topic goes as far as it was read.

    Args:
        name: The topic's.
        read: Partition to the offset that is read next.
        ends: Partition to the offset at which a reader stops.

    Raises:
        OffsetsExpiredError: It ends before that.
    """
    for partition, next_one in read.items():
        end = ends.get(partition)
        if end is not None and next_one <= end:
            continue
        why = "it no longer has that partition" if end is None else f"it ends at {end}"
        raise OffsetsExpiredError(
            f"topic {name}, partition {partition}: the checkpoint reads on at offset {next_one}, but {why}: its broker lost "
            "messages, or the topic was made anew before Tidegate knew its id. If it was made anew, raise checkpoint_version: it "
            "is read from its beginning. If it lost messages, make it anew: its next offsets would be taken for those that were read."
        )


def offsets_told(ranges: Mapping[int, tuple[int, int]]) -> str:
    """For people: ``0:15-19 1:10-14``, first and last offset of each partition that has any.

    Args:
        ranges: By partition: the first offset, and the one behind the last.
    """
    return " ".join(f"{partition}:{begin}-{end - 1}" for partition, (begin, end) in ranges.items() if end > begin)
