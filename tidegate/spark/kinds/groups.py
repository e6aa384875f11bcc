"""Group flows: the groups that have changes in the feed of a table are computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidegate.runs import event_time, event_time_table
from tidegate.spark.batch import groups, scopes
from tidegate.spark.batch.time_windows import with_windows
from tidegate.spark.intake import sources
from tidegate.spark.kinds.kind import Kind, Sides
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.reprocessing.backfill import Backfill
    from tidegate.spark.reprocessing.pins import Pins
    from tidegate.window import Window


def keys_in_window(context: FlowContext, window: Window | None, pending: Backfill) -> DataFrame:
    """The groups with a row of the first source in the window; without a window, all of it."""
    assert context.source_table is not None
    source, keys = tables.read(context.spark, context.source_table, pending.source_version), context.flow.target.scope
    if window is None:
        return with_windows(context, source).select(*keys)
    column = event_time(context.pipeline, context.flow)
    assert column is not None
    within = tables.within(source, column, window, event_time_table(context.flow))
    return with_windows(context, source.where(within)).select(*keys)


def split_keys(context: FlowContext, keys: DataFrame, pending: Backfill, _decision: Decision) -> Split | None:
    """As a batch whose change feed names these groups."""
    version = F.lit(pending.source_version).cast("bigint")
    feed = keys.withColumns({"_change_type": F.lit("insert"), "_commit_version": version})
    changed = groups.changed_groups(context, scopes.without_tombstones(context, feed))
    if changed is None:
        return None
    sources = groups.read_sources(context, keys.sparkSession, pending.source_versions(context.flow))
    return groups.recompute(context, changed, sources, pending.number)


def sides(context: FlowContext, pins: Pins) -> Sides:
    """All groups of the sources. The gate is not asked, because it refuses or records batches only."""
    read = groups.read_sources(context, context.spark, pins.source_versions)
    first, *others = read.rows.values()
    return Sides(
        expected=groups.derive(context, [with_windows(context, first), *others]),
        actual=tables.read(context.spark, context.live, pins.version),
        keys=context.flow.target.keys,
        source=", ".join(f"{table} at version {version}" for table, version in read.versions.items()),
        sums=True,
    )


KIND = Kind(
    read_stream=sources.change_feed,
    split=groups.split_groups,
    keys_in_window=keys_in_window,
    split_keys=split_keys,
    sides=sides,
)
