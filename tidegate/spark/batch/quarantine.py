"""The quarantine table of a flow: each refused row, file or message in its raw form, with the broken rules and its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.lake import identity
from tidegate.spark.lake import local, tables, writes

if TYPE_CHECKING:
    from tidegate.spark.job import Job

REFUSED = f"{hidden.ROW_ID} string, level string, rules array<string>, record string, source string"
"""Schema of refused rows: ``level`` is ``row``, ``file`` or ``message``, ``record`` the raw text, ``source`` the coordinates as JSON."""

DROPPED = "dropped"
"""The rule ``dropped(<statistic>)``, which every row of a dropped batch carries in quarantine."""
LIFECYCLE_COLUMNS = {
    "changed_by": "string",
    "changed_at": "timestamp",
    "reason": "string",
    hidden.REPLAY: "bigint",
    hidden.IN_HAND: "string",
}
"""Columns that stay NULL while an entry is open and unclaimed (`tidegate.quarantine.lifecycle`)."""


def from_files(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Refused files as `REFUSED` rows."""
    return local.from_rows(spark, [tuple(row.values()) for row in rows], REFUSED)


def from_rows(refused: DataFrame, *, one_to_one: bool) -> DataFrame:
    """Refused output rows as `REFUSED` rows: one per source row, however many the transform returned for it.

    Args:
        refused: Rows with ``_row_id``, ``_origin`` and ``_errors``.
        one_to_one: Whether the transform returns one row per source row.
    """
    if one_to_one:
        by_source = refused.withColumn("rules", F.array_distinct(hidden.ERRORS))
    else:
        by_source = refused.groupBy(hidden.ROW_ID).agg(
            F.array_distinct(F.flatten(F.collect_list(hidden.ERRORS))).alias("rules"),
            F.first(hidden.ORIGIN).alias(hidden.ORIGIN),
        )
    return by_source.select(
        hidden.ROW_ID,
        F.lit("row").alias("level"),
        "rules",
        F.col(f"{hidden.ORIGIN}.raw").alias("record"),
        F.col(f"{hidden.ORIGIN}.source").alias("source"),
    )


def append(job: Job, refused: DataFrame, batch_id: int, txn: writes.Transaction, planned_ms: int) -> None:
    """Append entries, once per transaction. Those of a batch that a person took out carry that person and the reason.

    Entries of a batch that a statistic dropped are waived from the beginning.

    Args:
        refused: `REFUSED` rows.
        planned_ms: When the batch was planned, in milliseconds since 1970; the same on every rerun.
    """
    rows = _entries(job, refused, batch_id, planned_ms)
    writes.append(rows, job.place.quarantine, txn)


def append_nothing(job: Job, batch_id: int, txn: writes.Transaction, planned_ms: int) -> None:
    """Commit the transaction without an entry."""
    spark = job.spark
    if tables.exists(job.place.quarantine):
        writes.append(tables.read(spark, job.place.quarantine).limit(0), job.place.quarantine, txn)
    else:
        append(job, local.from_rows(spark, [], REFUSED), batch_id, txn, planned_ms)


