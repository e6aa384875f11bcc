"""Rows of the bronze table of a landing folder: lines of files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.formats.delimited import header_names, header_problem
from tidegate.formats.raw_fields import dialect_of
from tidegate.lake.file_id import path_of_url, path_sql
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.spark.intake.bronze import HEADER, Bronze, Lookup, Records, arrival

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from tidegate.spec import FileSource
    from tidegate.store import Address

_MAX_PATHS = 500
"""Up to this number of landed files, the condition lists their paths, so that Delta can skip files of bronze."""


def _records(feed: DataFrame, source: FileSource, _lookup: Lookup | None) -> Records:
    at = F.struct(F.col(hidden.MODIFIED_AT), F.col(hidden.PATH), F.col(hidden.LINE_NUMBER))
    coordinates = F.struct(
        F.col(hidden.PATH).alias("path"),
        F.col(hidden.LINE_NUMBER).alias("line"),
        F.col(hidden.MODIFIED_AT).alias("modified_at"),
    )
    rows = feed.select(
        hidden.ROW_ID,
        _writer(feed).alias(hidden.WRITER),
        hidden.HEADER,
        _dialect(feed).alias(hidden.DIALECT),
        F.col("line").alias(hidden.RAW),
        at.alias(hidden.AT),
        coordinates.alias(hidden.SOURCE),
        hidden.INGESTED_AT,
        arrival(feed).alias(hidden.ARRIVAL),
        F.expr(path_sql(hidden.PATH)).alias(hidden.PATH),
        hidden.MODIFIED_AT,
        _partitions().alias("_partitions"),
    )
    is_csv, covers_all = source.format == "csv", source.format != "json"
    return Records(rows=rows, is_csv=is_csv, null_values=source.null_values, writers_cover_all=covers_all)


def _partitions() -> SparkColumn:
    """The folders ``name=value`` in a file's path, as a map; of a name that occurs twice, the inner folder.

    Values are percent-decoded, where a plus sign is itself; Hive's name for NULL is NULL.
    """
    return F.expr(
        f"""aggregate(
            regexp_extract_all({hidden.PATH}, '([^/]+=[^/]*)/', 1),
            CAST(map() AS MAP<STRING, STRING>),
            (found, folder) -> map_concat(
                map_filter(found, (name, value) -> name <> split_part(folder, '=', 1)),
                transform_values(
                    map(split_part(folder, '=', 1), substring(folder, instr(folder, '=') + 1)),
                    (name, value) -> coalesce(
                        try_url_decode(replace(nullif(value, '__HIVE_DEFAULT_PARTITION__'), '+', '%2B')),
                        nullif(value, '__HIVE_DEFAULT_PARTITION__')
                    )
                )
            )
        )"""
    )


def _header_of(feed: DataFrame, source: FileSource) -> list[SparkColumn]:
    if source.format == "json":
        return []
    header = F.struct(
        F.col(hidden.HEADER).alias("header"), _dialect(feed).alias("dialect"), _writer(feed).alias("writer")
    )
    return [header.alias(HEADER)]


def _writers_in(headers: Iterable[Row], source: FileSource) -> dict[int, tuple[Column, ...]]:
    rows = sorted(headers, key=lambda row: (row["header"] or "", row["dialect"] or ""))
    if source.format != "csv":
        return {
            row["writer"]: source.names.columns(Column(*pair) for pair in json.loads(row["header"])) for row in rows
        }
    names = {column.name for column in parse_ddl("schema", source.schema)}
    parts = [(row["writer"], row["header"] or "", dialect_of(row["dialect"])) for row in rows]
    return {
        writer: tuple(Column(name, "") for name in header_names(header, dialect, source.names))
        for writer, header, dialect in parts
        if header_problem(header, dialect, names, source.names) is None
    }


def _dialect(feed: DataFrame) -> SparkColumn:
    """The dialect of a record's file; NULL where the feed has no such column."""
    return F.col(hidden.DIALECT) if hidden.DIALECT in feed.columns else F.lit(None).cast("string")


def _writer(feed: DataFrame) -> SparkColumn:
    """The id of a record's header: a hash of header and dialect; NULL where the file has no header."""
    return F.when(F.col(hidden.HEADER).isNotNull(), F.xxhash64(hidden.HEADER, _dialect(feed)))


def _skipping(sources: Sequence[Mapping[str, Any]]) -> SparkColumn:
    paths = sorted({source["path"] for source in sources})
    return F.col(hidden.PATH).isin(paths) if len(paths) <= _MAX_PATHS else F.lit(True)


def _place(source: Mapping[str, Any], landing_zone: Address) -> str:
    path = path_of_url(str(source["path"])).removeprefix(f"{landing_zone}/")
    return f"{path} line {source['line']}"


BRONZE = Bronze(
    columns=(hidden.PATH, hidden.MODIFIED_AT, "_partitions"),
    records=_records,
    header_of=_header_of,
    writers_in=_writers_in,
    skipping=_skipping,
    place=_place,
)
