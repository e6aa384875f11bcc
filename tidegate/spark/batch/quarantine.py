"""The quarantine table of a flow: what did not pass, as it arrived, with the rules it broke and where it came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tidegate.quarantine import claims
from tidegate.spark.lake import sinks, tables
from tidegate.spec import FileSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.context import FlowContext

ARRIVED = "_row_id string, level string, rules array<string>, record string, source string"
"""What a flow hands over: ``level`` is ``row`` or ``file``, ``record`` the raw text, ``source`` the coordinates as JSON."""

CHANGED = {
    "changed_by": "string",
    "changed_at": "timestamp",
    "reason": "string",
    "_replay": "bigint",
    "_in_hand": "string",
}
"""Columns that are empty until the entry's life goes on (`tidegate.quarantine.lifecycle`)."""


def from_files(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Bad files as `ARRIVED` rows."""
    return spark.createDataFrame([tuple(row.values()) for row in rows], ARRIVED)


def from_rows(refused: DataFrame, *, one_to_one: bool) -> DataFrame:
    """Refused rows as `ARRIVED` rows: one per source row, whatever the transform made of it.

    Args:
        refused: Rows with ``_row_id``, ``_origin`` and ``_errors``.
        one_to_one: Whether each source row made one of them.
    """
    from pyspark.sql import functions as F

    if one_to_one:
        by_source = refused.withColumn("rules", F.array_distinct("_errors"))
    else:
        by_source = refused.groupBy("_row_id").agg(
            F.array_distinct(F.flatten(F.collect_list("_errors"))).alias("rules"), F.first("_origin").alias("_origin")
        )
    return by_source.select(
        "_row_id",
        F.lit("row").alias("level"),
        "rules",
        F.col("_origin.raw").alias("record"),
        F.col("_origin.source").alias("source"),
    )


def append(context: FlowContext, arrived: DataFrame, batch_id: int, txn: sinks.Transaction, moment_ms: int) -> None:
    """Write them once; of a batch that a person took out, with who and why.

    Args:
        context: The flow.
        arrived: `ARRIVED` rows.
        batch_id: The batch.
        txn: Of the batch.
        moment_ms: The batch's planned time, the same on every rerun.
    """
    rows = _entries(context, arrived, batch_id, moment_ms)
    sinks.append(rows, context.quarantine, txn)


def judge_anew(
    context: FlowContext, refused: DataFrame, passed: DataFrame, batch_id: int, txn: sinks.Transaction, moment_ms: int
) -> None:
    """What a replay of a window decided, in one commit: new entries, and what becomes of those that the rows have.

    A row that passes now ends its entry, as ``replayed``, also one that was given up: it is in the table again, and a row
    is in one place. Who gave it up, when and why stays with the entry all the same. A row that fails again stays the
    entry that it was.

    Args:
        context: The flow, under the transaction id of its windows' replays.
        refused: `ARRIVED` rows.
        passed: ``_row_id string`` of all other rows that were judged.
        batch_id: The number of the replay.
        txn: Of the replay.
        moment_ms: When it was planned.
    """
    from pyspark.sql import functions as F

    fresh = _entries(context, refused, batch_id, moment_ms)
    held = _of_this_checkpoint(context, passed.sparkSession).select("_row_id").distinct()
    ending = passed.join(held, "_row_id", "left_semi").withColumn("_passed", F.lit(True))
    judged = fresh.withColumn("_passed", F.lit(False)).unionByName(ending, allowMissingColumns=True)
    own = f"t._checkpoint_version = {context.ref.version} AND t._refresh = {context.ref.refresh}"
    at = F.timestamp_millis(F.lit(moment_ms))
    told = f"replay {batch_id} of a window"
    sinks.merge(
        judged,
        context.quarantine,
        f"t._row_id = s._row_id AND t.level = 'row' AND t.state <> 'replayed' AND {own}",
        txn,
        updates={
            "s._passed AND t.state = 'open'": {
                "state": F.lit("replayed"),
                "changed_by": F.lit(context.request.requested_by),
                "changed_at": at,
                "reason": F.lit(told),
                "_in_hand": F.lit(None).cast("string"),
            },
            "s._passed": {
                "state": F.lit("replayed"),
                "reason": F.concat_ws("; ", F.col("t.reason"), F.lit(f"passed in {told}")),
            },
            "t.state = 'open'": {
                "rules": F.col("s.rules"),
                "suite_fingerprint": F.col("s.suite_fingerprint"),
                "attempts": F.expr("coalesce(t.attempts, 0) + 1"),
            },
        },
        inserts=("NOT s._passed", fresh.columns),
    )


def _entries(context: FlowContext, arrived: DataFrame, batch_id: int, moment_ms: int) -> DataFrame:
    """`ARRIVED` rows with all columns of the table."""
    from pyspark.sql import functions as F

    suite = context.gate.suite if context.gate is not None else None
    taken = context.taken(batch_id)
    known = {"changed_by": taken.by, "reason": taken.reason} if taken is not None else {}
    return arrived.select(
        "*",
        F.lit(suite.name if suite else None).cast("string").alias("suite"),
        F.lit(suite.fingerprint if suite else None).cast("string").alias("suite_fingerprint"),
        F.lit("open").alias("state"),
        F.timestamp_millis(F.lit(moment_ms)).alias("quarantined_at"),
        F.lit(0).alias("attempts"),
        *[F.lit(known.get(name)).cast(kind).alias(name) for name, kind in CHANGED.items()],
        F.lit(context.app_id).alias("_app_id"),
        F.lit(context.ref.version).alias("_checkpoint_version"),
        F.lit(context.ref.refresh).alias("_refresh"),
        F.lit(batch_id).cast("bigint").alias("_batch_id"),
    )


def send_back(context: FlowContext, refused: DataFrame, txn: sinks.Transaction) -> None:
    """Mark the entries of a claim that break a rule again: each stays the entry that it was.

    Args:
        context: The flow, with its replay.
        refused: `ARRIVED` rows; those of a file are found by its path, because it may have been changed.
        txn: Of the claim.
    """
    import pyarrow

    assert context.replay is not None
    found = {row["_row_id"]: row["rules"] for row in refused.select("_row_id", "rules").collect()}
    if isinstance(context.flow.source, FileSource):
        by_path = {name.rpartition("@")[0]: rules for name, rules in found.items()}
        ids = {entry["_row_id"]: json.loads(entry["source"])["path"] for entry in context.replay.entries}
        found = {name: by_path[path] for name, path in ids.items() if path in by_path}
    texts = pyarrow.string()
    rows = {
        "_row_id": pyarrow.array(list(found), texts),
        "rules": pyarrow.array(list(found.values()), pyarrow.list_(texts)),
    }
    claims.send_back(
        context.quarantine,
        txn.batch_id,
        pyarrow.table(rows),
        suite_fingerprint=context.gate.suite.fingerprint if context.gate is not None else None,
        app_id=txn.app_id,
        told=txn.metadata(),
    )


def held_ids(context: FlowContext, spark: SparkSession, batch_id: int) -> DataFrame:
    """The ids that an earlier attempt at this batch refused: ``_row_id string, rules array<string>``."""
    from pyspark.sql import functions as F

    if context.ref.purpose and context.source_table is not None:
        # `judge_anew` ended the entries of all others.
        held = _of_this_checkpoint(context, spark)
        return held.groupBy("_row_id").agg(F.first("rules").alias("rules"))
    held = tables.read(spark, context.quarantine)
    if context.replay is not None:
        refused = (F.col("_replay") == batch_id) & (F.col("_in_hand") == "returned")
    else:
        refused = (F.col("_app_id") == context.app_id) & (F.col("_batch_id") == batch_id)
    return held.where(refused).select("_row_id", "rules")


def _of_this_checkpoint(context: FlowContext, spark: SparkSession) -> DataFrame:
    """Entries of rows that this checkpoint or its windows' replays judged, and that did not pass since."""
    from pyspark.sql import functions as F

    held = tables.read(spark, context.quarantine).where("level = 'row' AND state <> 'replayed'")
    return held.where(
        (F.col("_checkpoint_version") == context.ref.version) & (F.col("_refresh") == context.ref.refresh)
    )
