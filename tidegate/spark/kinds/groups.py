"""Group flows: the groups that have changes in the feed of a table are computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.runs import event_time, event_time_table
from tidegate.spark.batch.groups import split_groups
from tidegate.spark.intake import sources
from tidegate.spark.kinds.kind import Kind
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext
    from tidegate.spark.reprocessing.backfill import Backfill
    from tidegate.window import Window


def _keys_in_window(context: FlowContext, window: Window | None, pending: Backfill) -> DataFrame:
    """The groups with a row of the source in the window; without a window, all of the source."""
    assert context.source_table is not None
    source = tables.read(context.spark, context.source_table, pending.source_version)
    if window is None:
        return source.select(*context.flow.target.keys)
    column = event_time(context.pipeline, context.flow)
    assert column is not None
    within = tables.within(source, column, window, event_time_table(context.flow))
    return source.where(within).select(*context.flow.target.keys)


def _split_keys(context: FlowContext, keys: DataFrame, pending: Backfill, decision: Decision) -> Split | None:
    """As a batch whose change feed names these groups."""
    from pyspark.sql import functions as F

    version = F.lit(pending.source_version).cast("bigint")
    feed = keys.withColumns({"_change_type": F.lit("insert"), "_commit_version": version})
    return split_groups(context, feed, pending.number, decision)


KIND = Kind(
    read_stream=sources.change_feed,
    split=split_groups,
    keys_in_window=_keys_in_window,
    split_keys=_split_keys,
)
