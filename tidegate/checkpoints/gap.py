"""Messages of a topic that its broker deleted before they were read, and a person's decision to go on without them.

What a person gives up is named: the topic by its id, and of each partition the first and the last offset. Nothing else is
ever passed over: when more is gone by the time of the next run, that has to be given up as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidegate.checkpoints import intervention
from tidegate.checkpoints.intervention import Intervention
from tidegate.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tidegate.layout import Layout

Offsets = dict[int, tuple[int, int]]
"""By partition: the first offset and the last."""

_NAMED = re.compile(r"(\d{1,9}):(\d{1,18})-(\d{1,18})")


def parse(texts: Iterable[str]) -> Offsets:
    """Offsets as people name them: ``0:10-14``, partition, first and last.

    Raises:
        RequestError: A text is none, or names a partition twice.
    """
    found: Offsets = {}
    for text in texts:
        match = _NAMED.fullmatch(text)
        if match is None or int(match[2]) > int(match[3]) or int(match[1]) in found:
            raise RequestError(
                f"{text!r} names no offsets; write partition:first-last, as in 0:10-14, each partition once"
            )
        found[int(match[1])] = (int(match[2]), int(match[3]))
    return found


def told(offsets: Mapping[int, tuple[int, int]]) -> str:
    """The reverse of `parse`: ``0:10-14 1:3-7``."""
    return " ".join(f"{partition}:{first}-{last}" for partition, (first, last) in sorted(offsets.items()))


def accepted(layout: Layout, dag_id: str, flow: str) -> list[Intervention]:
    """What people gave up of a flow's topics, oldest first.

    Raises:
        CheckpointCorruptError: The list of decisions is not what we wrote.
    """
    return [each for each in intervention.history(layout, dag_id, flow) if each.act == "gap"]


def missing(
    positions: Mapping[int, int],
    begins: Mapping[int, int],
    given_up: Sequence[Intervention] = (),
    topic_id: str = "",
) -> Offsets:
    """What was not read, is gone, and was not given up.

    Args:
        positions: Partition to the offset that is read next.
        begins: Partition to the first offset that the topic still holds.
        given_up: As `accepted`.
        topic_id: Which topic it is about.
    """
    found: Offsets = {}
    for partition, behind in positions.items():
        begin, at = begins.get(partition, behind), behind
        ranges = sorted(
            tuple(each.offsets[str(partition)])
            for each in given_up
            if each.topic_id == topic_id and each.offsets is not None and str(partition) in each.offsets
        )
        for first, last in ranges:
            if first <= at <= last:
                at = last + 1
        if at < begin:
            found[partition] = (at, begin - 1)
    return found


def accept(
    layout: Layout, dag_id: str, flow: str, topic: str, topic_id: str, lost: Offsets, *, by: str, reason: str
) -> Intervention:
    """Write down that messages are given up; the flow's next run goes on behind them.

    Args:
        layout: Where the decisions lie.
        dag_id: The pipeline's name.
        flow: The flow's.
        topic: Its topic's name.
        topic_id: Kafka's id of it.
        lost: What is gone.
        by: Who decides.
        reason: Why.

    Raises:
        RequestError: There is no reason.
    """
    decision = Intervention(
        act="gap",
        by=by,
        reason=reason,
        topic=topic,
        topic_id=topic_id,
        offsets={str(partition): [first, last] for partition, (first, last) in sorted(lost.items())},
    )
    return intervention.record(layout, dag_id, flow, decision)
