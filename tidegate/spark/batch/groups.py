"""Group flows: gold recomputes only the groups that the change feed names, as of the feed's own version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints.progress import decoded
from tidegate.errors import GateRefusedError, LedgerImbalanceError, SpecError
from tidegate.report import BatchRecord
from tidegate.spark.batch import ledger
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.lake import local, sinks, tables

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.spark.context import FlowContext


@dataclass(frozen=True, kw_only=True)
class Named:
    """The groups that a change feed names."""

    keys: DataFrame
    """One row for each."""
    rows: pyarrow.Table | None
    """The same, where they are few."""
    count: int
    read: int
    """Rows of the feed but for pre-images."""
    version: int
    """The last one of the feed."""
    bounds: Column
    """A predicate on the source that Delta skips files by."""


def split_groups(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2 of a micro-batch over groups.

    Affected are the keys of **all** change types: a pre-image names the group that a row left. The recompute reads
    the source as of the batch's last version, so that a rerun sees the same rows.

    Raises:
        SpecError: The transform does not make one row per group.
        GateRefusedError: A critical expectation is below its ``mostly``. A gold gate never quarantines: a withheld
            group would leave a stale one.
    """
    keys = context.flow.target.keys
    named = _named(context, batch)
    if named is None:
        return None
    groups, rows = _made(context, named, batch_id)
    if context.gate is not None:
        _judge(context, groups, batch_id)
    due = replacement(context, groups, named.keys, rows, named.rows)
    upserted = groups.count() if rows is None else rows.num_rows
    record = BatchRecord(
        flow=context.flow.name,
        batch_id=batch_id,
        app_id=context.app_id,
        kind="recompute",
        read=named.read,
        groups=named.count,
        upserted=upserted,
        deleted=named.count - upserted,
    )
    return Split(
        planned=record,
        refused=None,
        write=lambda txn: sinks.replace_groups(due, context.target, keys, txn),
        arriving=named.count if tables.exists(context.target) else upserted,
        settled="groups",
    )


def _named(context: FlowContext, batch: DataFrame) -> Named | None:
    from pyspark.sql import functions as F

    keys = context.flow.target.keys
    feed = batch.groupBy(*keys).agg(
        F.max("_commit_version").alias("_version"),
        F.count_if(F.col("_change_type") != "update_preimage").alias("_read"),
    )
    rows = local.collect(feed)
    if rows is not None:
        import pyarrow.compute as pc

        if not rows.num_rows:
            return None
        fields = feed.select(*keys).schema
        return Named(
            keys=local.to_frame(batch.sparkSession, rows.select(keys), fields),
            rows=rows.select(keys),
            count=rows.num_rows,
            read=pc.sum(rows["_read"]).as_py(),
            version=pc.max(rows["_version"]).as_py(),
            bounds=_within({key: _ends(rows[key]) for key in keys}),
        )
    feed = feed.persist()
    context.persisted.append(feed)
    facts = feed.agg(
        F.count("*").alias("_count"),
        F.sum("_read").alias("_read"),
        F.max("_version").alias("_version"),
        *[F.count_if(F.col(key).isNull()).alias(f"nulls_{key}") for key in keys],
        *[F.min(key).alias(f"min_{key}") for key in keys],
        *[F.max(key).alias(f"max_{key}") for key in keys],
    ).first()
    assert facts is not None
    if not facts["_count"]:
        return None
    ends = {key: None if facts[f"nulls_{key}"] else (facts[f"min_{key}"], facts[f"max_{key}"]) for key in keys}
    return Named(
        keys=feed.select(*keys),
        rows=None,
        count=facts["_count"],
        read=facts["_read"],
        version=facts["_version"],
        bounds=_within(ends),
    )


def _ends(column: pyarrow.ChunkedArray) -> tuple[Any, Any] | None:
    """Least and greatest value, where Arrow orders them as Spark does and a literal of them is of the column's type."""
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type
    ordered = types.is_integer(kind) or types.is_date(kind) or types.is_string(kind)
    # A literal without a time zone is taken for local time.
    if column.null_count or not (ordered or (types.is_timestamp(kind) and kind.tz)):
        return None
    ends = pc.min_max(column).as_py()
    return ends["min"], ends["max"]


def _within(ends: dict[str, tuple[Any, Any] | None]) -> Column:
    from pyspark.sql import functions as F

    bounds = [F.col(key).between(F.lit(pair[0]), F.lit(pair[1])) for key, pair in ends.items() if pair is not None]
    return reduce(lambda left, right: left & right, bounds, F.lit(True))


def _made(context: FlowContext, named: Named, batch_id: int) -> tuple[DataFrame, pyarrow.Table | None]:
    """What the transform makes of the named groups, checked; as a table too where they are few."""
    groups = _recomputed(context, named)
    keys, transform = context.flow.target.keys, context.flow.transform
    missing = [key for key in keys if key not in groups.columns]
    if missing:
        raise SpecError(
            f"flow {context.flow.name!r}: transform {transform!r} does not return the key {', '.join(missing)}; "
            "let it, or declare other keys"
        )
    if named.rows is not None and groups.select(*keys).schema.simpleString() == named.keys.schema.simpleString():
        rows = local.collect(groups, named.count)
        # More rows than groups: the check of the frame says what is wrong.
        made = set() if rows is None else set(_ids(rows, keys))
        if rows is not None and len(made) == rows.num_rows and made.issubset(_ids(named.rows, keys)):
            return local.to_frame(groups.sparkSession, rows, groups.schema), rows
    groups = groups.persist()
    context.persisted.append(groups)
    _check_groups(context, groups, named.keys, batch_id)
    return groups, None


