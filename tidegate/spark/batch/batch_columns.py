"""The hidden columns by which quarantine and late table say which batch of which checkpoint wrote a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate import hidden

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def of_write(job: Job, batch_id: int) -> list[Column]:
    """The columns of the rows that a batch writes."""
    return [
        F.lit(job.app_id).alias(hidden.APP_ID),
        F.lit(job.place.version).alias(hidden.CHECKPOINT_VERSION),
        F.lit(job.place.refresh).alias(hidden.REFRESH),
        F.lit(batch_id).cast("bigint").alias(hidden.BATCH_ID),
    ]


def is_of_batch(job: Job, batch_id: int) -> Column:
    """Whether this batch wrote a row."""
    return (F.col(hidden.APP_ID) == job.app_id) & (F.col(hidden.BATCH_ID) == batch_id)


def is_of_checkpoint(job: Job) -> Column:
    """Whether a batch of the job's checkpoint wrote a row."""
    return (F.col(hidden.CHECKPOINT_VERSION) == job.place.version) & (F.col(hidden.REFRESH) == job.place.refresh)
