"""Flows that send the changes of a table to a sink. Their only writes are to the sink and to the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.kinds.sinks import sends
from tidegate.spark.job import Job, Kind
from tidegate.spark.kind import change_feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Decision, Split


def _split(job: Job, batch: DataFrame, batch_id: int, _decision: Decision) -> Split | None:
    """No table has the batch, so that nothing was decided before."""
    return sends.split_changes(job, batch, batch_id)


KIND = Kind(read_stream=change_feed, split=_split)
