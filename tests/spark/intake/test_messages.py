"""Kafka values are parsed in every encoding: plain JSON, JSON and Avro with a registered schema, and unreadable bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.schema_registry import SchemaRegistry, framed
from tidegate.schema import registry_schemas
from tidegate.schema.ddl import Column
from tidegate.spark.intake.parse import Parsed, parse
from tidegate.spec import KafkaSource, ValueFormat, debezium
from tidegate.store import Address

pytestmark = pytest.mark.jvm

SCHEMA = "id BIGINT, page STRING, at TIMESTAMP"
OLD = {"type": "record", "name": "Click", "fields": [{"name": "id", "type": "int"}, {"name": "page", "type": "string"}]}
INSTANT = {"type": "long", "logicalType": "timestamp-millis"}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "at", "type": INSTANT}, {"name": "ref", "type": ["null", "string"]}]}
AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def avro(schema: Any, record: Any) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), record)
    return content.getvalue()


def parsed(
    spark: Any,
    registry: SchemaRegistry,
    folder: Path,
    kind: ValueFormat,
    *values: bytes | None,
    source: KafkaSource | None = None,
) -> Parsed:
    coordinates = "_topic string, _partition int, _offset bigint, _timestamp timestamp, _ingested_at timestamp"
    bronze = f"_row_id string, key binary, value binary, {coordinates}"
    rows = [(str(number), b"k", value, "t", 0, number, AT, AT) for number, value in enumerate(values)]
    source = source or KafkaSource(topic="t", schema=SCHEMA, format=kind)
    return parse(
        spark.createDataFrame(rows, bronze),
        source,
        lookup=partial(registry_schemas.fetch, registry.settings, Address.local(folder)),
    )


def rows_of(result: Parsed) -> list[tuple[Any, ...]]:
    rows = result.rows.selectExpr("_row_id", "id", "page", "_rescued", "_origin.broken AS broken").orderBy("_row_id")
    return [(row["id"], row["page"], row["_rescued"], row["broken"]) for row in rows.collect()]


def test_avro_is_decoded_with_the_registered_schema_of_its_writer(
    spark: Any, registry: SchemaRegistry, tmp_path: Path
) -> None:
    old, new, json_schema = registry.register(OLD), registry.register(NEW), registry.register({}, "JSON")
    good = avro(NEW, {"id": 2, "page": "/b", "at": AT, "ref": "x"})

    result = parsed(
        spark, registry, tmp_path, "avro",
        framed(old, avro(OLD, {"id": 1, "page": "/a"})),
        framed(new, good), framed(new, good[:3]), framed(new, good + b"\0"), framed(99, good), framed(json_schema, b"{}"),
        b'{"id":1}', None,
    )  # fmt: skip

    bad = (None, None, None)
    assert rows_of(result) == [
        (1, "/a", None, []),
        (2, "/b", {"ref": "x"}, []),
        (*bad, ["malformed_avro"]),
        (*bad, ["malformed_avro"]),
        (*bad, ["unknown_schema"]),
        (*bad, ["unknown_schema"]),
        (*bad, ["malformed_avro"]),
        (*bad, []),
    ]
    assert result.writers == {
        old: (Column("id", "int"), Column("page", "string")),
        new: (Column("id", "int"), Column("page", "string"), Column("at", "timestamp"), Column("ref", "string")),
    }


def test_json_is_read_with_and_without_a_schema_id(spark: Any, registry: SchemaRegistry, tmp_path: Path) -> None:
    number = registry.register({"properties": {"id": {"type": "integer"}, "ok": {"type": "boolean"}}}, "JSON")

    result = parsed(
        spark, registry, tmp_path, "json",
        framed(number, b'{"id":1,"ok":true}'), b'{"id":2}', framed(99, b'{"id":3}'), b"\xff\xfe", b"{", None,
    )  # fmt: skip

    assert rows_of(result) == [
        (1, None, {"ok": "true"}, []),
        (2, None, None, []),
        (3, None, None, []),
        (None, None, None, ["malformed_json"]),
        (None, None, None, ["malformed_json"]),
        (None, None, None, []),
    ]
    assert result.writers == {number: (Column("id", ""), Column("ok", "boolean"))}


def test_the_schema_of_an_avro_envelope_is_that_of_its_row(
    spark: Any, registry: SchemaRegistry, tmp_path: Path
) -> None:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "int"}, {"name": "page", "type": "string"}],
    }
    origin = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": ["null", "long"]}]}
    fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    fields += [{"name": "source", "type": origin}, {"name": "op", "type": "string"}]
    schema = {"type": "record", "name": "Envelope", "fields": fields}
    id = registry.register(schema)
    source = KafkaSource(
        topic="t",
        schema="id INT, page STRING, op STRING, lsn BIGINT",
        format="avro",
        changes=debezium(lsn="source.lsn"),
    )
    record = {"before": None, "after": {"id": 1, "page": "a"}, "source": {"lsn": 7}, "op": "c"}
    result = parsed(spark, registry, tmp_path, "avro", framed(id, avro(schema, record)), source=source)
    (read,) = result.rows.collect()
    assert (read.id, read.page, read.op, read.lsn, read._deleted, read._origin.broken) == (1, "a", "c", 7, False, [])
    (written,) = result.writers.values()
    assert written == (Column("id", "int"), Column("page", "string"), Column("op", ""), Column("lsn", ""))


def test_keys_are_decoded_with_their_schema_as_values_are(spark: Any, registry: SchemaRegistry, tmp_path: Path) -> None:
    of_key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
    value, key, plain = (registry.register(each) for each in (OLD, of_key, {"type": "string"}))
    content = framed(value, avro(OLD, {"id": 7, "page": "/"}))
    keys = [
        framed(key, avro(of_key, {"id": 7})),
        framed(plain, avro({"type": "string"}, "k7")),
        framed(99, b"?"),
        b"k7",
    ]
    rows = [(str(number), each, content, "t", 0, number, AT, AT) for number, each in enumerate(keys)]
    coordinates = "_topic string, _partition int, _offset bigint, _timestamp timestamp, _ingested_at timestamp"
    feed = spark.createDataFrame(rows, f"_row_id string, key binary, value binary, {coordinates}")
    metadata = {"user": "key.id", "whole": "key"}
    source = KafkaSource(
        topic="t", schema="id BIGINT, page STRING, user INT, whole STRING", format="avro", metadata=metadata
    )

    lookup = partial(registry_schemas.fetch, registry.settings, Address.local(tmp_path))
    read = parse(feed, source, lookup=lookup).rows.orderBy("_row_id").collect()

    assert [(row["user"], row["whole"]) for row in read] == [(7, '{"id":7}'), (None, "k7"), (None, None), (None, "k7")]
    assert [row["_origin"]["broken"] for row in read] == [[], [], ["malformed_key"], []]
