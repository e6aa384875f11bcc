"""Late rows: those of a flow with a watermark whose event time is before it. They go to a table of their own.

The watermark of a row is that before the batch of bronze which brought it (`tidegate.lateness`), wherever the flow's own batches
were cut. A rerun of a batch finds the same rows late: it begins with the watermark that the previous batch recorded, and once the
late table has the batch, its rows are the late ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidegate import lateness
from tidegate.errors import SpecError
from tidegate.lateness import Arrival
from tidegate.ops import heartbeats
from tidegate.spark.batch.dispositions import LATE
from tidegate.spark.lake import local, tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from tidegate.spark.batch.split import Decision
    from tidegate.spark.context import FlowContext

_SECOND = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Rows with what is known of their lateness."""

    rows: DataFrame
    """With ``_late`` and ``_watermark``; without them if no row is late."""
    watermark: datetime | None
    """After the batch."""


def broken_rules(context: FlowContext, output: DataFrame) -> list[Column]:
    """The rules that an event time can break, for each a column with its name or NULL; none without a watermark.

    Raises:
        SpecError: The event time is no TIMESTAMP.
    """
    declared, column = context.flow.watermark, context.flow.target.event_time
    if declared is None:
        return []
    kind = dict(output.dtypes).get(str(column))
    if kind != "timestamp":
        raise SpecError(
            f"flow {context.flow.name!r}: event_time={column!r} of table {context.flow.target.name!r} is "
            f"{kind or 'not among the columns that its transform returns'}; a watermark is about a TIMESTAMP column: cast it in the "
            "transform"
        )
    return [
        F.when(F.col(f"`{column}`").isNull(), F.lit(f"null_event_time({column})")),
        F.when(_ahead(context), F.lit(f"ahead_of_clock({column})")),
    ]


def judge(
    context: FlowContext, rows: DataFrame, batch_id: int, decision: Decision, *, one_to_one: bool
) -> Judged | None:
    """Find the late rows of a batch; None for a flow without a watermark.

    If one output row of a source row is late, the source row is.

    Args:
        rows: Output rows of the transform, persisted.
        decision: What earlier attempts wrote.
        one_to_one: Whether the transform returns one row per source row.

    Raises:
        SpecError: The late table has the batch, and with today's transform other rows are late.
    """
    declared = context.flow.watermark
    if declared is None:
        return None
    measured, beats = _measured(context, rows), heartbeats.read(context.layout, context.ref)
    before_batch = None if context.work.of_entries else batch_id
    start = heartbeats.watermark(context.layout, context.ref, beats, declared.delay_seconds, before_batch)
    arrivals = [Arrival(at=row["at"], newest=row["newest"]) for row in measured]
    # A refresh reads again what came before later heartbeats.
    newest = max((each.at for each in arrivals), default=None)
    arrivals += [
        Arrival(at=each.at, newest=each.event_time) for each in beats if newest is not None and each.at < newest
    ]
    marks = lateness.watermarks(arrivals, declared.delay_seconds, start)
    # An entry that is replayed comes after all rows that the flow has read.
    before = {row["at"]: start for row in measured} if context.work.of_entries else marks.before
    after = None if marks.after is None else lateness.moment(marks.after)
    steps = [(row["at"], before.get(row["at"])) for row in measured]
    reached = [(at, mark) for at, mark in steps if mark is not None]
    if decision.late:
        ids = context.work.late_ids(context, rows.sparkSession, batch_id).withColumn("_late", F.lit(True))
        if context.work.split_is_final and not context.work.of_entries:
            _check_decided(context, _with_watermark(context, rows, reached), ids, batch_id)
        return Judged(rows=_marked(rows.withColumn("_watermark", _none("timestamp")), ids), watermark=after)
    if not any(mark is not None and row["oldest"] < mark for row, (_, mark) in zip(measured, steps, strict=True)):
        return Judged(rows=rows, watermark=after)
    known = _with_watermark(context, rows, reached)
    if not one_to_one:
        known = _marked(known.drop("_late"), known.where("_late").select("_row_id", "_late").distinct())
    return Judged(rows=known, watermark=after)


def _check_decided(context: FlowContext, known: DataFrame, ids: DataFrame, batch_id: int) -> None:
    """Check that no row enters the table that Spark would drop behind it: the late table cannot get the rest of a batch."""
    passed = known.where("_late AND size(_errors) = 0 AND _filtered IS NULL")
    if passed.join(ids, "_row_id", "left_anti").limit(1).count():
        raise SpecError(
            f"flow {context.flow.name!r}: batch {batch_id} was split by an earlier attempt, and rows that were not late then are "
            "with today's transform. Undo the change for one run, then apply it again."
        )


