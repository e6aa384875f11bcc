"""Reads the verdicts about batches over all attempts, with every expectation. Starts no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.lake.place import PipelinePlace
from tidegate.ops.ledger import VERDICTS, RecordedVerdict

if TYPE_CHECKING:
    from tidegate.ops.journal import Line


def read(place: PipelinePlace, lines: Sequence[Line]) -> dict[tuple[str, int], list[RecordedVerdict]]:
    """The verdicts about each of these batches, by `Line.key`, the oldest first. A swap has none."""
    keys = {line.key for line in lines if not line.is_swap}
    judged: dict[tuple[str, int], list[RecordedVerdict]] = {}
    if not keys:
        return judged
    numbers = [number for _, number in keys]
    for verdict in VERDICTS.read(place, f"batch_id BETWEEN {min(numbers)} AND {max(numbers)}"):
        if (key := (verdict.app_id, verdict.batch_id)) in keys:
            judged.setdefault(key, []).append(verdict)
    return judged
