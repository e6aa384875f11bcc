"""Rows of the bronze table of a topic: messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from tidegate.spark.intake import messages
from tidegate.spark.intake.bronze import Bronze, Lookup, Records, arrival

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from tidegate.spec import KafkaSource
    from tidegate.store import Address


def _records(feed: DataFrame, source: KafkaSource, lookup: Lookup | None) -> Records:
    at = F.struct(F.col("_timestamp"), F.col("_partition"), F.col("_offset"))
    coordinates = F.struct(
        F.col("_topic").alias("topic"), F.col("_partition").alias("partition"), F.col("_offset").alias("offset")
    )
    schemas = messages.referenced_schemas(feed, source.format, lookup) if lookup is not None else {}
    text, problem = messages.as_text(source.format, schemas)
    read = feed.withColumn("_text", text).withColumn("_problem", problem)
    rows = read.select(
        "_row_id",
        messages.schema_id().alias("_writer"),
        F.coalesce("_text", F.base64("value")).alias("_raw"),
        at.alias("_at"),
        coordinates.alias("_source"),
        "_ingested_at",
        arrival(feed).alias("_arrival"),
        F.make_valid_utf8(F.col("key").cast("string")).alias("_key"),
        "_timestamp",
        "_problem",
    )
    writers = messages.fields_of(schemas, source.changes)
    return Records(rows=rows, writers=writers, writers_cover_all=source.format == "avro")


def _skipping(sources: Sequence[Mapping[str, Any]]) -> SparkColumn:
    offsets = [source["offset"] for source in sources]
    return F.col("_offset").between(min(offsets), max(offsets)) if offsets else F.lit(False)


def _place(source: Mapping[str, Any], _landing_zone: Address) -> str:
    return f"topic {source['topic']} partition {source['partition']} offset {source['offset']}"


BRONZE = Bronze(
    columns=("_key", "_timestamp"),
    records=_records,
    needs_registry=lambda source: source.format == "avro",
    skipping=_skipping,
    place=_place,
)
