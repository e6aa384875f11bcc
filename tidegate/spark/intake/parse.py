"""Parses raw bronze records into declared, typed fields by name, on the way to silver.

Every field is read as text first and then cast on its own, so that a misfit can be attributed to its field. An unreadable
record is not dropped: it passes through the transform with NULL fields and the broken rules in ``_origin.broken``, and the
micro-batch quarantines it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from tidegate import hidden
from tidegate.formats import envelopes
from tidegate.formats.raw_fields import Field, json_reader
from tidegate.schema.changes import normal
from tidegate.schema.contract import Terms
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.spark.intake import bronze, change_records
from tidegate.spark.intake.bronze import Lookup, Records
from tidegate.spark.intake.typed_values import cast_fields, text_column

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from tidegate.spec import LandingSource


_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Size of each integer type."""


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """Records as typed rows, and the schemas of their writers."""

    rows: DataFrame
    writers: Mapping[int, tuple[Column, ...]] = field(default_factory=dict)
    """The fields of registered schemas, by ``_origin.writer``. Those of file headers: `bronze.Bronze.writers_in`."""
    writers_cover_all: bool = True
    """Whether every record has a writer's schema. Fields of JSON without a schema are only known from the rows."""


def parse(feed: DataFrame, source: LandingSource, terms: Terms | None = None, lookup: Lookup | None = None) -> Parsed:
    """Parse bronze rows by their landing source's schema.

    Args:
        feed: Bronze rows, from `tidegate.spark.intake.landing` or the Kafka source.
        terms: Which values are rescued or discarded; the source's contract by default.
        lookup: Looks up the schema of a message by its id; without it schema ids are not resolved.

    Returns:
        The declared fields, ``_rescued map<string,string>`` (undeclared fields, and values that the contract rescues),
        ``_row_id`` and ``_origin``. The fields of ``_origin``: ``at`` (the position that orders records), ``raw`` (the record
        as text), ``source`` (path and line, or topic, partition and offset), ``broken`` (rules broken so far),
        ``ingested_at``, ``arrival`` (`tidegate.spark.intake.bronze.arrival`), ``writer`` (id of the writer's schema),
        ``unknown`` (all undeclared fields), ``rescued`` (as
        ``_rescued``), ``filled`` and ``unfit`` (masks: `tidegate.spark.intake.typed_values.MASK_BITS`). Each kind of source adds
        columns (`tidegate.spark.intake.bronze.Bronze.columns`). A NULL value gives NULL fields, and the rule
        ``no_value`` is broken unless the transform deletes or filters the row. Change records also have ``_deleted``, and in
        ``_origin`` the same as ``deletes``, and ``filters``: the rule that filters the record, or NULL.
    """
    columns = parse_ddl("schema", source.schema)
    terms = terms if terms is not None else Terms(contract=source.contract)
    kind = bronze.load(source)
    records = kind.records(feed, source, lookup)
    texts = _split_fields(records, source, columns, terms)
    rows = cast_fields(
        texts,
        columns,
        records.null_values,
        terms,
        kind.columns,
        source.formats,
        source.changes,
        records.metadata.keys(),
        source.names,
    )
    return Parsed(rows=rows, writers=records.writers, writers_cover_all=records.writers_cover_all)


def _split_fields(records: Records, source: LandingSource, columns: Sequence[Column], terms: Terms) -> DataFrame:
    """Add one text per declared field (named by `text_column`), ``_unknown map<string,string>`` and ``_malformed``.

    Of change records also what `tidegate.formats.change_records.with_changes` adds.

    Each record is split once, by `tidegate.formats.raw_fields` in the executors' Python.
    """
    from tidegate.formats.arrow_fields import CsvFields, read_each

    fields = [
        Field(name=column.name, is_text=column.is_text, bits=_BITS.get(normal(column.type), 0)) for column in columns
    ]
    changes, envelope = source.changes, None
    if changes is not None and changes.has_envelope:
        envelope = envelopes.Envelope(changes, [column.name for column in columns], terms.becomes_column, source.names)

    # The function is sent to the executors, which must not get the rows with it.
    rows, is_csv, null_values, names = records.rows, records.is_csv, records.null_values, source.names

    def read(raw: pa.Array, header: pa.Array, dialect: pa.Array) -> pa.Array:
        if is_csv:
            return CsvFields(fields, null_values, names)(raw, header, dialect)
        return read_each(raw, header, dialect, json_reader(fields, null_values, envelope, names), len(fields))

    kinds = [*["string"] * len(fields), "map<string,string>", "string"]
    schema = ", ".join(f"_{index}: {kind}" for index, kind in enumerate(kinds))
    file = [
        F.col(name) if name in rows.columns else F.lit(None).cast("string") for name in (hidden.HEADER, hidden.DIALECT)
    ]
    # arrow_udf infers from the annotations that the columns are Arrow arrays.
    read.__annotations__ = dict.fromkeys(("raw", "header", "dialect", "return"), pa.Array)
    split = arrow_udf(read, f"struct<{schema}>")  # type: ignore[call-overload]  # its stubs lack this form
    texts = rows.withColumn("_texts", split(hidden.RAW, *file))
    malformed = F.col(f"_texts._{len(fields) + 1}")
    if hidden.PROBLEM in rows.columns:
        malformed = F.coalesce(hidden.PROBLEM, malformed)
    not_kept = (hidden.PROBLEM, hidden.HEADER, hidden.DIALECT, *records.metadata.values())
    metadata = [name for name in rows.columns if name not in not_kept]
    of_field = {column.name: F.col(f"_texts._{index}") for index, column in enumerate(columns)}
    for name, outside in records.metadata.items():
        repeats = of_field[name].isNotNull() & ~of_field[name].eqNullSafe(F.col(outside))
        malformed = F.coalesce(malformed, F.when(repeats, F.lit(f"repeated_field({name})")))
        of_field[name] = F.col(outside)
    split_records = texts.select(
        *metadata,
        *[of_field[column.name].alias(text_column(column)) for column in columns],
        F.col(f"_texts._{len(fields)}").alias(hidden.UNKNOWN),
        malformed.alias(hidden.MALFORMED),
    )
    if changes is None:
        return split_records
    operation = next((text_column(column) for column in columns if column.name == changes.operation), None)
    return change_records.with_changes(split_records, changes, operation)


