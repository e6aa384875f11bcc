"""The stream that several kinds of flow read, and whether there is anything to read in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.checkpoints import progress
from tidegate.probes import delta
from tidegate.spark.intake.change_feed import changes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.checkpoints.progress import DeltaPosition
    from tidegate.spark.job import Job
    from tidegate.store import Address


def change_feed(job: Job, reading: Job) -> DataFrame | None:
    """The changes of the flow's source table, as `tidegate.spark.intake.change_feed.changes_of`; None if there are no new ones."""
    if has_read_tables(reading):
        return None
    return changes_of(job.spark, job.place.layout, job.flow.feeds[0])


def has_read_tables(reading: Job) -> bool:
    """Whether a committed batch has read all tables of the query up to their newest versions, so that it would have no batch.

    A later version counts as unread even if it changed no row: a batch moves the position behind it, before the log of the table loses it.
    """
    last = progress.settled(reading.place.checkpoint)
    if last is None:
        return False
    tables = reading.query_tables
    positions = zip(tables, last.delta_positions(len(tables)), strict=True)
    return all(position is not None and _has_read(table, position) for table, position in positions)


def _has_read(table: Address, position: DeltaPosition) -> bool:
    """Whether a position is the end of the newest version: behind it, or at its last file, where the limit of a batch was reached."""
    newest = delta.current_version(table)
    if newest is None or position.version < newest:
        return False
    if position.version > newest:
        return (position.version, position.index, position.of_snapshot) == (newest + 1, -1, False)
    if position.of_snapshot:
        return position.index + 1 >= len(delta.snapshot_files(table))
    if position.index < 0:
        return False
    commit = delta.read_commit(table, newest)
    # Delta admits a commit with change files as a whole.
    return commit.has_change_files or position.index + 1 >= len(commit.files)
