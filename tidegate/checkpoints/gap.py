"""Gaps: messages that the broker deleted before they were read, and the decision to continue without them.

A decision names the topic by its id and, for each partition, the first and the last offset. Only these offsets are skipped:
if more messages are missing at the next run, they have to be accepted too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidegate.advice import Edit
from tidegate.checkpoints import overrides
from tidegate.checkpoints.overrides import Override
from tidegate.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tidegate.lake.place import FlowPlace

Offsets = dict[int, tuple[int, int]]
"""By partition: the first offset and the last."""

_NAMED = re.compile(r"((?:[A-Za-z0-9._-]+/)?)(\d{1,9}):(\d{1,18})-(\d{1,18})")


def parse(texts: Iterable[str]) -> tuple[str, Offsets]:
    """Parse offsets as people write them: ``0:10-14`` is partition, first and last offset; ``orders/0:10-14`` with the topic.

    Returns:
        What is before the partitions, as `KafkaSource.prefix`, and the offsets.

    Raises:
        RequestError: A text has another form, a partition occurs twice, or there are several topics.
    """
    prefixes, offsets = set[str](), Offsets()
    for text in texts:
        match = _NAMED.fullmatch(text)
        if match is None or int(match[3]) > int(match[4]) or int(match[2]) in offsets or prefixes - {match[1]}:
            raise RequestError(
                f"{text!r} is not a range of offsets",
                Edit(
                    "write partition:first-last, as in 0:10-14, or orders/0:10-14 of one topic of several, each partition once",
                    "request",
                ),
            )
        prefixes.add(match[1])
        offsets[int(match[2])] = (int(match[3]), int(match[4]))
    return "".join(prefixes), offsets


def format_offsets(offsets: Mapping[int, tuple[int, int]], prefix: str = "") -> str:
    """The reverse of `parse`: ``0:10-14 1:3-7``."""
    return " ".join(f"{prefix}{partition}:{first}-{last}" for partition, (first, last) in sorted(offsets.items()))


def accepted(place: FlowPlace, topic: str) -> list[Override]:
    """The accepted gaps of a flow in a topic, oldest first.

    Raises:
        CheckpointCorruptError: The file of overrides cannot be parsed.
    """
    return [each for each in overrides.history(place) if each.act == "gap" and each.topic == topic]


def missing(
    positions: Mapping[int, int],
    first_offsets: Mapping[int, int],
    accepted_gaps: Sequence[Override] = (),
    topic_id: str = "",
) -> Offsets:
    """The offsets that were deleted before they were read, without the accepted ones.

    Args:
        positions: Partition to the offset that is read next.
        first_offsets: Partition to the first offset that the topic still holds.
        accepted_gaps: As returned by `accepted`.
        topic_id: Kafka's id of the topic.
    """
    gaps: Offsets = {}
    for partition, next_offset in positions.items():
        begin, at = first_offsets.get(partition, next_offset), next_offset
        for first, last in ranges_of(accepted_gaps, topic_id, partition):
            if first <= at <= last:
                at = last + 1
        if at < begin:
            gaps[partition] = (at, begin - 1)
    return gaps


def ranges_of(decisions: Iterable[Override], topic_id: str, partition: int) -> list[tuple[int, int]]:
    """The first and last offsets that decisions name of a partition, sorted."""
    return sorted(
        (each.offsets[str(partition)][0], each.offsets[str(partition)][1])
        for each in decisions
        if each.topic_id == topic_id and each.offsets is not None and str(partition) in each.offsets
    )


def accept(place: FlowPlace, topic: str, topic_id: str, lost: Offsets, *, by: str, reason: str) -> Override:
    """Record that a gap is accepted; the flow's next run continues after it.

    Raises:
        RequestError: The reason is empty.
    """
    decision = Override(
        act="gap",
        by=by,
        reason=reason,
        topic=topic,
        topic_id=topic_id,
        offsets={str(partition): [first, last] for partition, (first, last) in sorted(lost.items())},
    )
    return overrides.record(place, decision)
