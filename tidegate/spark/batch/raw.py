"""Landing flows: bronze keeps the raw record and its coordinates, and adds only what it does not hold yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.checkpoints import intervention, progress, topic
from tidegate.errors import CheckpointCorruptError
from tidegate.report import BatchRecord
from tidegate.spark.batch import quarantine
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.intake import landing, sources
from tidegate.spark.intake.reader import CheckedFile
from tidegate.spark.lake import sinks, tables
from tidegate.spec import FileSource, KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.context import FlowContext, Reentry


def split_files(context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision) -> Split | None:
    """Open the files that the stream listed for this batch.

    Args:
        context: The flow.
        batch: The stream's own rows. Only its session is used: see `tidegate.spark.intake.landing`.
        batch_id: The batch.
        decision: What an earlier attempt wrote: files that it quarantined are not judged again.
    """
    listed = _listed(context, batch_id)
    return split_landed(context, batch.sparkSession, batch_id, listed, context.planned_ms(batch_id), decision)


def split_landed(
    context: FlowContext,
    spark: SparkSession,
    batch_id: int,
    listed: dict[str, int],
    planned_at_ms: int,
    decision: Decision,
) -> Split | None:
    """Open files, whoever listed them; None for none.

    Args:
        context: The flow.
        spark: The batch's session.
        batch_id: The batch.
        listed: Path to modification time, in milliseconds.
        planned_at_ms: When the batch was planned; the same on every rerun.
        decision: What an earlier attempt wrote: files that it quarantined are not judged again.
    """
    from pyspark.sql import functions as F

    source = context.flow.source
    assert isinstance(source, FileSource)
    if not listed:
        return None
    fresh = _unread(context, spark, listed, batch_id)
    skipped = _skipped(context, fresh)
    opened = sorted((path, modified) for path, modified in fresh.items() if path not in skipped)
    landed = landing.read_files(spark, opened, source, context.persisted)
    checked = [*landed.files, *skipped.values()]
    good = [file for file in checked if file.problem is None]
    failed = [file for file in checked if file.problem is not None]
    if decision.quarantined:
        good, failed = _as_decided(context, spark, batch_id, checked)
    rows = landed.rows(spark, good).select(
        "*",
        F.timestamp_millis(F.lit(planned_at_ms)).alias("_ingested_at"),
        F.lit(batch_id).cast("bigint").alias("_batch_id"),
    )
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
        files_already_read=len(listed) - len(fresh),
        rules=rules,
    )
    refused = quarantine.from_files(spark, landing.quarantine_rows(failed)) if failed else None
    return Split(
        planned=record,
        refused=refused,
        write=lambda txn: sinks.append(rows, context.target, txn),
        arriving=count,
    )


def split_messages(
    context: FlowContext, batch: DataFrame, batch_id: int, decision: Decision, planned_at_ms: int
) -> Split | None:
    """Keep Kafka messages as they are: key, value and headers raw, with topic, its id, partition, offset and timestamp."""
    from pyspark.sql import functions as F

    source, ref = context.flow.source, context.ref
    assert isinstance(source, KafkaSource)
    known = topic.noted(context.layout, ref.dag_id, ref.flow, ref.version)
    topic_id = F.lit(known.topic_id if known is not None and known.topic_id else None).cast("string")
    rows = batch.select(
        # Without an id, as of a broker that tells none, the id of the row has three parts.
        F.concat_ws("/", "topic", topic_id, "partition", "offset").alias("_row_id"),
        "key",
        "value",
        "headers",
        F.col("topic").alias("_topic"),
        topic_id.alias("_topic_id"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
        F.timestamp_millis(F.lit(planned_at_ms)).alias("_ingested_at"),
        F.lit(batch_id).cast("bigint").alias("_batch_id"),
    ).persist()
    context.persisted.append(rows)
    read = rows.count()
    if read == 0:
        return None
    if known is not None:
        sources.check_topic(context, source, known)
    fresh = _unread_messages(context, rows, known)
    count = read if fresh is rows else fresh.count()
    record = BatchRecord(
        flow=context.flow.name,
        batch_id=batch_id,
        app_id=context.app_id,
        kind="append",
        read=read,
        written=count,
        already_read=read - count,
    )
    return Split(
        planned=record, refused=None, write=lambda txn: sinks.append(fresh, context.target, txn), arriving=count
    )


def _listed(context: FlowContext, batch_id: int) -> dict[str, int]:
    """Path and modification time (milliseconds) of the batch's files."""
    if context.replay is not None:
        return files_of(context.replay)
    # Spark lists some names that begin with "_" (`_metadata.csv`, `_a=b.csv`) and then reads none of them.
    return {
        file.path: file.modified_ms
        for file in progress.batch_files(context.checkpoint, batch_id)
        if not Path(file.path).name.startswith("_")
    }