def apply_backfill(
    job: Job, refused: DataFrame, passed: DataFrame, batch_id: int, txn: writes.Transaction, planned_ms: int
) -> None:
    """Write the result of a backfill in one commit: new entries, and changes to the existing entries of its rows.

    The entry of a row that passes becomes ``replayed``, a waived or expired one as well: the row is in the target again,
    and a row is either in the target or in quarantine. Such an entry keeps the person, time and reason of its decision.
    A row that is refused again keeps its entry.

    Args:
        job: The flow, with the transaction id of its backfills.
        refused: `REFUSED` rows.
        passed: ``_row_id string`` of all other rows of the backfill.
        planned_ms: When it was planned, in milliseconds since 1970.
    """
    entries = _entries(job, refused, batch_id, planned_ms)
    existing = _entries_of_checkpoint(job, passed.sparkSession).select(hidden.ROW_ID).distinct()
    replayed = passed.join(existing, hidden.ROW_ID, "left_semi").withColumn("_passed", F.lit(True))
    judged = entries.withColumn("_passed", F.lit(False)).unionByName(replayed, allowMissingColumns=True)
    own = f"t.{hidden.CHECKPOINT_VERSION} = {job.place.version} AND t.{hidden.REFRESH} = {job.place.refresh}"
    changed_at = F.timestamp_millis(F.lit(planned_ms))
    reason = f"backfill {batch_id}"
    # An earlier replay may have claimed and returned it: the undo of that replay must not open it again.
    no_replay = F.lit(None).cast("bigint")
    writes.merge(
        judged,
        job.place.quarantine,
        f"t.{hidden.ROW_ID} = s.{hidden.ROW_ID} AND t.level = 'row' AND t.state NOT IN ('replayed', 'withdrawn') AND {own}",
        txn,
        updates={
            "s._passed AND t.state = 'open'": {
                "state": F.lit("replayed"),
                "changed_by": F.lit(job.run.request.requested_by),
                "changed_at": changed_at,
                "reason": F.lit(reason),
                hidden.REPLAY: no_replay,
                hidden.IN_HAND: F.lit(None).cast("string"),
            },
            "s._passed": {
                "state": F.lit("replayed"),
                hidden.REPLAY: no_replay,
                "reason": F.concat_ws("; ", F.col("t.reason"), F.lit(f"passed in {reason}")),
            },
            "t.state = 'open'": {
                "rules": F.col("s.rules"),
                "suite_fingerprint": F.col("s.suite_fingerprint"),
                "attempts": F.expr("coalesce(t.attempts, 0) + 1"),
            },
        },
        inserts=("NOT s._passed", entries.columns),
    )


def _entries(job: Job, refused: DataFrame, batch_id: int, planned_ms: int) -> DataFrame:
    """`REFUSED` rows with all columns of the quarantine table."""
    suite = job.gate.suite if job.gate is not None else None
    take_out = job.work.decision(job, batch_id, "take")
    lifecycle = {"changed_by": take_out.by, "reason": take_out.reason} if take_out is not None else {}
    planned_at, dropped = F.timestamp_millis(F.lit(planned_ms)), is_dropped(F.col("rules"))
    # By the declaration, nobody has to decide about the rows of a dropped batch.
    closed = {
        "changed_by": F.lit("tidegate"),
        "changed_at": planned_at,
        "reason": F.lit("a statistic dropped its batch"),
    }
    return refused.select(
        "*",
        F.lit(suite.name if suite else None).cast("string").alias("suite"),
        F.lit(suite.fingerprint if suite else None).cast("string").alias("suite_fingerprint"),
        F.when(dropped, "waived").otherwise("open").alias("state"),
        planned_at.alias("quarantined_at"),
        F.lit(0).alias("attempts"),
        *[
            F.when(dropped, closed.get(name)).otherwise(F.lit(lifecycle.get(name))).cast(kind).alias(name)
            for name, kind in LIFECYCLE_COLUMNS.items()
        ],
        *of_write(job, batch_id),
    )


def is_dropped(rules: Column) -> Column:
    """Whether an entry's rules say that its batch was dropped."""
    return F.exists(rules, lambda rule: rule.startswith(f"{DROPPED}("))


def refused_in_batch(job: Job, spark: SparkSession, batch_id: int) -> DataFrame:
    """The entries that a batch wrote: ``_row_id string, rules array<string>``."""
    if not tables.exists(job.place.quarantine):
        return _no_ids(spark)
    entries = tables.read(spark, job.place.quarantine)
    return entries.where(is_of_batch(job, batch_id)).select(hidden.ROW_ID, "rules")


def _no_ids(spark: SparkSession) -> DataFrame:
    return local.from_rows(spark, [], f"{hidden.ROW_ID} string, rules array<string>")


def refused_in_replay(job: Job, spark: SparkSession, number: int) -> DataFrame:
    """The claimed entries that a replay returned, as in `refused_in_batch`."""
    entries = tables.read(spark, job.place.quarantine)
    return entries.where(f"{hidden.REPLAY} = {number} AND {hidden.IN_HAND} = 'returned'").select(hidden.ROW_ID, "rules")


