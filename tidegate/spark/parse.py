"""From raw bronze records to declared, typed fields by name: once, in silver.

Every field is first read as text and then cast on its own, so that a value that does not fit is known by its field.
A record that cannot be read is not dropped: it goes through the transform with NULLs and carries its reasons in
``_origin.broken``, and the micro-batch quarantines it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.ddl import Column, parse_ddl
from tidegate.spec import FileSource, KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame


def parse(feed: DataFrame, source: FileSource | KafkaSource) -> DataFrame:
    """Parse bronze rows by their landing source's schema.

    Args:
        feed: Bronze rows, as `tidegate.spark.landing` or the Kafka source made them.
        source: The landing source behind that bronze table.

    Returns:
        The declared fields, ``_rescued map<string,string>`` (fields that the schema does not know), ``_row_id`` and
        ``_origin`` (``at``: the coordinates that break ties, ``raw``: the record as text, ``source``: the coordinates
        as JSON, ``broken``: the rules that it breaks already, ``ingested_at``). A Kafka record also has ``_key``
        (text) and ``_timestamp``; its value NULL stays NULL in every field, for the transform to take as a delete.
    """
    columns = parse_ddl("schema", source.schema)
    if isinstance(source, KafkaSource):
        return _typed(_json_texts(_kafka_records(feed), columns), columns, ("",), extra=("_key", "_timestamp"))
    records = _file_records(feed)
    texts = _csv_texts(records, columns) if source.format == "csv" else _json_texts(records, columns)
    return _typed(texts, columns, source.null_values)


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
        "_row_id", "_header", F.col("line").alias("_raw"), at.alias("_at"), told.alias("_told"), "_ingested_at"
    )


def _kafka_records(feed: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    at = F.struct(F.col("_timestamp"), F.col("_partition"), F.col("_offset"))
    told = F.to_json(
        F.struct(
            F.col("_topic").alias("topic"), F.col("_partition").alias("partition"), F.col("_offset").alias("offset")
        )
    )
    raw = F.when(F.is_valid_utf8(F.col("value").cast("string")), F.col("value").cast("string")).otherwise(
        F.base64("value")
    )
    return feed.select(
        "_row_id",
        raw.alias("_raw"),
        at.alias("_at"),
        told.alias("_told"),
        "_ingested_at",
        F.make_valid_utf8(F.col("key").cast("string")).alias("_key"),
        "_timestamp",
    )


def _json_texts(records: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Add a text per declared field (`_text`), ``_unknown map<string,string>`` and ``_malformed``."""
    from pyspark.sql import functions as F

    texts = records.withColumn("_texts", F.from_json("_raw", "map<string,string>", {"mode": "PERMISSIVE"}))
    declared = [F.lit(column.name) for column in columns]
    return texts.select(
        *records.columns,
        *[F.col("_texts").getItem(column.name).alias(_text(column)) for column in columns],
        F.map_filter("_texts", lambda name, text: ~name.isin(*declared) & text.isNotNull()).alias("_unknown"),
        F.when(F.col("_raw").isNotNull() & F.col("_texts").isNull(), F.lit("malformed_json")).alias("_malformed"),
    )


def _csv_texts(records: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The same for CSV, by each distinct header of the batch on its own.

    One ``from_csv`` needs one schema, and files may order, lack or add columns; so the batch is split by header,
    which costs one small query over a dictionary-encoded column.
    """
    from pyspark.sql import functions as F

    headers = sorted(row["_header"] for row in records.select("_header").distinct().collect())
    parts = []
    for header in headers or [""]:
        part = records if len(headers) < 2 else records.where(F.col("_header") == header)
        parts.append(_csv_part(part, header, columns))
    texts = parts[0]
    for part in parts[1:]:
        texts = texts.unionByName(part)
    return texts


def _csv_part(records: DataFrame, header: str, columns: Sequence[Column]) -> DataFrame:
    from pyspark.sql import functions as F

    names = [name.strip() for name in next(csv.reader([header]), [])]
    declared = {column.name for column in columns}
    no_text, no_map = F.lit(None).cast("string"), F.lit(None).cast("map<string,string>")
    if not declared & set(names) or len(set(names)) != len(names):
        problem = "repeated_header" if declared & set(names) else "unknown_header"
        nothing = [no_text.alias(_text(column)) for column in columns]
        return records.select("*", *nothing, no_map.alias("_unknown"), F.lit(problem).alias("_malformed"))
    fields = ", ".join([f"`_{position}` STRING" for position in range(len(names))] + ["`_corrupt` STRING"])
    parsed = F.from_csv("_raw", fields, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"})
    place = {name: F.col(f"_cells._{position}") for position, name in enumerate(names)}
    pairs = [part for name, cell in place.items() if name not in declared for part in (F.lit(name), cell)]
    unknown = F.map_filter(F.create_map(*pairs), lambda _, text: text.isNotNull()) if pairs else no_map
    return records.withColumn("_cells", parsed).select(
        *records.columns,
        *[place.get(column.name, no_text).alias(_text(column)) for column in columns],
        unknown.alias("_unknown"),
        F.when(F.col("_cells._corrupt").isNotNull(), F.lit("malformed_line")).alias("_malformed"),
    )


def _typed(
    texts: DataFrame, columns: Sequence[Column], null_values: tuple[str, ...], extra: tuple[str, ...] = ()
) -> DataFrame:
    """Cast each text on its own, then say which fields broke: three projections, so that no cast is done twice."""
    from pyspark.sql import functions as F

    def meant(column: Column) -> SparkColumn:
        text = F.col(_text(column))
        return F.when(F.col("_malformed").isNull() & ~text.isin(*null_values), text).alias(_text(column))

    envelope = ["_row_id", "_at", "_raw", "_told", "_ingested_at", "_malformed", *extra]
    kept = texts.select(*envelope, "_unknown", *[meant(column) for column in columns])
    values = [_cast(F.col(_text(column)), column.type).alias(column.name) for column in columns]
    typed = kept.select("*", *values)
    fine = F.col("_malformed").isNull()
    broken = [F.col("_malformed")]
    for column in columns:
        text, value = F.col(_text(column)), F.col(column.name)
        if column.type.lower() != "string":
            broken.append(F.when(text.isNotNull() & value.isNull(), F.lit(f"wrong_type({column.name})")))
        if column.required:
            missing = fine & F.col("_raw").isNotNull() & text.isNull()
            broken.append(F.when(missing, F.lit(f"required({column.name})")))
    origin = F.struct(
        F.col("_at").alias("at"),
        F.col("_raw").alias("raw"),
        F.col("_told").alias("source"),
        F.array_compact(F.array(*broken)).alias("broken"),
        F.col("_ingested_at").alias("ingested_at"),
    )
    rescued = F.when(fine & (F.size("_unknown") > 0), F.col("_unknown"))
    names = [column.name for column in columns]
    return typed.select("_row_id", origin.alias("_origin"), *names, rescued.alias("_rescued"), *extra)


def _text(column: Column) -> str:
    return f"_text_{column.name}"


def _cast(text: SparkColumn, kind: str) -> SparkColumn:
    from pyspark.sql import functions as F

    plain = kind.strip().lower()
    if plain == "string":
        return text
    if plain.startswith(("struct", "array", "map")):
        return F.from_json(text, kind)
    return F.trim(text).try_cast(kind)


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
