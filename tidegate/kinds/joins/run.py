"""Flows with several sources: groups of the first source, computed again when rows of any source change that belong to them."""

from __future__ import annotations

import dataclasses
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit, Either
from tidegate.checkpoints import vector
from tidegate.errors import SpecError
from tidegate.kinds.groups.run import keys_in_window, sides, split_keys
from tidegate.spark.batch import groups, scopes
from tidegate.spark.intake import change_feed
from tidegate.spark.job import Job, Kind
from tidegate.spark.kind import has_read_tables
from tidegate.spark.lake import local, tables

if TYPE_CHECKING:
    from tidegate.spark.batch.groups import Sources
    from tidegate.spark.batch.split import Decision, Split

_NO_KEY_CHANGED = "update_preimage"
"""The change type of keys that another source names: its rows are counted once, not once for every group."""


def _read_stream(job: Job, reading: Job) -> DataFrame | None:
    """The changes of all sources in one stream, so that Spark logs their positions together; None if there are no new ones.

    Of each change it has the number of the source, and in the struct ``_of_<number>`` the target's keys, or the values of
    ``on`` under the names that they have in the first source.
    """
    if has_read_tables(reading):
        return None
    _check_columns(job)
    paths = zip(job.flow.source_tables, job.source_tables, strict=True)
    starts = vector.note_starts(job.place, {table: tables.version(job.spark, path) for table, path in paths})
    parts = []
    for number, feed in enumerate(job.flow.feeds):
        changes = change_feed.changes_of(job.spark, job.place.layout, feed, starts[feed.table] + 1 if number else None)
        columns = feed.on or {key: key for key in job.flow.target.scope}
        values = F.struct(*[F.col(theirs).alias(ours) for ours, theirs in columns.items()])
        rows = changes if number else scopes.without_tombstones(job, changes)
        parts.append(
            rows.select(
                F.lit(number).alias("_feed"),
                hidden.CHANGE_TYPE,
                hidden.COMMIT_VERSION,
                values.alias(f"_of_{number}"),
            )
        )
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)


def _check_columns(job: Job) -> None:
    """Check that the first source has the target's keys, and that the columns of every ``on`` have the same type."""
    first, *others = [dict(tables.read(job.spark, path).dtypes) for path in job.source_tables]
    table = job.flow.source_tables[0]
    if missing := [key for key in job.flow.target.scope if key not in first]:
        raise SpecError(
            f"flow {job.flow.name!r}: its first source {table!r} has no column {', '.join(missing)}, "
            f"which is a key of {job.flow.target.name!r}",
            Either(
                Edit("name the table that has all keys first", "declaration"), Edit("declare other keys", "declaration")
            ),
        )
    for feed, columns in zip(job.flow.feeds[1:], others, strict=True):
        for ours, theirs in feed.on.items():
            if first.get(ours) != columns.get(theirs) or ours not in first:
                raise SpecError(
                    f"flow {job.flow.name!r}: on={{{ours!r}: {theirs!r}}} of source {feed.table!r} compares {table}.{ours} "
                    f"({first.get(ours, 'no such column')}) with {feed.table}.{theirs} ({columns.get(theirs, 'no such column')})",
                    Edit("name columns of the same type", "declaration"),
                )


def _split(job: Job, batch: DataFrame, batch_id: int, _decision: Decision) -> Split | None:
    """Steps 1 and 2: name the groups that the changes of all sources affect, and recompute them at the batch's vector.

    A batch whose changes belong to no group writes nothing.
    """
    batch = batch.persist()
    job.persisted.append(batch)
    read = F.count_if(F.col(hidden.CHANGE_TYPE) != "update_preimage").alias("read")
    counts = {row["_feed"]: row["read"] for row in batch.groupBy("_feed").agg(read).collect()}
    if not counts:
        return None
    at = groups.read_sources(job, batch.sparkSession, _versions(job, batch_id))
    named = [_named_by(job, batch, number, at) for number in sorted(counts)]
    changed = groups.changed_groups(job, reduce(lambda left, right: left.unionByName(right), named))
    if changed is None:
        return None
    return groups.recompute(job, dataclasses.replace(changed, read=sum(counts.values())), at, batch_id)


def _versions(job: Job, batch_id: int) -> dict[str, int]:
    """The vector of a batch, not before that of an earlier one: one may have read a newer version, in place of a vacuumed one."""
    pins = vector.of_batch(job.place, batch_id, job.flow.source_tables)
    read = tables.source_versions(job.spark, job.target, job.app_id)
    return {table: max(pin, read.get(table, pin)) for table, pin in pins.items()}


def _named_by(job: Job, batch: DataFrame, number: int, at: Sources) -> DataFrame:
    """The keys of the groups that the changes of a source affect, with the columns of a change feed.

    Those of the first source have them, pre-images as well: a row may have left its group. Those of another source affect the
    groups of the first source's rows that they belong to, or belonged to. NULL equals NULL, because the transform may join so.
    """
    keys, feed = job.flow.target.scope, job.flow.feeds[number]
    changes = batch.where(F.col("_feed") == number).select(hidden.CHANGE_TYPE, hidden.COMMIT_VERSION, f"_of_{number}.*")
    if not number:
        return changes
    values, rows = changes.select(*feed.on).distinct(), next(iter(at.rows.values()))
    collected = local.collect(values)
    if collected is not None:
        values = local.to_frame(batch.sparkSession, collected, values.schema)
        rows = rows.where(groups.bounds_of(job, collected, tuple(feed.on)))
    belonging = groups.join_on_keys(rows, values, tuple(feed.on), "left_semi").select(*keys).distinct()
    return belonging.select(
        F.lit(_NO_KEY_CHANGED).alias(hidden.CHANGE_TYPE), F.lit(0).cast("bigint").alias(hidden.COMMIT_VERSION), *keys
    )


KIND = Kind(read_stream=_read_stream, split=_split, keys_in_window=keys_in_window, split_keys=split_keys, sides=sides)