def refused_in_backfill(job: Job, spark: SparkSession, version: int | None = None) -> DataFrame:
    """The entries that are left after `apply_backfill`, which closed those of all rows that passed; as in `refused_in_batch`.

    Args:
        version: The version of the quarantine; the newest by default.
    """
    if not tables.exists(job.place.quarantine):
        return _no_ids(spark)
    return _entries_of_checkpoint(job, spark, version).groupBy(hidden.ROW_ID).agg(F.first("rules").alias("rules"))


def refused_by(job: Job, spark: SparkSession, app_id: str) -> DataFrame:
    """The open entries of rows that a transaction id wrote: ``_row_id string``."""
    entries = tables.read(spark, job.place.quarantine).where("level = 'row' AND state = 'open'")
    return entries.where(F.col(hidden.APP_ID) == app_id).select(hidden.ROW_ID)


def without_entries(job: Job, rows: DataFrame) -> DataFrame:
    """Of source rows, those that no entry keeps out of the live table.

    An entry does if a checkpoint wrote it whose rows the table has, and if it is not replayed; also a waived one, and one that a
    person let expire. A checkpoint that was not swapped in has refused nothing that the table could have.

    Args:
        rows: ``_row_id string``; another transaction id than the one that wrote the entries in question.
    """
    if not tables.exists(job.place.quarantine):
        return rows
    prefix = f"{job.place.pipeline}/{job.flow.name}/v"
    checkpoint = F.concat(F.lit(prefix), F.col(hidden.CHECKPOINT_VERSION), F.lit("/"), F.col(hidden.REFRESH))
    live = [app_id for app_id in tables.transactions(job.spark, job.live) if identity.is_stream(app_id)]
    entries = (
        tables.read(rows.sparkSession, job.place.quarantine)
        .where("level = 'row' AND (state IN ('open', 'waived') OR (state = 'expired' AND changed_by <> 'tidegate'))")
        .where(checkpoint.isin(live))
    )
    return rows.join(entries.select(hidden.ROW_ID).distinct(), hidden.ROW_ID, "left_anti")


def file_ids(job: Job, version: int | None) -> set[str]:
    """The files that entries keep out of bronze, as ``<path>@<modification time in ms>``; none without a quarantine."""
    if version is None:
        return set()
    entries = tables.read(job.spark, job.place.quarantine, version)
    kept = entries.where("level = 'file' AND state NOT IN ('replayed', 'withdrawn')")
    return {row[hidden.ROW_ID] for row in kept.select(hidden.ROW_ID).distinct().collect()}


def _entries_of_checkpoint(job: Job, spark: SparkSession, version: int | None = None) -> DataFrame:
    """Row entries written by this checkpoint or its backfills that are not replayed."""
    entries = tables.read(spark, job.place.quarantine, version)
    entries = entries.where("level = 'row' AND state NOT IN ('replayed', 'withdrawn')")
    return entries.where(is_of_checkpoint(job))


def of_write(job: Job, batch_id: int) -> list[Column]:
    """The columns of the rows that a batch writes."""
    return [
        F.lit(job.app_id).alias(hidden.APP_ID),
        F.lit(job.place.version).alias(hidden.CHECKPOINT_VERSION),
        F.lit(job.place.refresh).alias(hidden.REFRESH),
        F.lit(batch_id).cast("bigint").alias(hidden.BATCH_ID),
    ]


def is_of_batch(job: Job, batch_id: int) -> Column:
    """Whether this batch wrote a row."""
    return (F.col(hidden.APP_ID) == job.app_id) & (F.col(hidden.BATCH_ID) == batch_id)


def is_of_checkpoint(job: Job) -> Column:
    """Whether a batch of the job's checkpoint wrote a row."""
    return (F.col(hidden.CHECKPOINT_VERSION) == job.place.version) & (F.col(hidden.REFRESH) == job.place.refresh)
