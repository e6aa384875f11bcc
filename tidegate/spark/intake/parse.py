"""From raw bronze records to declared, typed fields by name: once, in silver.

Every field is first read as text and then cast on its own, so that a value that does not fit is known by its field.
A record that cannot be read is not dropped: it goes through the transform with NULLs and carries its reasons in
``_origin.broken``, and the micro-batch quarantines it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.schema.contract import Terms
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.spark.intake import messages
from tidegate.spark.intake.values import as_values, text_name
from tidegate.spec import FileSource, KafkaSource, ValueFormat

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from tidegate.schema.writers import WriterSchema


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """Records as typed rows, and what their writers said of them."""

    rows: DataFrame
    writers: Mapping[int, tuple[Column, ...]] = field(default_factory=dict)
    """The fields that a file's header or a registered schema lists, by ``_origin.writer``; a CSV header tells no types."""
    writers_tell_all: bool = True
    """Whether every record follows one of them. What JSON holds without a schema is seen in the rows alone."""


Lookup = Callable[[int], "WriterSchema | None"]
"""A writer's schema by the id that messages name; None where the registry knows of none."""


def parse(
    feed: DataFrame, source: FileSource | KafkaSource, terms: Terms | None = None, lookup: Lookup | None = None
) -> Parsed:
    """Parse bronze rows by their landing source's schema.

    Args:
        feed: Bronze rows, as `tidegate.spark.intake.landing` or the Kafka source made them.
        source: The landing source behind that bronze table.
        terms: Which values are rescued or left out; the source's own contract by default.
        lookup: Finds the schema that a message names; without it no message may name one.

    Returns:
        The declared fields, ``_rescued map<string,string>`` (fields that the schema does not know, and values that a
        contract rescues), ``_row_id`` and ``_origin`` (``at``: the coordinates that break ties, ``raw``: the record as
        text, ``source``: the coordinates as JSON, ``broken``: the rules that it breaks already, ``ingested_at``,
        ``writer``: whose schema it follows, ``unknown``: all fields that the schema does not know, ``rescued``: as
        ``_rescued``, ``filled`` and ``unfit``: `tidegate.spark.intake.values.MASK_BITS`). A Kafka record also has ``_key`` (text) and
        ``_timestamp``; its value NULL stays NULL in every field, for the transform to take as a delete.
    """
    columns = parse_ddl("schema", source.schema)
    chosen = terms if terms is not None else Terms(contract=source.contract)
    if isinstance(source, KafkaSource):
        schemas = messages.schemas_named(feed, source.format, lookup) if lookup is not None else {}
        texts = _json_texts(_kafka_records(feed, source.format, schemas), columns)
        rows = as_values(texts, columns, ("",), chosen, extra=("_key", "_timestamp"), formats=source.formats)
        writers = messages.fields_of(schemas)
        return Parsed(rows=rows, writers=writers, writers_tell_all=source.format == "avro")
    records, headers = _file_records(feed), _headers(feed) if source.format != "json" else {}
    if source.format == "csv":
        writers = {writer: _csv_fields(header) for writer, header in headers.items()}
        texts = _csv_texts(records, headers, columns)
        usable = {writer: fields for writer, fields in writers.items() if _header_problem(fields, columns) is None}
        rows = as_values(texts, columns, source.null_values, chosen, formats=source.formats)
        return Parsed(rows=rows, writers=usable)
    typed = {writer: tuple(Column(*pair) for pair in json.loads(header)) for writer, header in headers.items()}
    texts = _json_texts(records, columns)
    rows = as_values(texts, columns, source.null_values, chosen, formats=source.formats)
    return Parsed(rows=rows, writers=typed, writers_tell_all=source.format != "json")


def _headers(feed: DataFrame) -> dict[int, str]:
    """The distinct headers of a batch: one small query over a dictionary-encoded column."""
    from pyspark.sql import functions as F

    found = feed.select("_header", F.xxhash64("_header").alias("writer")).distinct().collect()
    return {row["writer"]: row["_header"] for row in sorted(found, key=lambda row: row["_header"])}


