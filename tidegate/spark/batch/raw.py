"""Landing flows: append raw records and their coordinates to bronze, except files and messages that were read before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidegate import dates
from tidegate.advice import OutsideAct
from tidegate.checkpoints import overrides, topic
from tidegate.errors import CheckpointCorruptError
from tidegate.report import BatchRecord
from tidegate.spark.batch import quarantine
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.intake import landing, sources
from tidegate.spark.intake.reader import CheckedFile
from tidegate.spark.lake import local, tables, writes
from tidegate.spec import FileSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.spark.context import FlowContext


def split_files(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Read the files that the work lists for this batch; None when it lists none.

    Args:
        batch: Only its session is used: see `tidegate.spark.intake.landing`.
        decision: What an earlier attempt wrote: files that it quarantined are not judged again.
    """
    source = context.flow.source
    assert isinstance(source, FileSource)
    spark, listed = batch.sparkSession, context.work.listed_files(context, batch_id)
    if not listed:
        return None
    unread = _unread_files(context, spark, listed, batch_id)
    skipped = _skipped_files(context, unread)
    opened = sorted((path, modified) for path, modified in unread.items() if path not in skipped)
    stamp = landing.Batch(batch_id, context.work.planned_ms(context, batch_id))
    landed = landing.read_files(spark, opened, source, stamp, context.persisted)
    checked = [*landed.files, *skipped.values()]
    good = [file for file in checked if file.problem is None]
    failed = [file for file in checked if file.problem is not None]
    if decision.quarantined:
        good, failed = _apply_earlier_split(context, spark, batch_id, checked)
    rows = landed.rows(spark, good)
    count = sum(file.records for file in good)
    rules: dict[str, int] = {}
    for file in failed:
        rules[str(file.problem)] = rules.get(str(file.problem), 0) + 1
    record = BatchRecord(
        flow=context.flow.name,
        batch_id=batch_id,
        app_id=context.app_id,
        kind="append",
        read=count,
        written=count,
        files_listed=len(listed),
        files_opened=len(good),
        files_quarantined=len(failed),
        files_already_read=len(listed) - len(unread),
        rules=rules,
        planned_at=dates.moment(context.work.planned_ms(context, batch_id)),
    )
    refused = quarantine.from_files(spark, landing.quarantine_rows(failed)) if failed else None
    return Split(
        prepared=record,
        refused=refused,
        write=lambda txn: writes.append(rows, context.target, txn),
        expected_rows=count,
    )


def file_id() -> Column:
    """The file of a row of bronze: ``<path>@<modification time in ms>``."""
    path = F.expr(f"substring(_path, {len('file://') + 1})")
    return F.concat_ws("@", path, F.unix_millis("_modified_at").cast("string"))


