"""The stream that several kinds of flow read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.intake.change_feed import changes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.job import Job


def change_feed(job: Job) -> DataFrame:
    """The changes of the flow's source table, as `tidegate.spark.intake.change_feed.changes_of`."""
    return changes_of(job.spark, job.place.layout, job.flow.feeds[0])
