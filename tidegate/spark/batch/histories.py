"""Histories: tables that keep every version of a key, each with the time from which and up to which it was valid.

Such a table has one row per record of a key: the first column of ``sequence_by`` is one of its keys, and of records with the
same value the newest stays. A record that makes no version is kept too, because another one may arrive late before it. So the
versions of a key are a function of its rows in the table: they are computed again for each key that has a new record, and do not
depend on the order of arrival. ``_change`` says what a record is:

- ``version``: it begins a version, which ends where the next version or a delete begins;
- ``unchanged``: its tracked columns are those of the record before it;
- ``delete``: the key has no version from here on.

Rows that are no version are ``_deleted``, and their interval is empty: ``valid_to`` equals ``valid_from``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit, Either
from tidegate.errors import SpecError
from tidegate.spark.lake import comparable, tables
from tidegate.spec.table import INTERVAL

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def with_versions(job: Job, records: DataFrame) -> DataFrame:
    """Add ``valid_from``, ``valid_to`` and ``_change``, and mark records that are no version as ``_deleted``.

    Args:
        records: All records of some keys, at most one per key and time; those that delete have ``_deleted``.

    Raises:
        SpecError: The records lack an untracked column, or have one of those that are added.
    """
    target = job.flow.target
    time = F.col(target.sequence_by[0])
    in_order = Window.partitionBy(*target.scope).orderBy(time)
    following = in_order.rowsBetween(1, Window.unboundedFollowing)
    compared = (comparable.sql(f"`{name}`", records.schema[name].dataType) for name in _tracked(job, records))
    tracked = F.struct(F.lit(0), *map(F.expr, compared))
    same = (F.lag(hidden.DELETED).over(in_order) == F.lit(False)) & F.lag(tracked).over(in_order).eqNullSafe(tracked)
    change = F.when(F.col(hidden.DELETED), "delete").when(same, "unchanged").otherwise("version")
    known = records.withColumn(hidden.CHANGE, change)
    is_version = F.col(hidden.CHANGE) == "version"
    ends = F.first(F.when(F.col(hidden.CHANGE) != "unchanged", time), ignorenulls=True).over(following)
    return known.withColumns(
        {"valid_from": time, "valid_to": F.when(is_version, ends).otherwise(time), hidden.DELETED: ~is_version}
    )


def merge_source(job: Job, new: DataFrame) -> DataFrame:
    """The source of a MERGE: the new records, and those of the table that are another version, or end elsewhere, because of them.

    Args:
        new: The records of a batch that are newer than those of the table with the same key and time.
    """
    records = new.withColumn("_was", F.lit(None).cast(f"struct<valid_to: string, {hidden.CHANGE}: string>"))
    keys, scope = list(job.flow.target.keys), list(job.flow.target.scope)
    if tables.exists(job.target):
        was = F.struct(F.col("valid_to").cast("string").alias("valid_to"), hidden.CHANGE)
        stored = tables.read(new.sparkSession, job.target).withColumn("_was", was)
        stored = stored.join(new.select(*scope), scope, "left_semi").join(new.select(*keys), keys, "left_anti")
        stored = stored.withColumn(hidden.DELETED, F.col(hidden.CHANGE) == "delete")
        present = [name for name in records.columns if name in stored.columns]
        records = records.unionByName(stored.select(*present), allowMissingColumns=True)
    made = with_versions(job, records)
    became = F.struct(F.col("valid_to").cast("string").alias("valid_to"), hidden.CHANGE)
    changes = made.where(F.col("_was").isNull() | ~F.col("_was").eqNullSafe(became)).drop("_was")
    job.persisted.append(changes.persist())
    return changes.withColumn(hidden.OP, F.lit("upsert"))


def _tracked(job: Job, records: DataFrame) -> list[str]:
    """The columns in which two versions differ.

    Raises:
        SpecError: See `with_versions`.
    """
    target = job.flow.target
    where = f"flow {job.flow.name!r}: transform {job.flow.transform!r}"
    if unknown := [name for name in target.untracked if name not in records.columns]:
        raise SpecError(
            f"{where} does not return {', '.join(unknown)}",
            Either(Edit("return it", "transform"), Edit("remove it from untracked", "declaration")),
        )
    if reserved := [name for name in INTERVAL if name in records.columns]:
        raise SpecError(
            f"{where} returns {', '.join(reserved)}, which a history computes", Edit("name it otherwise", "transform")
        )
    ignored = {*target.keys, *target.sequence_by, *target.untracked}
    return [name for name in records.columns if not name.startswith("_") and name not in ignored]
