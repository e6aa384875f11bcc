"""Group flows: gold recomputes only the groups that the change feed names, as of the feed's own version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints.progress import decoded
from tidegate.errors import GateRefusedError, LedgerImbalanceError, SpecError
from tidegate.report import BatchRecord
from tidegate.spark.batch import ledger
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.lake import sinks, tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.spark.context import FlowContext


def split_groups(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Steps 1 and 2 of a micro-batch over groups.

    Affected are the keys of **all** change types: a pre-image names the group that a row left. The recompute reads
    the source as of the batch's last version, so that a rerun sees the same rows.

    Raises:
        SpecError: The transform does not make one row per group.
        GateRefusedError: A critical expectation is below its ``mostly``. A gold gate never quarantines: a withheld
            group would leave a stale one.
    """
    from pyspark.sql import functions as F

    keys = context.flow.target.keys
    feed = batch.agg(F.max("_commit_version"), F.count_if(F.col("_change_type") != "update_preimage")).first()
    if feed is None or feed[0] is None:
        return None
    affected = batch.select(*keys).distinct().persist()
    context.persisted.append(affected)
    named = affected.count()
    groups = _recomputed(context, affected, feed[0]).persist()
    context.persisted.append(groups)
    _check_groups(context, groups, affected, batch_id)
    if context.gate is not None:
        _judge(context, groups, batch_id)
    changes = compare(context, groups, affected).persist()
    context.persisted.append(changes)
    counts = {row["_op"]: row["count"] for row in changes.groupBy("_op").count().collect()}
    upserted, deleted = counts.get("upsert", 0), counts.get("delete", 0)
    record = BatchRecord(
        flow=context.flow.name,
        batch_id=batch_id,
        app_id=context.app_id,
        kind="recompute",
        read=feed[1],
        groups=named,
        upserted=upserted,
        deleted=deleted,
        unchanged=counts.get("unchanged", 0),
    )
    due = changes.where("_op != 'unchanged'")
    return Split(
        planned=record,
        refused=None,
        write=lambda txn: sinks.replace_groups(due, context.target, keys, txn),
        arriving=upserted + deleted,
    )


def _recomputed(context: FlowContext, affected: DataFrame, version: int) -> DataFrame:
    from pyspark.sql import functions as F

    keys = context.flow.target.keys
    assert context.source_table is not None and context.transform is not None
    source = _source_as_of(affected.sparkSession, context.source_table, version)
    if "_deleted" in source.columns:
        source = source.where(~F.coalesce("_deleted", F.lit(False)))
    source = source.where(_bounds(affected, keys))
    wanted = affected.select([F.col(key).alias(f"_k_{key}") for key in keys])
    match = [F.col(key).eqNullSafe(F.col(f"_k_{key}")) for key in keys]
    rows = source.join(F.broadcast(wanted), match, "left_semi")
    own = [column for column in rows.columns if not column.startswith("_") or column == "_rescued"]
    return context.transform(rows.select(*own))


def _source_as_of(spark: SparkSession, path: Path, version: int) -> DataFrame:
    """The source at the feed's version; the newest one when VACUUM took that version's files."""
    rows = tables.read(spark, path, version)
    files = rows.inputFiles()
    vacuumed = any(not Path(decoded(file)).exists() for file in files)
    return tables.read(spark, path) if vacuumed else rows


def _bounds(affected: DataFrame, keys: tuple[str, ...]) -> Column:
    """Literal min-max predicates on the keys, so that Delta skips files by their statistics."""
    from functools import reduce

    from pyspark.sql import functions as F

    facts = affected.agg(
        *[F.min(key).alias(f"min_{key}") for key in keys],
        *[F.max(key).alias(f"max_{key}") for key in keys],
        *[F.count_if(F.col(key).isNull()).alias(f"nulls_{key}") for key in keys],
    ).first()
    assert facts is not None
    bounds = [
        F.col(key).between(F.lit(facts[f"min_{key}"]), F.lit(facts[f"max_{key}"]))
        for key in keys
        if not facts[f"nulls_{key}"] and facts[f"min_{key}"] is not None
    ]
    return reduce(lambda left, right: left & right, bounds, F.lit(True))


def _check_groups(context: FlowContext, groups: DataFrame, affected: DataFrame, batch_id: int) -> None:
    keys, name = context.flow.target.keys, context.flow.transform
    missing = [key for key in keys if key not in groups.columns]
    if missing:
        raise SpecError(
            f"flow {context.flow.name!r}: transform {name!r} does not return the key {', '.join(missing)}; let it, or declare other keys"
        )
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


def compare(
    context: FlowContext, groups: DataFrame, affected: DataFrame, bookkeeping: tuple[str, ...] = ()
) -> DataFrame:
    """What becomes of each named key when its rows are replaced by those that were made for it.

    Args:
        context: The flow; its target is compared with.
        groups: One row for each key that is made.
        affected: The keys that are named.
        bookkeeping: Columns in which a difference alone is no change.

    Returns:
        The columns of ``groups`` and ``_op``: ``upsert``, ``delete`` or ``unchanged`` (also: named, and in neither table).
    """
    from pyspark.sql import functions as F

    keys, spark = context.flow.target.keys, groups.sparkSession
    measures = [column for column in groups.columns if column not in keys]
    live = (
        tables.read(spark, context.target)
        if tables.exists(context.target)
        else spark.createDataFrame([], groups.schema)
    )
    new = groups.select(
        *[F.col(key).alias(f"_n_{key}") for key in keys], F.struct(*[F.col(m) for m in groups.columns]).alias("_new")
    )
    known = [column for column in measures if column in live.columns]
    old = live.select(
        *[F.col(key).alias(f"_o_{key}") for key in keys], F.struct(F.lit(1).alias("_"), *known).alias("_old")
    )
    joined = affected.join(new, [F.col(key).eqNullSafe(F.col(f"_n_{key}")) for key in keys], "left")
    joined = joined.join(old, [F.col(key).eqNullSafe(F.col(f"_o_{key}")) for key in keys], "left")
    same = F.lit(True)
    for column in (measure for measure in measures if measure not in bookkeeping):
        old_value = F.col(f"_old.{column}") if column in known else F.lit(None)
        same = same & F.col(f"_new.{column}").eqNullSafe(old_value)
    op = (
        F.when(F.col("_new").isNull() & F.col("_old").isNull(), F.lit("unchanged"))
        .when(F.col("_new").isNull(), F.lit("delete"))
        .when(F.col("_old").isNotNull() & same, F.lit("unchanged"))
        .otherwise(F.lit("upsert"))
    )
    return joined.select(*keys, *[F.col(f"_new.{measure}").alias(measure) for measure in measures], op.alias("_op"))
