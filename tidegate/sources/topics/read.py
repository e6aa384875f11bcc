"""Rows of the bronze table of a topic: messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.spark.intake import messages
from tidegate.spark.intake.bronze import Bronze, Lookup, Records, arrival

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from tidegate.spec import KafkaSource
    from tidegate.store import Address


def _records(feed: DataFrame, source: KafkaSource, lookup: Lookup | None) -> Records:
    at = F.struct(*map(F.col, (hidden.TIMESTAMP, hidden.PARTITION, hidden.OFFSET, hidden.TOPIC)))
    coordinates = F.struct(
        F.col(hidden.TOPIC).alias("topic"),
        F.col(hidden.PARTITION).alias("partition"),
        F.col(hidden.OFFSET).alias("offset"),
    )
    schemas = messages.referenced_schemas(feed, source.format, lookup) if lookup is not None else {}
    text, problem = messages.as_text(source.format, schemas)
    parts = {name: messages.metadata_text(part) for name, part in source.metadata.items()}
    names = {name: f"_outside_{name}" for name in parts}
    outside = [text.alias(names[name]) for name, (text, _) in parts.items()]
    read = feed.withColumn(hidden.TEXT, text).withColumn(hidden.PROBLEM, problem)
    if any(part == "key" or part.startswith("key.") for part in source.metadata.values()):
        read = messages.with_key_text(read, source.format, lookup)
    rows = read.select(
        hidden.ROW_ID,
        messages.schema_id().alias(hidden.WRITER),
        F.coalesce(hidden.TEXT, F.base64("value")).alias(hidden.RAW),
        at.alias(hidden.AT),
        coordinates.alias(hidden.SOURCE),
        hidden.INGESTED_AT,
        arrival(feed).alias(hidden.ARRIVAL),
        F.make_valid_utf8(F.col("key").cast("string")).alias(hidden.KEY),
        hidden.TIMESTAMP,
        F.coalesce(hidden.PROBLEM, *(problem for _, problem in parts.values())).alias(hidden.PROBLEM),
        *outside,
    )
    writers = messages.fields_of(schemas, source.changes, names, source.names)
    return Records(rows=rows, metadata=names, writers=writers, writers_cover_all=source.format == "avro")


def _skipping(sources: Sequence[Mapping[str, Any]]) -> SparkColumn:
    offsets = [source["offset"] for source in sources]
    return F.col(hidden.OFFSET).between(min(offsets), max(offsets)) if offsets else F.lit(False)


def _place(source: Mapping[str, Any], _landing_zone: Address) -> str:
    return f"topic {source['topic']} partition {source['partition']} offset {source['offset']}"


BRONZE = Bronze(
    columns=(hidden.KEY, hidden.TIMESTAMP),
    records=_records,
    needs_registry=lambda source: source.format == "avro",
    skipping=_skipping,
    place=_place,
)
