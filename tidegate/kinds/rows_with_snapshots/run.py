"""Flows of rows with snapshots beside their changes: after the changes are read, and where rows are derived again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tidegate.kinds.rows import run as changes
from tidegate.kinds.rows_with_snapshots import compare, records
from tidegate.spark.batch import position, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.checkpoints.pending_jobs import PendingBackfill
    from tidegate.spark.batch.pinned import Pinned
    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.job import Job, Sides
    from tidegate.times.window import Window


def _keys_in_window(job: Job, window: Window | None, pending: PendingBackfill) -> DataFrame:
    """Those of the changes; without a window also those that only the snapshot has with which the table begins."""
    keys, base = changes.KIND.keys_in_window(job, window, pending), records.base_rows(job)
    return keys if window is not None or base is None else keys.unionByName(base.select(*keys.columns))


def _split_keys(job: Job, keys: DataFrame, pending: PendingBackfill, decision: Decision) -> Split | None:
    batch = changes.source_batch(job, keys, pending)
    return rows.replace_rows(job, batch, keys, pending.number, decision, records.base_rows(job))


def _sides(job: Job, pins: Pinned) -> Sides:
    """The rows that the changes make, and those of the snapshot with which the table begins."""
    sides, base = changes.KIND.sides(job, pins), records.base_rows(job)
    if base is None:
        return sides
    expected, actual = records.comparable(job, position.with_base(job, sides.expected, base), sides.actual)
    return dataclasses.replace(sides, expected=expected, actual=actual)


KIND = dataclasses.replace(
    changes.KIND,
    caught_up=compare.compare_next,
    finish=compare.finish,
    keys_in_window=_keys_in_window,
    split_keys=_split_keys,
    sides=_sides,
)