def files_of(replay: Reentry) -> dict[str, int]:
    """The files of a claim with the modification time that they have now: somebody may have mended them in place."""
    found: dict[str, int] = {}
    for entry in replay.entries:
        source = json.loads(entry["source"])
        try:
            modified_ms = Path(source["path"]).stat().st_mtime_ns // 1_000_000
        except OSError:
            modified_ms = int(source["modified_ms"])
        found[source["path"]] = modified_ms
    return found


def _skipped(context: FlowContext, fresh: dict[str, int]) -> dict[str, CheckedFile]:
    """Those that a person wants to be set aside unopened, by path; a replay of such an entry opens the file after all."""
    assert isinstance(context.flow.source, FileSource)
    if context.replay is not None:
        return {}
    folder = context.layout.landing(context.flow.source.path)
    wanted = intervention.skipped_files(context.layout, context.pipeline.name, context.flow.name)
    paths = {str(folder / file) for file in wanted} & fresh.keys()
    return {path: landing.unopened(path, fresh[path], intervention.RULE) for path in paths}


def _unread_messages(context: FlowContext, rows: DataFrame, known: topic.Noted | None) -> DataFrame:
    """Leave out messages that bronze holds of this very topic from an earlier checkpoint version or refresh."""
    from pyspark.sql import functions as F

    if _is_first(context) or not tables.exists(context.target):
        return rows
    ends = rows.agg(F.min("_offset"), F.max("_offset"), F.first("_topic")).first()
    assert ends is not None
    held = tables.read(rows.sparkSession, context.target).where(
        F.col("_offset").between(ends[0], ends[1]) & (F.col("_topic") == ends[2])
    )
    if known is not None:
        own = F.col("_topic_id") if "_topic_id" in held.columns else F.lit(None)
        held = held.where(F.coalesce(own, F.lit(known.unnamed)) == known.topic_id)
    fresh = rows.join(held.select("_partition", "_offset"), ["_partition", "_offset"], "left_anti").persist()
    context.persisted.append(fresh)
    return fresh.select(*rows.columns)


def _is_first(context: FlowContext) -> bool:
    """Whether the batch is of a stream before which nothing can have been read."""
    return (context.ref.version, context.ref.refresh, context.ref.purpose) == (1, 0, "")


def _unread(context: FlowContext, spark: SparkSession, listed: dict[str, int], batch_id: int) -> dict[str, int]:
    """Leave out files that bronze or its quarantine hold from an earlier checkpoint version or refresh.

    Within one checkpoint Spark's own source log sees to that, so the first one never pays for the look-up. A replay asks
    bronze alone: that its files are in quarantine is why it reads them.
    """
    from pyspark.sql import functions as F

    if context.replay is None and _is_first(context):
        return listed
    names = [f"{path}@{modified}" for path, modified in listed.items()]
    known = spark.createDataFrame([(name,) for name in names], "_file_id string")
    held: set[str] = set()
    if tables.exists(context.target):
        path = F.expr(f"substring(_path, {len('file://') + 1})")
        file_id = F.concat_ws("@", path, F.unix_millis("_modified_at").cast("string"))
        ids = tables.read(spark, context.target).select(file_id.alias("_file_id")).distinct()
        held |= {row["_file_id"] for row in ids.join(F.broadcast(known), "_file_id", "left_semi").collect()}
    if context.replay is None and tables.exists(context.quarantine):
        ours = tables.read(spark, context.quarantine).where(
            (F.col("level") == "file")
            # What this batch itself set aside before a crash is its own.
            & ~((F.col("_app_id") == context.app_id) & (F.col("_batch_id") == batch_id))
        )
        ids = ours.select(F.col("_row_id").alias("_file_id"))
        held |= {row["_file_id"] for row in ids.join(F.broadcast(known), "_file_id", "left_semi").collect()}
    return {path: modified for path, modified in listed.items() if f"{path}@{modified}" not in held}


def _as_decided(
    context: FlowContext, spark: SparkSession, batch_id: int, checked: list[CheckedFile]
) -> tuple[list[CheckedFile], list[CheckedFile]]:
    # By path: a file that is replayed may have another modification time than its entry.
    refused = {
        row["_row_id"].rpartition("@")[0]: row["rules"][0]
        for row in quarantine.held_ids(context, spark, batch_id).collect()
    }
    good = [file for file in checked if file.path not in refused]
    changed = [file.path for file in good if file.problem is not None]
    if changed:
        raise CheckpointCorruptError(
            f"flow {context.flow.name!r}: {', '.join(changed)} was readable when batch {batch_id} was decided and is not any "
            "more. Put the file back as it was (or take back that it is skipped), and run again.",
            path=str(context.checkpoint),
        )
    return good, [landing.with_problem(file, refused[file.path]) for file in checked if file.path in refused]
