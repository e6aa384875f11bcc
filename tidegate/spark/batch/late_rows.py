"""Late rows: those of a flow with a watermark whose event time is before it. They go to a table of their own.

The watermark of a row is that before the batch of bronze which brought it (`tidegate.times.lateness`), wherever the flow's own batches
were cut. Batches of bronze are in the order of its commits, never of the times at which they were planned: a clock may go back.
A rerun of a batch finds the same rows late: it begins with the watermark that the previous batch recorded, and once the late table
has the batch, its rows are the late ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.errors import SpecError
from tidegate.ops import arrivals, heartbeats
from tidegate.spark.batch import quarantine
from tidegate.spark.batch.dispositions import LATE
from tidegate.spark.lake import local, tables
from tidegate.times import dates, lateness
from tidegate.times.lateness import Arrival

if TYPE_CHECKING:
    from tidegate.ops.heartbeats import Heartbeat
    from tidegate.spark.batch.split import Decision
    from tidegate.spark.job import Job

_SECOND = 1_000_000
_BATCH = ("_planned", "_number", "_commit")
"""What identifies a batch of bronze, or the part of it that one commit of the change feed has."""


@dataclass(frozen=True, kw_only=True)
class JudgedLateness:
    """Rows with what is known of their lateness."""

    rows: DataFrame
    """With ``_late`` and ``_watermark``; without them if no row is late."""
    watermark: datetime | None
    """After the batch."""


def broken_rules(job: Job, output: DataFrame) -> list[Column]:
    """The rules that an event time can break, for each a column with its name or NULL; none without a watermark.

    Raises:
        SpecError: The event time is no TIMESTAMP.
    """
    declared, column = job.flow.watermark, job.flow.target.event_time
    if declared is None:
        return []
    kind = dict(output.dtypes).get(str(column))
    if kind != "timestamp":
        raise SpecError(
            f"flow {job.flow.name!r}: event_time={column!r} of table {job.flow.target.name!r} is "
            f"{kind or 'not among the columns that its transform returns'}",
            Edit("a watermark is about a TIMESTAMP column: cast it in the transform", "transform"),
        )
    return [
        F.when(F.col(f"`{column}`").isNull(), F.lit(f"null_event_time({column})")),
        F.when(_ahead(job), F.lit(f"ahead_of_clock({column})")),
    ]


def judge(job: Job, rows: DataFrame, batch_id: int, decision: Decision, *, one_to_one: bool) -> JudgedLateness | None:
    """Find the late rows of a batch; None for a flow without a watermark.

    If one output row of a source row is late, the source row is.

    Args:
        rows: Output rows of the transform, persisted.
        decision: What earlier attempts wrote.
        one_to_one: Whether the transform returns one row per source row.

    Raises:
        SpecError: The late table has the batch, and with today's transform other rows are late.
    """
    declared = job.flow.watermark
    if declared is None:
        return None
    measured, beats = _measured(job, rows, batch_id), heartbeats.read(job.place)
    before_batch = None if job.work.of_entries else batch_id
    start = heartbeats.watermark(job.place, beats, declared.delay_seconds, before_batch)
    counted = [Arrival(version=each.version, newest=each.newest) for each in measured]
    # A refresh reads again what came before later heartbeats.
    newest = max((each.version for each in measured if each.version is not None), default=-1)
    for beat in beats:
        version = beat.version if beat.version is not None else _newest_before(beat, measured)
        if version < newest:
            counted.append(Arrival(version=version, newest=beat.event_time, is_heartbeat=True))
    marks = lateness.watermarks(counted, declared.delay_seconds, start)
    after = None if marks.after is None else dates.from_micros(marks.after)
    # An entry that is replayed comes after all rows that the flow has read.
    steps = [(each, start if job.work.of_entries else marks.before.get(each.version)) for each in measured]
    reached = [(each, mark) for each, mark in steps if mark is not None]
    if decision.late:
        ids = job.work.late_ids(job, rows.sparkSession, batch_id).withColumn(hidden.LATE, F.lit(True))
        if job.work.split_is_final and not job.work.of_entries:
            _check_decided(job, _with_watermark(job, rows, reached), ids, batch_id)
        return JudgedLateness(rows=_marked(rows.withColumn(hidden.WATERMARK, _none("timestamp")), ids), watermark=after)
    if not any(each.oldest < mark for each, mark in reached):
        return JudgedLateness(rows=rows, watermark=after)
    known = _with_watermark(job, rows, reached)
    if not one_to_one:
        known = _marked(known.drop(hidden.LATE), known.where(hidden.LATE).select(hidden.ROW_ID, hidden.LATE).distinct())
    return JudgedLateness(rows=known, watermark=after)


def _check_decided(job: Job, known: DataFrame, ids: DataFrame, batch_id: int) -> None:
    """Check that no row enters the table that Spark would drop behind it: the late table cannot get the rest of a batch."""
    passed = known.where(f"{hidden.LATE} AND size({hidden.ERRORS}) = 0 AND {hidden.FILTERED} IS NULL")
    if passed.join(ids, hidden.ROW_ID, "left_anti").limit(1).count():
        raise SpecError(
            f"flow {job.flow.name!r}: batch {batch_id} was split by an earlier attempt, and rows that "
            "were not late then are with today's transform.",
            Edit("undo the change for one run, then apply it again", "transform"),
        )


def is_late(rows: DataFrame) -> Column:
    """Whether a row that `judge` has seen is late."""
    return F.col(hidden.LATE) if hidden.LATE in rows.columns else F.lit(False)


def of_batch(job: Job, assigned: DataFrame, columns: Sequence[str | Column], batch_id: int) -> DataFrame:
    """The rows for the late table.

    Args:
        assigned: Rows with ``_disposition``.
        columns: The columns of the target.
    """
    event_time = F.unix_micros(F.col(f"`{job.flow.target.event_time}`"))
    if hidden.WATERMARK not in assigned.columns:
        assigned = assigned.withColumn(hidden.WATERMARK, _none("timestamp"))
    return assigned.where(f"{hidden.DISPOSITION} = {LATE}").select(
        *columns,
        hidden.WATERMARK,
        # Another output row of the same source row may be the late one.
        F.greatest((F.unix_micros(hidden.WATERMARK) - event_time) / _SECOND, F.lit(0.0)).alias(hidden.LATE_SECONDS),
        *quarantine.of_write(job, batch_id),
    )


def of_checkpoint(job: Job, spark: SparkSession) -> DataFrame:
    """The late rows of all batches of a checkpoint, and of replays into its table: ``_row_id string``."""
    if not tables.exists(job.place.late):
        return local.from_rows(spark, [], f"{hidden.ROW_ID} string")
    return tables.read(spark, job.place.late).where(quarantine.is_of_checkpoint(job)).select(hidden.ROW_ID).distinct()


def _ahead(job: Job) -> Column:
    """Whether the event time is further ahead of the ingestion than the declared skew."""
    declared = job.flow.watermark
    assert declared is not None
    ingested = F.unix_micros(f"{hidden.ORIGIN}.ingested_at")
    return F.unix_micros(F.col(f"`{job.flow.target.event_time}`")) > ingested + F.lit(declared.skew_seconds * _SECOND)


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """A batch of bronze, or the part of it that one commit of its change feed has."""

    commit: int | None
    """The version by the change feed: that of the whole table for rows of its first snapshot."""
    batch: arrivals.BatchInTable
    newest: int
    """The highest event time, in microseconds since 1970."""
    oldest: int
    version: int | None
    """The version that the batch committed; None if it is not known."""


def _measured(job: Job, rows: DataFrame, batch_id: int) -> list[_Measured]:
    """The highest and the lowest event time of each batch of bronze.

    Without refused rows: a rerun after the quarantine was written has no event times of them. Without filtered rows that are ahead of
    the clock.
    """
    event_time = F.unix_micros(F.col(f"`{job.flow.target.event_time}`"))
    measured = (
        rows.where(~_ahead(job) & (F.size(hidden.ERRORS) == 0))
        .groupBy(*[column.alias(name) for name, column in zip(_BATCH, _batch(), strict=True)])
        .agg(F.max(event_time).alias("newest"), F.min(event_time).alias("oldest"))
        .collect()
    )
    batches = [arrivals.BatchInTable(row["_planned"], row["_number"]) for row in measured]
    commits = [row["_commit"] for row in measured]
    recorded = None
    # The first batch may read the present rows of bronze, which all have its present version.
    if not job.work.of_entries and (batch_id <= 0 or len(set(commits)) < len(commits)):
        recorded = _recorded(job, rows.sparkSession, batches)
    return [
        _Measured(
            commit=row["_commit"],
            batch=batch,
            newest=row["newest"],
            oldest=row["oldest"],
            version=row["_commit"] if recorded is None else _version(batch, row["_commit"], commits, recorded),
        )
        for row, batch in zip(measured, batches, strict=True)
    ]


def _recorded(
    job: Job, spark: SparkSession, batches: Sequence[arrivals.BatchInTable]
) -> dict[arrivals.BatchInTable, int]:
    """The versions of bronze that batches committed, by the ledger."""
    writer = job.resolved.writer
    assert writer is not None
    writers = tables.transactions(spark, job.place.layout.read_table(writer.target.name))
    commits = arrivals.read(job.resolved.above(job.place.layout), writers.keys())
    return arrivals.versions(batches, commits)


def _version(
    batch: arrivals.BatchInTable,
    commit: int | None,
    commits: Sequence[int | None],
    recorded: dict[arrivals.BatchInTable, int],
) -> int | None:
    """The version that a batch committed: by the ledger, else that of its rows if these are no others of it."""
    version = recorded.get(batch)
    if version is not None and (commit is None or version <= commit):
        return version
    return commit if commits.count(commit) == 1 else None


def _newest_before(beat: Heartbeat, measured: Sequence[_Measured]) -> int:
    """The version before a heartbeat of an earlier release, of which only the time is known.

    None was written by a clock that was behind rows which had come.
    """
    return max(
        (each.version for each in measured if each.version is not None and each.batch.planned <= beat.at), default=-1
    )


def _batch() -> list[Column]:
    """The values of `_BATCH` of a row."""
    return [
        F.unix_micros(f"{hidden.ORIGIN}.ingested_at"),
        F.col(f"{hidden.ORIGIN}.arrival.batch"),
        F.col(f"{hidden.ORIGIN}.arrival.version"),
    ]


def _with_watermark(job: Job, rows: DataFrame, steps: Sequence[tuple[_Measured, int]]) -> DataFrame:
    """Add ``_watermark`` and ``_late``.

    Args:
        rows: Output rows of the transform.
        steps: The watermark before each batch of bronze.
    """
    values = [(each.batch.planned, each.batch.number, each.commit, mark) for each, mark in steps]
    known = local.from_rows(rows.sparkSession, values, "_planned bigint, _number bigint, _commit bigint, _mark bigint")
    event_time = F.unix_micros(F.col(f"`{job.flow.target.event_time}`"))
    is_of_batch = [own.eqNullSafe(F.col(f"known.{name}")) for name, own in zip(_BATCH, _batch(), strict=True)]
    joined = rows.join(F.broadcast(known.alias("known")), is_of_batch, "left")
    late = F.coalesce(event_time < F.col("_mark"), F.lit(False))
    return joined.withColumns({hidden.LATE: late, hidden.WATERMARK: F.timestamp_micros("_mark")}).drop(*_BATCH, "_mark")


def _marked(rows: DataFrame, ids: DataFrame) -> DataFrame:
    """Add ``_late`` for all output rows of these source rows."""
    return rows.join(F.broadcast(ids), hidden.ROW_ID, "left").withColumn(
        hidden.LATE, F.coalesce(hidden.LATE, F.lit(False))
    )


def _none(kind: str) -> Column:
    return F.lit(None).cast(kind)
