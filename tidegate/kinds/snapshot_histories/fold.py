"""The rows of a history from what snapshots say of keys: the first of equal ones, and the first that lacks a key.

A snapshot says of each key that it has which row it is, and of each other that it is deleted; nothing of a key whose record is in
quarantine. The table has only rows in which a snapshot differs from the one before it. With what snapshots say at some times, they
are computed again for each key, so they do not depend on the order in which snapshots came.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window, types
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.errors import SpecError
from tidegate.sources.snapshots import SnapshotFeed
from tidegate.spark.batch import groups, histories
from tidegate.spark.lake import local
from tidegate.spec import FileSource
from tidegate.spec.table import INTERVAL, SNAPSHOT_AT

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def fold(job: Job, statements: DataFrame) -> DataFrame:
    """The rows of the table.

    Args:
        statements: What snapshots say, at most one per key and snapshot; those of keys that a snapshot lacks have ``_deleted``.

    Raises:
        SpecError: As `histories.with_versions`, or the column of ``valid_from`` is missing or no time.
    """
    in_order = Window.partitionBy(*job.flow.target.scope).orderBy(SNAPSHOT_AT)
    was_deleted = F.coalesce(F.lag(hidden.DELETED).over(in_order), F.lit(True))
    marked = statements.withColumn("_ends", F.col(hidden.DELETED) & ~was_deleted)
    made = histories.with_versions(job, marked)
    rows = made.where((F.col(hidden.CHANGE) == "version") | F.col("_ends")).drop("_ends")
    source = job.flow.source
    assert isinstance(source, SnapshotFeed)
    return rows if source.valid_from is None else _begun_by_column(job, rows, source.valid_from)


def statements(
    stored: DataFrame | None,
    rows: DataFrame,
    refused: DataFrame | None,
    times: Iterable[datetime],
    keys: tuple[str, ...],
) -> DataFrame:
    """What snapshots say of every key, with what the table says at other times.

    Args:
        stored: Rows of the table, all of each key; None without a table.
        rows: Those of the snapshots, with ``snapshot_at``.
        refused: The keys of records in quarantine, with ``snapshot_at``; NULL for one that cannot be read.
        times: Of the snapshots.
        keys: The columns of the key, without ``snapshot_at``.
    """
    spark, read = rows.sparkSession, rows.withColumn(hidden.DELETED, F.lit(False))
    if stored is not None:
        # Deleted rows are those of snapshots that lack a key: other columns of them are not read.
        kept = stored.where(~_is_at(times)).drop(*INTERVAL, hidden.CHANGE)
        read = read.unionByName(kept, allowMissingColumns=True)
    at = local.from_rows(spark, [(_micros(each),) for each in times], "_micros bigint")
    at = at.select(F.timestamp_micros("_micros").alias(SNAPSHOT_AT))
    every = read.select(*keys).distinct().crossJoin(F.broadcast(at))
    absent = groups.join_on_keys(every, rows, (*keys, SNAPSHOT_AT), "left_anti")
    if refused is not None:
        is_unknown = reduce(lambda left, right: left | right, [F.col(key).isNull() for key in keys])
        absent = groups.join_on_keys(absent, refused.distinct(), (*keys, SNAPSHOT_AT), "left_anti")
        # A missing row may be that of a record without a readable key.
        unknown = refused.where(is_unknown).select(SNAPSHOT_AT).distinct()
        absent = groups.join_on_keys(absent, unknown, (SNAPSHOT_AT,), "left_anti")
    return read.unionByName(absent.withColumn(hidden.DELETED, F.lit(True)), allowMissingColumns=True)


def present_at(stored: DataFrame, at: datetime, keys: tuple[str, ...]) -> DataFrame:
    """The rows of the versions that begin with a snapshot before this time and do not end with one before it."""
    newest_first = Window.partitionBy(*keys).orderBy(F.desc(SNAPSHOT_AT))
    before = stored.where(F.col(SNAPSHOT_AT) < instant(at)).withColumn(hidden.RANK, F.row_number().over(newest_first))
    return before.where(f"{hidden.RANK} = 1 AND NOT {hidden.DELETED}").drop(hidden.RANK)


def instant(at: datetime) -> Column:
    """A literal, whatever the zone of the process."""
    return F.timestamp_micros(F.lit(_micros(at)).cast("bigint"))


def _micros(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000


def _is_at(times: Iterable[datetime]) -> Column:
    return F.col(SNAPSHOT_AT).isin([instant(each) for each in times])


def _begun_by_column(job: Job, rows: DataFrame, column: str) -> DataFrame:
    """The rows with ``valid_from`` from a column, where that is after the record before and in or before the interval of the snapshot."""
    kind = rows.schema[column].dataType if column in rows.columns else None
    if not isinstance(kind, types.DateType | types.TimestampType):
        problem = "is not there" if kind is None else f"is {kind.simpleString()}"
        raise SpecError(
            f"flow {job.flow.name!r}: valid_from names {column!r}, which {problem}",
            Edit("return it as a date or a timestamp", "transform"),
        )
    in_order = Window.partitionBy(*job.flow.target.scope).orderBy(SNAPSHOT_AT)
    at, is_version = F.col(SNAPSHOT_AT), F.col(hidden.CHANGE) == "version"
    own = F.when(is_version & (F.col(column) < _end_of(job, at)), F.col(column).cast("timestamp"))
    known = rows.withColumn("_own", F.coalesce(own, at))
    before = F.greatest(F.lag(SNAPSHOT_AT).over(in_order), F.lag("_own").over(in_order))
    is_later = before.isNull() | (F.col("_own") > before)
    known = known.withColumn("_begin", F.when(is_later, F.col("_own")).otherwise(at))
    ends = F.lead("_begin").over(in_order)
    return known.withColumns(
        {"valid_from": F.col("_begin"), "valid_to": F.when(is_version, ends).otherwise(F.col("_begin"))}
    ).drop("_own", "_begin")


def _end_of(job: Job, at: Column) -> Column:
    """The end of the interval of a snapshot."""
    writer, zone = job.resolved.writer, job.resolved.pipeline.timezone
    assert writer is not None and isinstance(writer.source, FileSource) and writer.source.intervals is not None
    if writer.source.intervals.unit == "hour":
        return at + F.expr("INTERVAL 1 HOUR")
    return F.to_utc_timestamp(F.from_utc_timestamp(at, zone) + F.expr("INTERVAL 1 DAY"), zone)