def is_late(rows: DataFrame) -> Column:
    """Whether a row that `judge` has seen is late."""
    return F.col("_late") if "_late" in rows.columns else F.lit(False)


def of_batch(context: FlowContext, assigned: DataFrame, columns: Sequence[str | Column], batch_id: int) -> DataFrame:
    """The rows for the late table.

    Args:
        assigned: Rows with ``_disposition``, of which at least one is late.
        columns: The columns of the target.
    """
    event_time = F.unix_micros(F.col(f"`{context.flow.target.event_time}`"))
    return assigned.where(f"_disposition = {LATE}").select(
        *columns,
        "_watermark",
        # Another output row of the same source row may be the late one.
        F.greatest((F.unix_micros("_watermark") - event_time) / _SECOND, F.lit(0.0)).alias("_late_seconds"),
        F.lit(context.app_id).alias("_app_id"),
        F.lit(context.ref.version).alias("_checkpoint_version"),
        F.lit(context.ref.refresh).alias("_refresh"),
        F.lit(batch_id).cast("bigint").alias("_batch_id"),
    )


def in_batch(context: FlowContext, spark: SparkSession, batch_id: int) -> DataFrame:
    """The late rows of a batch: ``_row_id string``."""
    if not tables.exists(context.late):
        return local.from_rows(spark, [], "_row_id string")
    rows = tables.read(spark, context.late)
    written = (F.col("_app_id") == context.app_id) & (F.col("_batch_id") == batch_id)
    return rows.where(written).select("_row_id").distinct()


def of_checkpoint(context: FlowContext, spark: SparkSession) -> DataFrame:
    """The late rows of all batches of a checkpoint, and of replays into its table: ``_row_id string``."""
    if not tables.exists(context.late):
        return local.from_rows(spark, [], "_row_id string")
    own = (F.col("_checkpoint_version") == context.ref.version) & (F.col("_refresh") == context.ref.refresh)
    return tables.read(spark, context.late).where(own).select("_row_id").distinct()


def _ahead(context: FlowContext) -> Column:
    """Whether the event time is further ahead of the ingestion than the declared skew."""
    declared = context.flow.watermark
    assert declared is not None
    ingested = F.unix_micros("_origin.ingested_at")
    return F.unix_micros(F.col(f"`{context.flow.target.event_time}`")) > ingested + F.lit(
        declared.skew_seconds * _SECOND
    )


def _measured(context: FlowContext, rows: DataFrame) -> list[Row]:
    """The highest and the lowest event time of each batch of bronze, in microseconds.

    Without refused rows: a rerun after the quarantine was written has no event times of them. Without filtered rows that are ahead of
    the clock.
    """
    event_time = F.unix_micros(F.col(f"`{context.flow.target.event_time}`"))
    return (
        rows.where(~_ahead(context) & (F.size("_errors") == 0))
        .groupBy(F.unix_micros("_origin.ingested_at").alias("at"))
        .agg(F.max(event_time).alias("newest"), F.min(event_time).alias("oldest"))
        .collect()
    )


def _with_watermark(context: FlowContext, rows: DataFrame, steps: Sequence[tuple[int, int]]) -> DataFrame:
    """Add ``_watermark`` and ``_late``.

    Args:
        rows: Output rows of the transform.
        steps: The watermark before each batch of bronze, by its time.
    """
    known = local.from_rows(rows.sparkSession, steps, "_at bigint, _mark bigint")
    event_time = F.unix_micros(F.col(f"`{context.flow.target.event_time}`"))
    joined = rows.join(F.broadcast(known), F.unix_micros("_origin.ingested_at") == F.col("_at"), "left")
    late = F.coalesce(event_time < F.col("_mark"), F.lit(False))
    return joined.withColumns({"_late": late, "_watermark": F.timestamp_micros("_mark")}).drop("_at", "_mark")


def _marked(rows: DataFrame, ids: DataFrame) -> DataFrame:
    """Add ``_late`` for all output rows of these source rows."""
    return rows.join(F.broadcast(ids), "_row_id", "left").withColumn("_late", F.coalesce("_late", F.lit(False)))


def _none(kind: str) -> Column:
    return F.lit(None).cast(kind)
