"""Group flows: gold recomputes only the groups that have changes in the feed, from its sources as of the feed's versions.

Longer than 300 lines: which groups changed, how they are computed and how they are merged depend on the same scope of each source.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from tidegate import hidden
from tidegate.advice import Edit, Either
from tidegate.errors import GateRefusedError, LedgerImbalanceError, SpecError
from tidegate.formatting import count
from tidegate.lake.file_id import path_of_spark
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch import ledger, scopes, statistics, time_windows, transform_errors
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.derivation.check import derive_checked
from tidegate.spark.driver.failures import value_error
from tidegate.spark.lake import local, tables, writes
from tidegate.store import Address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow

    from tidegate.spark.job import Job


_ORDERED = ("tinyint", "smallint", "int", "bigint", "date", "string", "timestamp")
"""Types of keys by whose bounds Delta skips files, as in `_min_max`: the literal of a bound has the type of the column."""


@dataclass(frozen=True, kw_only=True)
class ChangedGroups:
    """The groups that have changes in a batch of the change feed."""

    keys: DataFrame
    """One row per group: the values of the target's keys, or with ``replace_by`` of its scopes."""
    rows: pyarrow.Table | None
    """The same rows in the driver; None where they are too many (`tidegate.spark.lake.local`)."""
    count: int
    read: int
    """Rows of the feed, except pre-images."""
    version: int
    """The last commit version of the feed."""
    bounds: Column
    """A predicate on the source's key columns, by which Delta skips files."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The source tables of a batch."""

    rows: Mapping[str, DataFrame]
    """By table, the first source first."""
    versions: Mapping[str, int]
    """The version of each that is read."""


