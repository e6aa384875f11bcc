"""The change feed of a table from its first commit on, for flows with a watermark or state: in bounded batches of whole commits.

Delta admits a commit with change files to a batch as a whole, but cuts one that only appends between two of its files. The rows of a
commit that was cut belong to the batch of the flow that reads its last file: the batches before leave them out.

Why: the rows that a commit brings are judged by the watermark before it. Those who read the flow's table after the first half of
them would have a higher watermark for the second half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.checkpoints import progress
from tidegate.probes import delta

if TYPE_CHECKING:
    from tidegate.checkpoints.progress import DeltaPosition
    from tidegate.lake.place import Place
    from tidegate.spec import ChangeFeed
    from tidegate.store import Address


def stream(spark: SparkSession, place: Place, feed: ChangeFeed, *, bounded: bool = True) -> DataFrame:
    """The changes of a table from its first commit on, in bounded batches.

    If the log or files of it are gone, a new version replaced its rows, or rows were deleted, a new checkpoint reads the present
    table first: with everything else that there is, in one batch, because the files of a table are in no order of commits.

    Args:
        bounded: Whether the declared limits apply; if not, all that is unread is one batch.
    """
    path = place.layout.read_table(feed.table)
    reader = spark.readStream.format("delta").option("readChangeFeed", "true")
    begun = progress.read(place.checkpoint).last_committed is not None
    from_first = begun or _is_whole(path)
    if from_first:
        # Spark asks for it until a batch was planned; later it goes on from its own log.
        reader = reader.option("startingVersion", 0)
    if from_first and bounded:
        reader = reader.option("maxFilesPerTrigger", feed.max_files_per_trigger)
        reader = reader.option("maxBytesPerTrigger", feed.max_bytes_per_trigger)
    else:
        reader = reader.option("maxFilesPerTrigger", 2**31 - 1)
    return reader.load(str(path))


def complete(place: Place, feed: ChangeFeed, batch: DataFrame, batch_id: int) -> DataFrame:
    """The rows of a batch of `stream`, with the whole of each commit whose last file is in it, and without other commits."""
    path = place.layout.read_table(feed.table)
    ends = _cut_commit(path, progress.planned_batch(place.checkpoint, batch_id).delta)
    began = _cut_commit(path, progress.planned_batch(place.checkpoint, batch_id - 1).delta) if batch_id else None
    version = F.col(hidden.COMMIT_VERSION)
    if ends is not None:
        batch = batch.where(version != ends)
    if began is None or began == ends:
        return batch
    commit = (
        batch.sparkSession.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", began)
        .option("endingVersion", began)
        .load(str(path))
    )
    return batch.where(version != began).unionByName(commit.select(*batch.columns))


def _is_whole(address: Address) -> bool:
    newest = delta.current_version(address)
    return (
        newest is not None
        and delta.served_ranges(address, 0, newest) == [(0, newest)]
        and not any(delta.is_replacement(address, version) for version in range(newest + 1))
        # What was deleted is not read again.
        and all(delta.only_adds(address, version) for version in range(newest + 1))
    )


def _cut_commit(address: Address, position: DeltaPosition) -> int | None:
    """The commit that a position is within; None if it is between two commits."""
    if position.of_snapshot or position.index < 0:
        return None
    commit = delta.read_commit(address, position.version)
    return None if commit.has_change_files or position.index + 1 >= len(commit.files) else position.version
