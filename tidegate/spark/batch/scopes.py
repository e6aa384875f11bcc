"""Scopes: rows of a table that are replaced together, because the newest record of their scope makes them.

A table with ``replace_by`` has one order of changes per scope, for example per order with its items. The rows of a scope are
exactly those that its newest record made; all others are deleted. A scope without rows keeps one tombstone, a deleted row
whose other keys are NULL, so that an older record that arrives late cannot fill the scope again.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.spark.batch.dispositions import DEDUPLICATED, FILTERED, QUARANTINED, SUPERSEDED, WRITTEN
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from tidegate.spark.job import Job
    from tidegate.spec import Target


def has_child_key(target: Target) -> Column:
    """Whether a row belongs to one key of its scope; if not, it stands for the scope as a whole."""
    return reduce(or_, [F.col(key).isNotNull() for key in target.child_keys], F.lit(not target.child_keys))


def without_tombstones(job: Job, feed: DataFrame) -> DataFrame:
    """The feed of the flow's source table without the tombstones of scopes, which are no rows of it.

    A backfill of groups has a feed of their keys only, from which it left tombstones out.
    """
    writer = job.resolved.writer
    # Scopes of groups have none: they are always computed from all rows.
    if writer is None or not (writer.target.replace_by and writer.target.sequence_by):
        return feed
    if not set(writer.target.child_keys) <= set(feed.columns):
        return feed
    return feed.where(has_child_key(writer.target))


def with_dispositions(job: Job, ordered: DataFrame, *, against_table: bool) -> DataFrame:
    """Add ``_disposition``, an index into `tidegate.spark.batch.dispositions.NAMES`, for a target with ``replace_by``.

    A record that filters all its rows of a scope empties it: one of them becomes the tombstone, without values. A filtered row
    without the key of a scope, or without sequence, belongs to no scope. The keys that the table has in scopes that are
    replaced are added as rows without ``_disposition``, so that the table is read once.

    Args:
        ordered: Output rows of the transform with ``_errors``, ``_filtered``, ``_deleted`` and ``_order``.
        against_table: Whether rows are compared with the order of their scope in the table.
    """
    target = job.flow.target
    refused, filtered = F.size(hidden.ERRORS) > 0, F.col(hidden.FILTERED).isNotNull()
    known = reduce(lambda left, key: left & F.col(key).isNotNull(), (*target.scope, *target.sequence_by), ~refused)
    rows = _as_tombstones(ordered.withColumn("_known", known), target)
    of_scope, of_record = Window.partitionBy(*target.scope), Window.partitionBy(*target.scope, hidden.ROW_ID)
    newest = F.max(F.when(F.col("_known"), F.col(hidden.ORDER))).over(of_scope)
    older: Column = F.lit(False)
    if against_table and tables.exists(job.target):
        stored = stored_rows(job, rows, rows).withColumnRenamed(hidden.ORDER, hidden.TABLE_ORDER)
        rows = rows.unionByName(stored, allowMissingColumns=True)
        older = F.coalesce(F.max(hidden.TABLE_ORDER).over(of_scope) >= newest, F.lit(False))
    makes_row = F.col("_known") & ~filtered & has_child_key(target)
    # All windows begin with the scope, so that one shuffle serves them. If rows of one record differ in sequence, the highest
    # is that of the record.
    latest_first = Window.partitionBy(*target.keys).orderBy(F.desc("_known"), F.desc(hidden.ORDER), hidden.FILTERED)
    rows = rows.withColumns({"_newest": newest, "_older": older, hidden.ORDER: F.max(hidden.ORDER).over(of_record)})
    rows = rows.withColumn("_latest", F.col("_known") & (F.col(hidden.ORDER) == F.col("_newest")))
    filled = F.coalesce(F.max(F.col("_latest") & makes_row).over(of_scope), F.lit(False))
    rows = rows.withColumns({"_filled": filled, hidden.RANK: F.row_number().over(latest_first)})
    is_state = F.col("_latest") & (F.col(hidden.RANK) == 1) & (makes_row | ~F.col("_filled"))
    disposition = (
        F.when(refused, F.lit(QUARANTINED))
        .when(is_state & ~F.col("_older"), F.lit(WRITTEN))
        .when(filtered, F.lit(FILTERED))
        .when(is_state, F.lit(SUPERSEDED))
        .otherwise(F.lit(DEDUPLICATED))
    )
    of_source = F.col(hidden.ROW_ID).isNotNull()
    rows = rows.withColumn(hidden.DISPOSITION, F.when(of_source, disposition))
    rows = rows.withColumn("_replaced", F.max(F.col(hidden.DISPOSITION) == WRITTEN).over(of_scope)).where(
        of_source | F.col("_replaced")
    )
    return rows.drop("_known", hidden.TABLE_ORDER, "_newest", "_older", "_latest", "_filled", hidden.RANK, "_replaced")


def stored_rows(job: Job, scopes: DataFrame, rows: DataFrame) -> DataFrame:
    """What the table has in some scopes: the keys, with their types in ``rows``, and ``_order``; none without a table."""
    keys, scope = job.flow.target.keys, list(job.flow.target.scope)
    table = tables.read(rows.sparkSession, job.target) if tables.exists(job.target) else None
    # A dry run of a new version compares with the table of the previous one, which may have other keys.
    if table is None or not {*keys, hidden.ORDER} <= set(table.columns):
        return rows.select(*keys, hidden.ORDER).limit(0)
    stored = table.join(scopes.select(*scope), scope, "left_semi")
    return stored.select(*[F.col(key).cast(rows.schema[key].dataType).alias(key) for key in keys], hidden.ORDER)


def merge_source(job: Job, rows: DataFrame, stored: DataFrame) -> DataFrame:
    """The source of a MERGE that replaces all rows of some scopes (`tidegate.spark.lake.writes.replace_groups`).

    Args:
        rows: The new rows of the scopes: at most one per key.
        stored: The keys that the table has in the scopes; those without a new row are deleted.
    """
    keys = job.flow.target.keys
    deletes = stored.select(*keys, F.lit("delete").alias(hidden.OP))
    both = rows.withColumn(hidden.OP, F.lit("upsert")).unionByName(deletes, allowMissingColumns=True)
    new_first = Window.partitionBy(*keys).orderBy(F.desc(hidden.OP))
    changes = both.withColumn(hidden.RANK, F.row_number().over(new_first)).where(f"{hidden.RANK} = 1").drop(hidden.RANK)
    job.persisted.append(changes.persist())
    return changes


def _as_tombstones(rows: DataFrame, target: Target) -> DataFrame:
    """Filtered rows as tombstones of their scope, without any value of the record."""
    kept = F.col(hidden.FILTERED).isNull()
    values = [name for name in rows.columns if not name.startswith("_") or name == hidden.RESCUED]
    removed = {name: F.when(kept, F.col(name)) for name in values if name not in target.scope}
    return rows.withColumns({**removed, hidden.DELETED: ~kept | F.col(hidden.DELETED)})