def _ids(rows: pyarrow.Table, keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The key of each row; by its text, because not every value can be looked up (arrays) or equals itself (NaN)."""
    return list(zip(*[map(repr, rows[key].to_pylist()) for key in keys], strict=True))


def _recomputed(context: FlowContext, named: Named) -> DataFrame:
    from pyspark.sql import functions as F

    keys = context.flow.target.keys
    assert context.source_table is not None and context.transform is not None
    source = _source_as_of(named.keys.sparkSession, context.source_table, named.version)
    if "_deleted" in source.columns:
        source = source.where(~F.coalesce("_deleted", F.lit(False)))
    source = source.where(named.bounds)
    wanted = named.keys.select([F.col(key).alias(f"_k_{key}") for key in keys])
    match = [F.col(key).eqNullSafe(F.col(f"_k_{key}")) for key in keys]
    rows = source.join(F.broadcast(wanted), match, "left_semi")
    own = [column for column in rows.columns if not column.startswith("_") or column == "_rescued"]
    return context.transform(rows.select(*own))


def _source_as_of(spark: SparkSession, path: Path, version: int) -> DataFrame:
    """The source at the feed's version; the newest one when VACUUM took that version's files."""
    rows = tables.read(spark, path, version)
    if tables.version(spark, path) == version:
        # VACUUM leaves the files of the newest version alone.
        return rows
    files = rows.inputFiles()
    vacuumed = any(not Path(decoded(file)).exists() for file in files)
    return tables.read(spark, path) if vacuumed else rows


def _check_groups(context: FlowContext, groups: DataFrame, affected: DataFrame, batch_id: int) -> None:
    keys, name = context.flow.target.keys, context.flow.transform
    made, distinct = groups.count(), groups.select(*keys).distinct().count()
    if made != distinct:
        raise SpecError(
            f"flow {context.flow.name!r}: transform {name!r} returns {made} rows for {distinct} groups; one per group is due: "
            "group by the table's keys"
        )
    strange = _matched(groups, affected, keys, "left_anti").count()
    if strange:
        raise LedgerImbalanceError(
            context.flow.name,
            batch_id,
            {"invented": strange},
            f"transform {name!r} returns {strange} groups that the change feed did not name; nothing was written. "
            "Let it group the rows that it is given, and make up none",
        )


def _matched(left: DataFrame, right: DataFrame, keys: tuple[str, ...], how: Any) -> DataFrame:
    from pyspark.sql import functions as F

    renamed = right.select([F.col(key).alias(f"_k_{key}") for key in keys])
    return left.join(renamed, [F.col(key).eqNullSafe(F.col(f"_k_{key}")) for key in keys], how)


def _judge(context: FlowContext, groups: DataFrame, batch_id: int) -> None:
    assert context.gate is not None
    flagged = context.gate.flag(groups)
    verdict = context.gate.judge(
        flagged, flow=context.flow.name, app_id=context.app_id, batch_id=batch_id, splits=False
    )
    ledger.record_verdict(context, verdict)
    context.tell_verdict(verdict)
    if verdict.outcome == "refused":
        raise GateRefusedError(verdict)


def replacement(
    context: FlowContext,
    groups: DataFrame,
    named: DataFrame,
    rows: pyarrow.Table | None = None,
    named_rows: pyarrow.Table | None = None,
) -> DataFrame:
    """The source of a MERGE that replaces what the table holds under some keys by the rows that were made for them.

    Args:
        context: The flow.
        groups: At most one row for each key.
        named: The keys.
        rows: The rows of ``groups``, where they are few.
        named_rows: Those of ``named``.

    Returns:
        One row for each key: the columns of ``groups``, and ``_op``: ``upsert``, or ``delete`` where no row was made.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    keys = context.flow.target.keys
    measures = [column for column in groups.columns if column not in keys]
    if rows is not None and named_rows is not None:
        fields = [StructField(field.name, field.dataType) for field in groups.select(*keys, *measures).schema]
        schema = StructType([*fields, StructField("_op", StringType())])
        return local.to_frame(groups.sparkSession, _with_deletes(rows, named_rows, keys, measures), schema)
    new = groups.select(
        *[F.col(key).alias(f"_n_{key}") for key in keys], F.struct(*[F.col(m) for m in groups.columns]).alias("_new")
    )
    joined = named.join(new, [F.col(key).eqNullSafe(F.col(f"_n_{key}")) for key in keys], "left")
    op = F.when(F.col("_new").isNull(), F.lit("delete")).otherwise(F.lit("upsert"))
    due = joined.select(*keys, *[F.col(f"_new.{measure}").alias(measure) for measure in measures], op.alias("_op"))
    context.persisted.append(due.persist())
    return due


def _with_deletes(
    rows: pyarrow.Table, named: pyarrow.Table, keys: tuple[str, ...], measures: list[str]
) -> pyarrow.Table:
    import pyarrow as pa

    made = set(_ids(rows, keys))
    gone = named.filter(pa.array([each not in made for each in _ids(named, keys)], pa.bool_()))
    parts = []
    for part, op in ((rows.select([*keys, *measures]), "upsert"), (gone, "delete")):
        parts.append(part.append_column("_op", pa.array([op] * part.num_rows, pa.string())))
    return pa.concat_tables(parts, promote_options="default")