def keyed_feed(feed: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Turn the change feed of a keyed table into input rows of a transform, with deletes marked.

    ``_origin.at`` orders changes by version; within one version a delete comes before an insert of the same key, so that the
    pair is an update.

    Args:
        feed: The change feed without pre-images.

    Returns:
        The table's data columns, ``_row_id``, ``_origin`` and ``_deleted``.
    """
    rank = F.when(F.col(hidden.CHANGE_TYPE) == "delete", F.lit(0)).otherwise(F.lit(1))
    data = [name for name in feed.columns if not name.startswith("_")]
    deleted = F.col(hidden.CHANGE_TYPE) == "delete"
    if hidden.DELETED in feed.columns:
        deleted = deleted | F.coalesce(F.col(hidden.DELETED), F.lit(False))
    origin = F.struct(
        F.struct(F.col(hidden.COMMIT_VERSION), rank.alias(hidden.RANK)).alias("at"),
        F.to_json(F.struct(*data)).alias("raw"),
        F.struct(F.col(hidden.COMMIT_VERSION).alias("version"), *[F.col(key) for key in keys]).alias("source"),
        F.array().cast("array<string>").alias("broken"),
        F.col(hidden.COMMIT_TIMESTAMP).alias("ingested_at"),
    )
    # Rows that were found by the ids of their changes have them: the table may have a column `_row_id` of its own.
    row_id = F.col(hidden.CHANGE_ID) if hidden.CHANGE_ID in feed.columns else change_id(keys)
    return feed.select(row_id.alias(hidden.ROW_ID), origin.alias(hidden.ORIGIN), deleted.alias(hidden.DELETED), *data)


def of_changes(
    feed: DataFrame, keys: tuple[str, ...], ids: DataFrame, how: Literal["left_semi", "left_anti"]
) -> DataFrame:
    """The rows of a change feed whose `change_id` is, or is not, among the ``_row_id`` of ``ids``; with it as ``_change_id``."""
    named = ids.withColumnRenamed(hidden.ROW_ID, hidden.CHANGE_ID)
    return feed.withColumn(hidden.CHANGE_ID, change_id(keys)).join(named, hidden.CHANGE_ID, how)


def changed_key() -> SparkColumn:
    """The part of a `change_id` that does not depend on when the change was read: the key of the source row."""
    return F.regexp_replace(hidden.ROW_ID, r"\|[0-9]+\|(insert|update_postimage|delete)$", "")


def changed_version() -> SparkColumn:
    """The commit version in a `change_id`."""
    return F.regexp_extract(hidden.ROW_ID, r"\|([0-9]+)\|(insert|update_postimage|delete)$", 1).try_cast("bigint")


def change_id(keys: tuple[str, ...]) -> SparkColumn:
    r"""The ``_row_id`` of a change: key, commit version and change type.

    Different keys of several columns have different ids: NULL is ``\N``, and a ``\`` comes before each ``|`` and ``\``.
    """
    texts = [F.col(key).cast("string") for key in keys]
    if len(keys) > 1:
        texts = [F.coalesce(F.regexp_replace(text, r"([\\|])", r"\\$1"), F.lit(r"\N")) for text in texts]
    return F.concat_ws("|", *texts, F.col(hidden.COMMIT_VERSION).cast("string"), F.col(hidden.CHANGE_TYPE))
