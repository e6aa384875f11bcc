"""From raw bronze records to declared, typed fields by name: once, in silver.

Every field is first read as text and then cast on its own, so that a value that does not fit is known by its field.
A record that cannot be read is not dropped: it goes through the transform with NULLs and carries its reasons in
``_origin.broken``, and the micro-batch quarantines it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.schema.contract import Terms
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.schema.drift import normal
from tidegate.spark.intake import messages
from tidegate.spark.intake.texts import Field, dialect_of, header_names, header_problem, json_reader
from tidegate.spark.intake.values import as_values, text_name
from tidegate.spec import FileSource, KafkaSource, ValueFormat

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, Row

    from tidegate.schema.writers import WriterSchema

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Of the types of whole numbers."""


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """Records as typed rows, and what their writers said of them."""

    rows: DataFrame
    writers: Mapping[int, tuple[Column, ...]] = field(default_factory=dict)
    """The fields that registered schemas list, by ``_origin.writer``. Those of files' headers: `writers_in`."""
    writers_tell_all: bool = True
    """Whether every record follows one of them. What JSON holds without a schema is seen in the rows alone."""


_HEADERS = "_headers"
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
        texts = _texts(_kafka_records(feed, source.format, schemas), source, columns, ("",))
        rows = as_values(texts, columns, ("",), chosen, extra=("_key", "_timestamp"), formats=source.formats)
        writers = messages.fields_of(schemas)
        return Parsed(rows=rows, writers=writers, writers_tell_all=source.format == "avro")
    records = _file_records(feed)
    texts = _texts(records, source, columns, source.null_values)
    rows = as_values(texts, columns, source.null_values, chosen, formats=source.formats)
    return Parsed(rows=rows, writers_tell_all=source.format != "json")


def header_measure(feed: DataFrame, source: FileSource | KafkaSource) -> list[SparkColumn]:
    """The aggregate by which `writers_in` knows the headers of a batch of bronze rows; none where files have no header."""
    from pyspark.sql import functions as F

    if isinstance(source, KafkaSource) or source.format == "json":
        return []
    known = F.struct(F.col("_header").alias("header"), _dialect(feed).alias("dialect"), _writer(feed).alias("writer"))
    return [F.collect_set(known).alias(_HEADERS)]


def writers_in(measured: Row, source: FileSource | KafkaSource) -> dict[int, tuple[Column, ...]]:
    """The fields that each header of a batch lists, by ``_origin.writer``; a CSV header tells no types.

    Args:
        measured: What `header_measure` found.
        source: The landing source.
    """
    if _HEADERS not in measured:
        return {}
    found = sorted(measured[_HEADERS], key=lambda each: (each["header"] or "", each["dialect"] or ""))
    if source.format != "csv":
        return {each["writer"]: tuple(Column(*pair) for pair in json.loads(each["header"])) for each in found}
    names = {column.name for column in parse_ddl("schema", source.schema)}
    headers = [(each["writer"], each["header"] or "", dialect_of(each["dialect"])) for each in found]
    return {
        writer: tuple(Column(name, "") for name in header_names(header, dialect))
        for writer, header, dialect in headers
        if header_problem(header, dialect, names) is None
    }


def _dialect(feed: DataFrame) -> SparkColumn:
    """Of a record's file; NULL in tables from before it was kept."""
    from pyspark.sql import functions as F

    return F.col("_dialect") if "_dialect" in feed.columns else F.lit(None).cast("string")


def _writer(feed: DataFrame) -> SparkColumn:
    """Whose fields a record has: a number by header and dialect; NULL where its file has no header."""
    from pyspark.sql import functions as F

    return F.when(F.col("_header").isNotNull(), F.xxhash64("_header", _dialect(feed)))


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
    return feed.select(
        "_row_id",
        _writer(feed).alias("_writer"),
        "_header",
        _dialect(feed).alias("_dialect"),
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


def _texts(
    records: DataFrame, source: FileSource | KafkaSource, columns: Sequence[Column], null_values: tuple[str, ...]
) -> DataFrame:
    """Add a text per declared field (`tidegate.spark.intake.values.text_name`), ``_unknown map<string,string>`` and ``_malformed``.

    Each record is read once, by `tidegate.spark.intake.texts` in the executors' Python.
    """
    import pyarrow as pa
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.functions import arrow_udf

    from tidegate.spark.intake.batches import CsvTexts, of_each

    fields = [
        Field(name=column.name, is_text=column.is_text, bits=_BITS.get(normal(column.type), 0)) for column in columns
    ]
    is_csv = source.format == "csv"

    def read(raw: pa.Array, header: pa.Array, dialect: pa.Array) -> pa.Array:
        if is_csv:
            return CsvTexts(fields, null_values)(raw, header, dialect)
        return of_each(raw, header, dialect, json_reader(fields, null_values), len(fields))

    kinds = [*["string"] * len(fields), "map<string,string>", "string"]
    schema = ", ".join(f"_{place}: {kind}" for place, kind in enumerate(kinds))
    file = [F.col(name) if name in records.columns else F.lit(None).cast("string") for name in ("_header", "_dialect")]
    # Spark learns from them that columns come as arrays.
    read.__annotations__ = dict.fromkeys(("raw", "header", "dialect", "return"), pa.Array)
    read_all = arrow_udf(read, f"struct<{schema}>")  # type: ignore[call-overload]  # its stubs lack this form
    found = records.withColumn("_texts", read_all("_raw", *file))
    malformed = F.col(f"_texts._{len(fields) + 1}")
    if "_problem" in records.columns:
        malformed = F.coalesce("_problem", malformed)
    envelope = [name for name in records.columns if name not in ("_problem", "_header", "_dialect")]
    return found.select(
        *envelope,
        *[F.col(f"_texts._{place}").alias(text_name(column)) for place, column in enumerate(columns)],
        F.col(f"_texts._{len(fields)}").alias("_unknown"),
        malformed.alias("_malformed"),
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
