"""The stream of the changes of a table, with bounded micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spec import ChangeFeed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.lake.layout import Layout


def changes_of(spark: SparkSession, layout: Layout, feed: ChangeFeed, start: int | None = None) -> DataFrame:
    """The changes of a table: its columns, ``_change_type``, ``_commit_version``, ``_commit_timestamp``.

    Args:
        start: The first commit that a new checkpoint reads; None for the whole table and the commits after it.
    """
    reader = (
        spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("maxFilesPerTrigger", feed.max_files_per_trigger)
        .option("maxBytesPerTrigger", feed.max_bytes_per_trigger)
    )
    if start is not None:
        reader = reader.option("startingVersion", start)
    return reader.load(str(layout.read_table(feed.table)))