def split_groups(job: Job, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2 of a micro-batch of a group flow.

    The affected groups are the keys of **all** change types: a pre-image has the key of the group that a row left. The
    recompute reads the source as of the batch's last version, so a rerun reads the same rows.

    Raises:
        SpecError: The transform does not return one row per group.
        TransformRefusedError: The transform raises on a value.
        GateRefusedError: A critical expectation is below its ``mostly``. The gate of a group flow never quarantines,
            because the table would keep the outdated row of a withheld group.
        BatchHeldError: A statistic breaks its rule.
    """
    fed = time_windows.with_windows(job, scopes.without_tombstones(job, batch))
    changed = changed_groups(job, fed)
    if changed is None:
        return None
    sources = read_sources(job, batch.sparkSession, {job.flow.source_tables[0]: changed.version})
    return recompute(job, changed, sources, batch_id)


def recompute(job: Job, changed: ChangedGroups, sources: Sources, batch_id: int) -> Split:
    """Steps 1 and 2 for these groups; raises as `split_groups`."""
    keys = job.flow.target.keys
    try:
        groups, rows = _recompute_checked(job, changed, sources, batch_id)
    except Exception as error:
        if (raised := value_error(error)) is None:
            raise
        problem = "for some group; no group is quarantined, because the table would keep its outdated row"
        # From None: the cause may quote values of the data.
        raise transform_errors.refused(job, batch_id, {raised: None}, problem) from None
    judge(job, groups, batch_id)
    changed_rows = changed.count
    if job.flow.target.replace_by:
        changes = scopes.merge_source(job, groups, _stored_keys(job, changed.keys, groups))
        changed_rows = changes.count()
    else:
        changes = merge_source(job, groups, changed.keys, rows, changed.rows)
    upserted = groups.count() if rows is None else rows.num_rows
    record = LedgerLine(
        flow=job.flow.name,
        batch_id=batch_id,
        app_id=job.app_id,
        kind="recompute",
        read=changed.read,
        groups=changed_rows,
        upserted=upserted,
        deleted=changed_rows - upserted,
        source_versions=sources.versions,
    )
    return Split(
        prepared=record,
        refused=None,
        changes=changes,
        write=lambda txn: writes.replace_groups(changes, job.target, keys, txn),
        expected_rows=changed_rows if tables.exists(job.target) else upserted,
        settled="groups",
    )


def changed_groups(job: Job, batch: DataFrame) -> ChangedGroups | None:
    """The groups, or scopes, of a feed: their keys, ``_change_type`` and ``_commit_version``; None without rows.

    Raises:
        SpecError: The source lacks a key.
    """
    keys = job.flow.target.scope
    if missing := [key for key in keys if key not in batch.columns]:
        raise SpecError(
            f"flow {job.flow.name!r}: its source {job.flow.source_tables[0]!r} has no column "
            f"{', '.join(missing)}, which is a key of {job.flow.target.name!r}",
            Either(
                Edit("declare other keys", "declaration"),
                Edit("make the column in the flow that writes the source", "declaration"),
            ),
        )
    feed = batch.groupBy(*keys).agg(
        F.max(hidden.COMMIT_VERSION).alias("_version"),
        F.count_if((F.col(hidden.CHANGE_TYPE) != "update_preimage") & time_windows.is_first(batch)).alias("_read"),
    )
    rows = local.collect(feed)
    if rows is not None:
        if not rows.num_rows:
            return None
        fields = feed.select(*keys).schema
        return ChangedGroups(
            keys=local.to_frame(batch.sparkSession, rows.select(keys), fields),
            rows=rows.select(keys),
            count=rows.num_rows,
            read=pc.sum(rows["_read"]).as_py(),
            version=pc.max(rows["_version"]).as_py(),
            bounds=bounds_of(job, rows, keys),
        )
    feed = feed.persist()
    job.persisted.append(feed)
    ordered = [name for name, kind in feed.select(*keys).dtypes if kind in _ORDERED]
    # As Arrow, whose instants have a zone: PySpark's are in that of the machine, in which one hour of a year is ambiguous.
    collected = local.collect(
        feed.agg(
            F.count("*").alias("_count"),
            F.sum("_read").alias("_read"),
            F.max("_version").alias("_version"),
            *[F.count_if(F.col(key).isNull()).alias(f"nulls_{key}") for key in ordered],
            *[F.min(key).alias(f"min_{key}") for key in ordered],
            *[F.max(key).alias(f"max_{key}") for key in ordered],
        ),
        1,
    )
    assert collected is not None
    [totals] = collected.to_pylist()
    if not totals["_count"]:
        return None
    ranges = {key: None if totals[f"nulls_{key}"] else (totals[f"min_{key}"], totals[f"max_{key}"]) for key in ordered}
    return ChangedGroups(
        keys=feed.select(*keys),
        rows=None,
        count=totals["_count"],
        read=totals["_read"],
        version=totals["_version"],
        bounds=_bounds(job, ranges),
    )


def bounds_of(job: Job, rows: pyarrow.Table, columns: Sequence[str]) -> Column:
    """A predicate that holds for every row with the values of one of these rows, by which Delta skips files."""
    return _bounds(job, {column: _min_max(rows[column]) for column in columns})


def _min_max(column: pyarrow.ChunkedArray) -> tuple[Any, Any] | None:
    """Least and greatest value, for types that Arrow orders as Spark does and whose literals have the column's type."""
    kind = column.type
    ordered = types.is_integer(kind) or types.is_date(kind) or types.is_string(kind)
    # Spark takes a literal without a time zone for local time.
    if column.null_count or not (ordered or (types.is_timestamp(kind) and kind.tz)):
        return None
    result = pc.min_max(column).as_py()
    return result["min"], result["max"]


def _bounds(job: Job, ranges: dict[str, tuple[Any, Any] | None]) -> Column:
    predicates = [time_windows.between(job, key, *pair) for key, pair in ranges.items() if pair is not None]
    return reduce(lambda left, right: left & right, predicates, F.lit(True))


def _recompute_checked(
    job: Job, changed: ChangedGroups, sources: Sources, batch_id: int
) -> tuple[DataFrame, pyarrow.Table | None]:
    """The transform's output for the changed groups, checked; where the groups are few, its rows in the driver as well."""
    groups = _recompute(job, changed, sources)
    keys, transform = job.flow.target.keys, job.flow.transform
    missing = [key for key in keys if key not in groups.columns]
    if missing:
        raise SpecError(
            f"flow {job.flow.name!r}: transform {transform!r} does not return the key {', '.join(missing)}",
            Either(Edit("return it", "transform"), Edit("declare other keys", "declaration")),
        )
    few = changed.rows is not None and not job.flow.target.replace_by
    if few and groups.select(*keys).schema.simpleString() == changed.keys.schema.simpleString():
        rows = local.collect(groups, changed.count)
        # Where a check fails here, `_check_groups` raises the error.
        output_ids = set() if rows is None else set(_ids(rows, keys))
        if rows is not None and len(output_ids) == rows.num_rows and output_ids.issubset(_ids(changed.rows, keys)):
            return local.to_frame(groups.sparkSession, rows, groups.schema), rows
    groups = groups.persist()
    job.persisted.append(groups)
    _check_groups(job, groups, changed.keys, batch_id)
    return groups, None


def _ids(rows: pyarrow.Table, keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The key of each row as text, because not every value is hashable (arrays) or equal to itself (NaN)."""
    return list(zip(*[map(repr, rows[key].to_pylist()) for key in keys], strict=True))


def _recompute(job: Job, changed: ChangedGroups, sources: Sources) -> DataFrame:
    source, *others = sources.rows.values()
    source = time_windows.with_windows(job, source.where(changed.bounds))
    rows = join_on_keys(source, F.broadcast(changed.keys), job.flow.target.scope, "left_semi")
    return derive_checked(
        job.place.layout, job.resolved, job.run, job.transform, [rows, *others], lambda each: derive(job, each)
    )


def derive(job: Job, rows: Sequence[DataFrame]) -> DataFrame:
    """The groups that the transform makes of these rows of the sources: those of the first source with their windows, first."""
    assert job.transform is not None
    first, *others = map(_visible, rows)
    names = [feed.name for feed in job.flow.feeds[1:]]
    return job.transform(first, **dict(zip(names, others, strict=True)))


def _visible(rows: DataFrame) -> DataFrame:
    """The columns that a transform is given."""
    return rows.select(*[column for column in rows.columns if not column.startswith("_") or column == hidden.RESCUED])


def read_sources(job: Job, spark: SparkSession, versions: Mapping[str, int]) -> Sources:
    """The rows of the source tables at these versions that are not deleted.

    Where VACUUM has removed files of a version, the newest one is read: its changes are still to come in the feed.
    """
    rows, read = {}, {}
    for table in job.flow.source_tables:
        source, read[table] = _as_of(spark, job.place.layout.read_table(table), versions[table])
        deleted = F.coalesce(hidden.DELETED, F.lit(False)) if hidden.DELETED in source.columns else F.lit(False)
        rows[table] = source.where(~deleted)
    return Sources(rows=rows, versions=read)


def _as_of(spark: SparkSession, address: Address, version: int) -> tuple[DataFrame, int]:
    """A table at a version, or at its newest one when VACUUM has removed files of that one; and which of them."""
    newest = tables.version(spark, address)
    # A table that does not change for long is pinned at a version that its log no longer has after some maintenance.
    if version != newest and tables.is_logged(address, version):
        rows = tables.read(spark, address, version)
        if all(address.of_uri(path_of_spark(file)).exists() for file in rows.inputFiles()):
            return rows, version
    # VACUUM never removes files of the newest version.
    return tables.read(spark, address, newest), newest


def _check_groups(job: Job, groups: DataFrame, affected: DataFrame, batch_id: int) -> None:
    keys, name = job.flow.target.keys, job.flow.transform
    returned, distinct = groups.count(), groups.select(*keys).distinct().count()
    if returned != distinct:
        raise SpecError(
            f"flow {job.flow.name!r}: transform {name!r} returns {count(returned, 'row')} for "
            f"{count(distinct, 'group')}",
            Edit("it must return one row per group: group by the table's keys", "transform"),
        )
    unknown = join_on_keys(groups, affected, job.flow.target.scope, "left_anti").count()
    if unknown:
        raise LedgerImbalanceError(
            job.flow.name,
            batch_id,
            {"invented": unknown},
            f"transform {name!r} returns {count(unknown, 'group')} outside the change feed; nothing was written.",
            Edit("let it group the rows that it is given and add no others", "transform"),
        )


def _stored_keys(job: Job, changed: DataFrame, groups: DataFrame) -> DataFrame:
    """The keys that the table has in the changed scopes, with their types in ``groups``."""
    keys, scope = job.flow.target.keys, job.flow.target.scope
    table = tables.read(changed.sparkSession, job.target) if tables.exists(job.target) else None
    # A dry run of a new version compares with the table of the previous one, which may have other keys.
    if table is None or not set(keys) <= set(table.columns):
        return groups.select(*keys).limit(0)
    stored = join_on_keys(table, changed, scope, "left_semi")
    return stored.select(*[F.col(key).cast(groups.schema[key].dataType).alias(key) for key in keys])


def join_on_keys(left: DataFrame, right: DataFrame, keys: tuple[str, ...], how: Any) -> DataFrame:
    """Join rows that have the same key, where NULL equals NULL; the columns of ``right`` are its keys only."""
    renamed = right.select([F.col(key).alias(f"_k_{key}") for key in keys])
    return left.join(renamed, [F.col(key).eqNullSafe(F.col(f"_k_{key}")) for key in keys], how)


def judge(job: Job, groups: DataFrame, batch_id: int) -> None:
    """Judge groups, or results, that pass together or are refused together.

    Raises:
        GateRefusedError: A critical expectation is below its ``mostly``.
        BatchHeldError: A statistic breaks its rule.
    """
    measured, verdict = statistics.measure(job, groups, batch_id), None
    if job.gate is not None:
        verdict = job.gate.judge(
            job.gate.flag(groups), flow=job.flow.name, app_id=job.app_id, batch_id=batch_id, splits=False
        )
    verdict = statistics.judged(job, verdict, measured, batch_id)
    if verdict is None:
        return
    ledger.record_verdict(job, verdict)
    job.run.record_verdict(verdict)
    if verdict.outcome == "refused":
        raise GateRefusedError(verdict)


def merge_source(
    job: Job,
    groups: DataFrame,
    affected: DataFrame,
    rows: pyarrow.Table | None = None,
    affected_rows: pyarrow.Table | None = None,
) -> DataFrame:
    """The source of a MERGE that replaces the table's rows of the affected keys.

    Args:
        groups: The new rows: at most one per key.
        affected: The keys, one row each.
        rows: The rows of ``groups`` in the driver, where they are few.
        affected_rows: The rows of ``affected`` in the driver, where they are few.

    Returns:
        One row per key: the columns of ``groups`` and ``_op``, which is ``upsert``, or ``delete`` for a key without new row.
    """
    keys = job.flow.target.keys
    measures = [column for column in groups.columns if column not in keys]
    if rows is not None and affected_rows is not None:
        fields = [StructField(field.name, field.dataType) for field in groups.select(*keys, *measures).schema]
        schema = StructType([*fields, StructField(hidden.OP, StringType())])
        return local.to_frame(groups.sparkSession, _with_deletes(rows, affected_rows, keys, measures), schema)
    new = groups.select(
        *[F.col(key).alias(f"_n_{key}") for key in keys], F.struct(*[F.col(m) for m in groups.columns]).alias("_new")
    )
    joined = affected.join(new, [F.col(key).eqNullSafe(F.col(f"_n_{key}")) for key in keys], "left")
    op = F.when(F.col("_new").isNull(), F.lit("delete")).otherwise(F.lit("upsert"))
    changes = joined.select(
        *keys, *[F.col(f"_new.{measure}").alias(measure) for measure in measures], op.alias(hidden.OP)
    )
    job.persisted.append(changes.persist())
    return changes


def _with_deletes(
    rows: pyarrow.Table, affected: pyarrow.Table, keys: tuple[str, ...], measures: list[str]
) -> pyarrow.Table:
    present = set(_ids(rows, keys))
    absent = affected.filter(pa.array([each not in present for each in _ids(affected, keys)], pa.bool_()))
    parts = []
    for part, op in ((rows.select([*keys, *measures]), "upsert"), (absent, "delete")):
        parts.append(part.append_column(hidden.OP, pa.array([op] * part.num_rows, pa.string())))
    return pa.concat_tables(parts, promote_options="default")
