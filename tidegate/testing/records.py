"""Bronze rows of made-up records, as landing flows write them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from tidegate import hidden, json_codec
from tidegate.spec import Dialect, FileSource, KafkaSource, LandingSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Record = Mapping[str, Any]

LANDED_AT = datetime(2026, 1, 5, 10, tzinfo=UTC)
"""When made-up files were modified and messages were sent, unless the record says otherwise."""
_CHANGE = f"{hidden.INGESTED_AT} timestamp, {hidden.CHANGE_TYPE} string"
_OF_FILES = (
    f"{hidden.ROW_ID} string, line string, {hidden.HEADER} string, {hidden.DIALECT} string, {hidden.MODIFIED_AT} timestamp, "
    f"{hidden.PATH} string, {hidden.LINE_NUMBER} bigint, {_CHANGE}"
)
_OF_MESSAGES = (
    f"{hidden.ROW_ID} string, key binary, value binary, headers array<struct<key:string,value:binary>>, "
    f"{hidden.TOPIC} string, {hidden.PARTITION} int, {hidden.OFFSET} bigint, "
    f"{hidden.TIMESTAMP} timestamp, {_CHANGE}"
)


def readable(source: LandingSource) -> LandingSource:
    """The source, with JSON in place of Parquet and Avro, whose values bronze keeps as JSON or the parser reads in the same way."""
    return source if source.format in ("csv", "json") else dataclasses.replace(source, format="json")


def feed(spark: SparkSession, source: LandingSource, records: Sequence[Record]) -> DataFrame:
    """The records as new rows of bronze, with the ids ``r0``, ``r1`` and so on.

    Args:
        records: Values by field, as text or as Python's values; None, or no such key, is no value. Of records of files
            ``_path`` and ``_modified_at``, of messages ``_key`` and ``_timestamp`` may be given too. Fields in
            `KafkaSource.metadata` are put where they say. A message with ``_deletes`` has no value.
    """
    landed, columns = _LANDED[type(source)]
    rows = [
        (f"r{number}", *landed(source, record, number), LANDED_AT, "insert") for number, record in enumerate(records)
    ]
    return spark.createDataFrame(rows, columns)


def _line(source: FileSource, record: Record, number: int) -> tuple[Any, ...]:
    path, modified_at = record.get(hidden.PATH, "/landing/sample"), record.get(hidden.MODIFIED_AT, LANDED_AT)
    fields = _fields(source, record)
    if source.format == "json":
        return (_json(fields), None, None, modified_at, path, number)
    missing = source.null_values[0] if source.null_values else ""
    texts = [missing if value is None else _text(value) for value in fields.values()]
    dialect = {
        name: value for name, value in json_codec.changed_fields(source.dialect).items() if name not in _NOT_STORED
    }
    stored = json_codec.encode(dialect) if dialect else None
    return (_csv(texts, source.dialect), _csv(list(fields), source.dialect), stored, modified_at, path, number)


_NOT_STORED = ("encoding", "header")
"""What bronze has no use for: text is decoded, and the names of the fields are known."""


def _message(source: KafkaSource, record: Record, number: int) -> tuple[Any, ...]:
    outside = {part: record[name] for name, part in source.metadata.items() if record.get(name) is not None}
    fields = {name: value for name, value in _fields(source, record).items() if name not in source.metadata}
    value = None if record.get(hidden.DELETES) else bytearray(_json(fields).encode())
    key = str(record.get(hidden.KEY, _key(outside) or f"k{number}")).encode()
    headers = [
        (part.removeprefix("header."), bytearray(_text(each).encode()))
        for part, each in outside.items()
        if part.startswith("header.")
    ]
    at = outside.get("timestamp", record.get(hidden.TIMESTAMP, LANDED_AT))
    at = datetime.fromisoformat(at) if isinstance(at, str) else at
    topic, partition, offset = (
        outside.get(part, default) for part, default in (("topic", "sample"), ("partition", 0), ("offset", number))
    )
    return (bytearray(key), value, headers, topic, int(partition), int(offset), at)


def _key(outside: Record) -> str:
    """The key with the fields that are in it, as text or as JSON; empty if none is."""
    if "key" in outside:
        return _text(outside["key"])
    members: dict[str, Any] = {}
    for part, value in outside.items():
        place, *path = part.split(".")
        if place == "key":
            inner = members
            for name in path[:-1]:
                inner = inner.setdefault(name, {})
            inner[path[-1]] = value
    return _json(members) if members else ""


_LANDED: Mapping[type, tuple[Callable[[Any, Record, int], tuple[Any, ...]], str]] = {
    FileSource: (_line, _OF_FILES),
    KafkaSource: (_message, _OF_MESSAGES),
}
"""By the type of the source: how a record lands, and the columns of its bronze table."""


def _fields(source: LandingSource, record: Record) -> dict[str, Any]:
    """What is a field of the record; a name that begins with ``_`` is one if the source declares its rename."""
    names = source.names.renamed
    return {name: value for name, value in record.items() if not name.startswith("_") or name in names}


def _csv(cells: Sequence[str], dialect: Dialect) -> str:
    text = io.StringIO(newline="")
    csv.writer(
        text,
        delimiter=dialect.separator,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape or None,
        doublequote=not dialect.escape,
        lineterminator="",
    ).writerow(cells)
    return text.getvalue()


def _json(fields: Record) -> str:
    return json.dumps(fields, default=_text, ensure_ascii=False)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)