def _file_records(feed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    at = F.struct(F.col("_modified_at"), F.col("_path"), F.col("_line_number"))
    told = F.to_json(
        F.struct(
            F.col("_path").alias("path"),
            F.col("_line_number").alias("line"),
            F.col("_modified_at").alias("modified_at"),
        )
    )
    writer = F.when(F.col("_header").isNotNull(), F.xxhash64("_header"))
    return feed.select(
        "_row_id",
        writer.alias("_writer"),
        F.col("line").alias("_raw"),
        at.alias("_at"),
        told.alias("_told"),
        "_ingested_at",
    )


def _kafka_records(feed: DataFrame, kind: ValueFormat, schemas: Mapping[int, WriterSchema]) -> DataFrame:
    from pyspark.sql import functions as F

    at = F.struct(F.col("_timestamp"), F.col("_partition"), F.col("_offset"))
    told = F.to_json(
        F.struct(
            F.col("_topic").alias("topic"), F.col("_partition").alias("partition"), F.col("_offset").alias("offset")
        )
    )
    text, problem = messages.as_text(kind, schemas)
    read = feed.withColumn("_text", text).withColumn("_problem", problem)
    return read.select(
        "_row_id",
        messages.writer_id().alias("_writer"),
        F.coalesce("_text", F.base64("value")).alias("_raw"),
        at.alias("_at"),
        told.alias("_told"),
        "_ingested_at",
        F.make_valid_utf8(F.col("key").cast("string")).alias("_key"),
        "_timestamp",
        "_problem",
    )


def _json_texts(records: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Add a text per declared field (`tidegate.spark.intake.values.text_name`), ``_unknown map<string,string>`` and ``_malformed``."""
    from pyspark.sql import functions as F

    texts = records.withColumn("_texts", F.from_json("_raw", "map<string,string>", {"mode": "PERMISSIVE"}))
    declared = [F.lit(column.name) for column in columns]
    malformed = F.when(F.col("_raw").isNotNull() & F.col("_texts").isNull(), F.lit("malformed_json"))
    if "_problem" in records.columns:
        malformed = F.coalesce("_problem", malformed)
    return texts.select(
        *[name for name in records.columns if name != "_problem"],
        *[F.col("_texts").getItem(column.name).alias(text_name(column)) for column in columns],
        F.map_filter("_texts", lambda name, text: ~name.isin(*declared) & text.isNotNull()).alias("_unknown"),
        malformed.alias("_malformed"),
    )


def _csv_texts(records: DataFrame, headers: Mapping[int, str], columns: Sequence[Column]) -> DataFrame:
    """The same for CSV, by each distinct header of the batch on its own.

    One ``from_csv`` needs one schema, and files may order, lack or add columns; so the batch is split by header.
    """
    from pyspark.sql import functions as F

    parts = []
    for writer, header in headers.items() or {0: ""}.items():
        part = records if len(headers) < 2 else records.where(F.col("_writer") == writer)
        parts.append(_csv_part(part, _csv_fields(header), columns))
    texts = parts[0]
    for part in parts[1:]:
        texts = texts.unionByName(part)
    return texts


def _csv_fields(header: str) -> tuple[Column, ...]:
    return tuple(Column(name.strip(), "") for name in next(csv.reader([header]), []))


def _header_problem(fields: Sequence[Column], columns: Sequence[Column]) -> str | None:
    names = [column.name for column in fields]
    if not {column.name for column in columns} & set(names):
        return "unknown_header"
    return "repeated_header" if len(set(names)) != len(names) else None


def _csv_part(records: DataFrame, fields: Sequence[Column], columns: Sequence[Column]) -> DataFrame:
    from pyspark.sql import functions as F

    names, declared = [column.name for column in fields], {column.name for column in columns}
    no_text, no_map = F.lit(None).cast("string"), F.lit(None).cast("map<string,string>")
    if (problem := _header_problem(fields, columns)) is not None:
        nothing = [no_text.alias(text_name(column)) for column in columns]
        return records.select("*", *nothing, no_map.alias("_unknown"), F.lit(problem).alias("_malformed"))
    cells = ", ".join([f"`_{position}` STRING" for position in range(len(names))] + ["`_corrupt` STRING"])
    # A quote within quotes is doubled (RFC 4180), as in the header; Spark's own default is a backslash before it.
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "escape": '"'}
    parsed = F.from_csv("_raw", cells, options)
    place = {name: F.col(f"_cells._{position}") for position, name in enumerate(names)}
    pairs = [part for name, cell in place.items() if name not in declared for part in (F.lit(name), cell)]
    unknown = F.map_filter(F.create_map(*pairs), lambda _, text: text.isNotNull()) if pairs else no_map
    return records.withColumn("_cells", parsed).select(
        *records.columns,
        *[place.get(column.name, no_text).alias(text_name(column)) for column in columns],
        unknown.alias("_unknown"),
        F.when(F.col("_cells._corrupt").isNotNull(), F.lit("malformed_line")).alias("_malformed"),
    )


def keyed_feed(feed: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Changes of a keyed table as the rows that a transform takes: the last per key and version, deletes marked.

    Within one version a delete comes before an insert of the same key, so that the pair is an update.

    Args:
        feed: The change feed without pre-images.
        keys: Of the table that made the feed.

    Returns:
        The table's own columns, ``_row_id``, ``_origin`` and ``_deleted``.
    """
    from pyspark.sql import functions as F

    rank = F.when(F.col("_change_type") == "delete", F.lit(0)).otherwise(F.lit(1))
    own = [name for name in feed.columns if not name.startswith("_")]
    deleted = F.col("_change_type") == "delete"
    if "_deleted" in feed.columns:
        deleted = deleted | F.coalesce(F.col("_deleted"), F.lit(False))
    origin = F.struct(
        F.struct(F.col("_commit_version"), rank.alias("_rank")).alias("at"),
        F.to_json(F.struct(*own)).alias("raw"),
        F.to_json(F.struct(F.col("_commit_version").alias("version"), *[F.col(key) for key in keys])).alias("source"),
        F.array().cast("array<string>").alias("broken"),
        F.col("_commit_timestamp").alias("ingested_at"),
    )
    return feed.select(change_id(keys).alias("_row_id"), origin.alias("_origin"), deleted.alias("_deleted"), *own)


def change_id(keys: tuple[str, ...]) -> SparkColumn:
    """The ``_row_id`` of one change of a keyed table."""
    from pyspark.sql import functions as F

    parts = [*(F.col(key) for key in keys), F.col("_commit_version"), F.col("_change_type")]
    return F.concat_ws("|", *[part.cast("string") for part in parts])
