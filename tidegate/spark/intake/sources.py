"""The stream of each kind of source, bounded and loud."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint, progress
from tidegate.probes import files
from tidegate.spark.intake import bounds
from tidegate.spark.intake.landing import glob_escaped
from tidegate.spark.lake import tables
from tidegate.spec import ChangeFeed, FileSource, KafkaSource
from tidegate.spec.sources import MAX_FILE_AGE_DAYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext

_FOUND = "path string, modificationTime timestamp, length bigint, content binary"


def read_stream(context: FlowContext) -> DataFrame:
    """The flow's source as a stream that stops when it has read what is there now.

    Args:
        context: The flow.

    Returns:
        Files: ``path, length, modificationTime`` of what arrived, never content. Kafka: the connector's columns with
        headers. A change feed: the table's columns, ``_change_type``, ``_commit_version``, ``_commit_timestamp``.
    """
    source = context.flow.source
    if isinstance(source, FileSource):
        return _files(context, source)
    if isinstance(source, KafkaSource):
        return _kafka(context, source)
    return _change_feed(context, source)


def _files(context: FlowContext, source: FileSource) -> DataFrame:
    return (
        context.spark.readStream.format("binaryFile")
        .schema(_FOUND)
        .option("pathGlobFilter", source.glob)
        .option("recursiveFileLookup", "true")
        # After the first batch, a file older than the newest by more than this is skipped in silence (default 7 days).
        .option("maxFileAge", f"{MAX_FILE_AGE_DAYS}d")
        .option(*_bound(context, source))
        .load(glob_escaped(str(context.layout.landing(source.path))))
        .select("path", "length", "modificationTime")
    )


def _bound(context: FlowContext, source: FileSource) -> tuple[str, int]:
    """Spark's option that bounds a micro-batch of the files that are pending now."""
    known = {file.path for file in progress.source_files(context.checkpoint)}
    landed = files.list_files(context.layout.landing(source.path), source.glob).files
    pending = sorted((file.modified_ms, file.size) for file in landed if file.path not in known)
    most_bytes = bounds.bytes_of(source.max_bytes_per_trigger)
    return bounds.of_files([size for _, size in pending], source.max_files_per_trigger, most_bytes)


def _kafka(context: FlowContext, source: KafkaSource) -> DataFrame:
    return (
        context.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", context.kafka)
        .option("subscribe", source.topic)
        .option("kafka.isolation.level", source.isolation)
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", source.max_offsets_per_trigger)
        .option("startingOffsets", _starting_offsets(context, source))
        .load()
    )


def _starting_offsets(context: FlowContext, source: KafkaSource) -> str:
    """Where a new checkpoint begins: behind what bronze holds, so that a version bump does not duplicate.

    Spark uses it for the very first batch only; a partition that bronze does not know is read from its beginning
    (-2, the connector's "earliest").
    """
    from pyspark.sql import functions as F

    if not tables.exists(context.target):
        return "earliest"
    bronze = tables.read(context.spark, context.target).where(F.col("_topic") == source.topic)
    held = {
        row["_partition"]: row["next"]
        for row in bronze.groupBy("_partition").agg((F.max("_offset") + 1).alias("next")).collect()
    }
    if not held:
        return "earliest"
    if checkpoint.opened(context.layout, context.ref).get("mode") == "reingest":
        return "earliest"
    from tidegate.probes.kafka import end_offsets

    partitions = end_offsets(context.kafka, source.topic)
    return json.dumps({source.topic: {str(partition): held.get(partition, -2) for partition in partitions}})


def _change_feed(context: FlowContext, source: ChangeFeed) -> DataFrame:
    return (
        context.spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("maxFilesPerTrigger", source.max_files_per_trigger)
        .option("maxBytesPerTrigger", source.max_bytes_per_trigger)
        .load(str(context.layout.table(source.table)))
    )