def split_messages(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Append raw Kafka messages: key, value, headers, topic, topic id, partition, offset and timestamp."""
    source, ref = sources.topic_of(context), context.ref
    recorded = topic.recorded(context.layout, ref.dag_id, ref.flow, ref.version)
    rows = (
        message_rows(batch, recorded.topic_id if recorded is not None else "")
        .select(
            "*",
            F.timestamp_millis(F.lit(context.work.planned_ms(context, batch_id))).alias("_ingested_at"),
            F.lit(batch_id).cast("bigint").alias("_batch_id"),
        )
        .persist()
    )
    context.persisted.append(rows)
    read = rows.count()
    if read == 0:
        return None
    if recorded is not None:
        sources.check_topic(context, source, recorded)
    unread = _unread_messages(context, rows, recorded)
    count = read if unread is rows else unread.count()
    record = BatchRecord(
        flow=context.flow.name,
        batch_id=batch_id,
        app_id=context.app_id,
        kind="append",
        read=read,
        written=count,
        already_read=read - count,
        planned_at=dates.moment(context.work.planned_ms(context, batch_id)),
    )
    return Split(
        prepared=record, refused=None, write=lambda txn: writes.append(unread, context.target, txn), expected_rows=count
    )


def message_rows(messages: DataFrame, topic_id: str) -> DataFrame:
    """Messages, with the connector's columns, as rows of bronze without those about their batch."""
    known_id = F.lit(topic_id or None).cast("string")
    return messages.select(
        # `concat_ws` leaves out the topic id where the broker provides none.
        F.concat_ws("/", "topic", known_id, "partition", "offset").alias("_row_id"),
        "key",
        "value",
        "headers",
        F.col("topic").alias("_topic"),
        known_id.alias("_topic_id"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
    )


def _skipped_files(context: FlowContext, unread: dict[str, int]) -> dict[str, CheckedFile]:
    """By path, the files that a person marked to be quarantined without being read; a replay of such an entry reads the file."""
    assert isinstance(context.flow.source, FileSource)
    if context.work.of_entries:
        return {}
    folder = context.layout.landing(context.flow.source.path)
    marked = overrides.skipped_files(context.layout, context.pipeline.name, context.flow.name)
    paths = {str(folder / file) for file in marked} & unread.keys()
    return {path: landing.unread_file(path, unread[path], overrides.RULE) for path in paths}


def _unread_messages(context: FlowContext, rows: DataFrame, recorded: topic.CheckpointTopic | None) -> DataFrame:
    """Without the messages of this topic that bronze has from an earlier checkpoint version or refresh."""
    if context.work.is_first_read(context) or not tables.exists(context.target):
        return rows
    bounds = rows.agg(F.min("_offset"), F.max("_offset"), F.first("_topic")).first()
    assert bounds is not None
    existing = tables.read(rows.sparkSession, context.target).where(
        F.col("_offset").between(bounds[0], bounds[1]) & (F.col("_topic") == bounds[2])
    )
    if recorded is not None:
        existing = existing.where(F.coalesce("_topic_id", F.lit("")) == recorded.topic_id)
    unread = rows.join(existing.select("_partition", "_offset"), ["_partition", "_offset"], "left_anti").persist()
    context.persisted.append(unread)
    return unread.select(*rows.columns)


def _unread_files(context: FlowContext, spark: SparkSession, listed: dict[str, int], batch_id: int) -> dict[str, int]:
    """Without the files that bronze or quarantine have from an earlier checkpoint version or refresh.

    Entries that are replayed are only searched in bronze, because they are in quarantine.
    """
    if context.work.is_first_read(context):
        return listed
    names = [f"{path}@{modified}" for path, modified in listed.items()]
    candidates = local.from_rows(spark, [(name,) for name in names], "_file_id string")
    existing: set[str] = set()
    if tables.exists(context.target):
        ids = tables.read(spark, context.target).select(file_id().alias("_file_id")).distinct()
        existing |= {row["_file_id"] for row in ids.join(F.broadcast(candidates), "_file_id", "left_semi").collect()}
    if not context.work.of_entries and tables.exists(context.quarantine):
        entries = tables.read(spark, context.quarantine).where(
            (F.col("level") == "file")
            # Except entries that an earlier attempt at this batch wrote.
            & ~((F.col("_app_id") == context.app_id) & (F.col("_batch_id") == batch_id))
        )
        ids = entries.select(F.col("_row_id").alias("_file_id"))
        existing |= {row["_file_id"] for row in ids.join(F.broadcast(candidates), "_file_id", "left_semi").collect()}
    return {path: modified for path, modified in listed.items() if f"{path}@{modified}" not in existing}


def _apply_earlier_split(
    context: FlowContext, spark: SparkSession, batch_id: int, checked: list[CheckedFile]
) -> tuple[list[CheckedFile], list[CheckedFile]]:
    # By path: a replayed file may have another modification time than its entry.
    refused = {
        row["_row_id"].rpartition("@")[0]: row["rules"][0]
        for row in context.work.refused_ids(context, spark, batch_id).collect()
    }
    good = [file for file in checked if file.path not in refused]
    changed = [file.path for file in good if file.problem is not None]
    if changed:
        raise CheckpointCorruptError(
            f"flow {context.flow.name!r}: {', '.join(changed)} was readable when batch {batch_id} was split, "
            "and is not now.",
            OutsideAct("restore the file (or undo the override that skips it) and run again"),
            path=str(context.checkpoint),
        )
    return good, [landing.with_problem(file, refused[file.path]) for file in checked if file.path in refused]
