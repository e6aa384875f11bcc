"""Flows that send the changes of a table to a sink. Their only writes are to the sink and to the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.batch import sends
from tidegate.spark.intake import sources
from tidegate.spark.kinds.kind import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Decision, Split
    from tidegate.spark.context import FlowContext


def _split(context: FlowContext, batch: DataFrame, batch_id: int, _decision: Decision) -> Split | None:
    """No table has the batch, so that nothing was decided before."""
    return sends.split_changes(context, batch, batch_id)


KIND = Kind(read_stream=sources.change_feed, split=_split)
