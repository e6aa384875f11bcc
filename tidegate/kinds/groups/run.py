"""Group flows: the groups that have changes in the feed of a table are computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.requests.event_time import event_time, event_time_table
from tidegate.spark.batch import groups, scopes
from tidegate.spark.batch.time_windows import with_windows
from tidegate.spark.job import Job, Kind, Sides
from tidegate.spark.kind import change_feed
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from tidegate.checkpoints.pending_jobs import PendingBackfill
    from tidegate.spark.batch.pinned import Pinned
    from tidegate.spark.batch.split import Decision, Split
    from tidegate.times.window import Window


def keys_in_window(job: Job, window: Window | None, pending: PendingBackfill) -> DataFrame:
    """The groups with a row of the first source in the window; without a window, all of it."""
    assert job.source_table is not None
    source, keys = tables.read(job.spark, job.source_table, pending.source_version), job.flow.target.scope
    if window is None:
        return with_windows(job, source).select(*keys)
    column = event_time(job.resolved.pipeline, job.flow)
    assert column is not None
    within = tables.within(source, column, window, event_time_table(job.flow))
    return with_windows(job, source.where(within)).select(*keys)


def split_keys(job: Job, keys: DataFrame, pending: PendingBackfill, _decision: Decision) -> Split | None:
    """As a batch whose change feed names these groups."""
    version = F.lit(pending.source_version).cast("bigint")
    feed = keys.withColumns({hidden.CHANGE_TYPE: F.lit("insert"), hidden.COMMIT_VERSION: version})
    changed = groups.changed_groups(job, scopes.without_tombstones(job, feed))
    if changed is None:
        return None
    sources = groups.read_sources(job, keys.sparkSession, pending.source_versions(job.flow))
    return groups.recompute(job, changed, sources, pending.number)


def sides(job: Job, pins: Pinned) -> Sides:
    """All groups of the sources. The gate is not asked, because it refuses or records batches only."""
    read = groups.read_sources(job, job.spark, pins.source_versions)
    first, *others = read.rows.values()
    return Sides(
        expected=groups.derive(job, [with_windows(job, first), *others]),
        actual=tables.read(job.spark, job.live, pins.version),
        keys=job.flow.target.keys,
        source=", ".join(f"{table} at version {version}" for table, version in read.versions.items()),
        sums=True,
    )


KIND = Kind(
    read_stream=change_feed,
    split=groups.split_groups,
    keys_in_window=keys_in_window,
    split_keys=split_keys,
    sides=sides,
)
