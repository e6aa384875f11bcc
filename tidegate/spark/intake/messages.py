"""Kafka values as JSON text: JSON unchanged, Avro decoded with its writer's schema; both can start with a schema id."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.formats import envelopes, json_text, records
from tidegate.schema.ddl import Column
from tidegate.schema.names import AS_THEY_ARE, FieldNames
from tidegate.schema.registry_schemas import HEADER_BYTES, WriterSchema

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from tidegate.spec import ChangeRecords, ValueFormat

MAX_SCHEMAS = 200
"""Maximum number of schema ids in a batch. More ids mean values that are not in the declared format."""


KEY_TEXT = "_key_text"
"""The column with the key as text: as it is, or as JSON if it contains the id of an Avro schema."""


def schema_id(data: str = "value") -> SparkColumn:
    """The schema id at the start of a value or a key, as BIGINT; NULL for one without.

    A schema id follows a zero byte, with which no JSON text can begin.
    """
    content = F.col(data)
    framed = (F.length(content) > HEADER_BYTES) & (F.hex(F.substring(content, 1, 1)) == "00")
    return F.when(framed, F.conv(F.hex(F.substring(content, 2, 4)), 16, 10).cast("bigint"))


def with_key_text(feed: DataFrame, kind: ValueFormat, lookup: Callable[[int], WriterSchema | None] | None) -> DataFrame:
    """Add `KEY_TEXT`. A key that contains a schema id is JSON after it, or Avro, as the values are; NULL where it cannot be read."""
    framed = schema_id("key").isNotNull()
    rest = F.when(framed, F.substring("key", HEADER_BYTES + 1, 2**31 - 1)).otherwise(F.col("key")).cast("string")
    text = F.when(F.is_valid_utf8(rest), rest)
    if kind == "avro" and lookup is not None:
        text = F.when(framed, _decoder(referenced_schemas(feed, kind, lookup, "key"))(F.col("key"))).otherwise(text)
    return feed.withColumn(KEY_TEXT, text)


def metadata_text(part: str) -> tuple[SparkColumn, SparkColumn]:
    """A part of a message, as `KafkaSource.metadata` names it: its text, and the rule that it breaks where it cannot be read, else NULL.

    Parts of the key need `with_key_text`.
    """
    place, _, name = part.partition(".")
    none = F.lit(None).cast("string")
    if place == "timestamp":
        return F.date_format(hidden.TIMESTAMP, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"), none
    if place not in ("key", "header"):
        column = {"topic": hidden.TOPIC, "partition": hidden.PARTITION, "offset": hidden.OFFSET}[place]
        return F.col(column).cast("string"), none
    if place == "key":
        problem = F.when(F.col("key").isNotNull() & F.col(KEY_TEXT).isNull(), F.lit("malformed_key"))
        path = "$" + "".join(f"['{member}']" for member in name.split(".") if member)
        # An Avro key that is no record is one JSON value.
        of_value = F.when(schema_id("key").isNotNull(), F.get_json_object(KEY_TEXT, path)).otherwise(F.col(KEY_TEXT))
        return F.get_json_object(KEY_TEXT, path) if name else of_value, problem
    named = F.filter("headers", lambda header: header["key"] == name)
    data = F.try_element_at(named, F.lit(-1))["value"]
    text = F.when(F.is_valid_utf8(data.cast("string")), data.cast("string"))
    return text, F.when(data.isNotNull() & text.isNull(), F.lit(f"malformed_header({name})"))


def referenced_schemas(
    feed: DataFrame, kind: ValueFormat, lookup: Callable[[int], WriterSchema | None], data: str = "value"
) -> dict[int, WriterSchema]:
    """The schemas that values, or keys, of a batch reference, if the registry has them and their type is that of the declared format."""
    ids = feed.select(schema_id(data).alias("id")).where("id IS NOT NULL").distinct().limit(MAX_SCHEMAS).collect()
    schemas = {row["id"]: lookup(row["id"]) for row in sorted(ids)}
    return {id: schema for id, schema in schemas.items() if schema is not None and schema.kind == kind.upper()}


def fields_of(
    schemas: Mapping[int, WriterSchema],
    changes: ChangeRecords | None = None,
    outside: Collection[str] = (),
    names: FieldNames = AS_THEY_ARE,
) -> dict[int, tuple[Column, ...]]:
    """The fields of each schema by their declared names, with types as DDL; schemas without fields are left out.

    Of an envelope in Avro those of its row, and the columns outside it without a type. The fields of one in JSON are known from
    the records only. Fields that are ``outside`` the value have no type.
    """
    fields_by_id = {id: _fields_of(schema, changes, names) for id, schema in schemas.items()}
    return {
        id: (
            *(each for each in fields if each.name not in outside),
            *(Column(name, "") for name in outside),
        )
        for id, fields in fields_by_id.items()
        if fields
    }


def _fields_of(schema: WriterSchema, changes: ChangeRecords | None, names: FieldNames) -> tuple[Column, ...]:
    enveloped = changes is not None and changes.has_envelope
    if schema.kind == "JSON":
        return () if enveloped else names.columns(schema.json_fields())
    if changes is None or not enveloped:
        return names.columns(Column(*pair) for pair in records.avro_fields(schema.definition))
    row = records.avro_fields(envelopes.fields_of_row(schema.definition, changes))
    fields = names.columns(Column(*pair) for pair in row)
    return (*fields, *(Column(name, "") for name in changes.paths)) if fields else ()


def as_text(kind: ValueFormat, schemas: Mapping[int, WriterSchema]) -> tuple[SparkColumn, SparkColumn]:
    """Decode values to JSON text.

    Returns:
        Two expressions over the column ``value``. The text: NULL where the value is NULL or unreadable. The broken rule:
        ``malformed_avro`` or ``unknown_schema`` (Avro), ``malformed_json`` (JSON that is not UTF-8), else NULL; it also needs
        the text as column ``_text``.
    """
    value = F.col("value")
    if kind == "json":
        payload = F.when(schema_id().isNotNull(), F.substring(value, HEADER_BYTES + 1, 2**31 - 1)).otherwise(value)
        text = F.when(F.is_valid_utf8(payload.cast("string")), payload.cast("string"))
        return text, F.when(value.isNotNull() & F.col(hidden.TEXT).isNull(), F.lit("malformed_json"))
    has_schema = schema_id().isin(*schemas) if schemas else F.lit(False)
    unreadable = F.when(schema_id().isNull() | has_schema, F.lit("malformed_avro")).otherwise(F.lit("unknown_schema"))
    return _decoder(schemas)(value), F.when(value.isNotNull() & F.col(hidden.TEXT).isNull(), unreadable)


def _decoder(schemas: Mapping[int, WriterSchema]) -> Callable[[SparkColumn], SparkColumn]:
    definitions = {id: json.dumps(schema.definition) for id, schema in schemas.items()}
    return F.udf(lambda data: _decode(data, definitions), "string").asNondeterministic()


_PARSED_SCHEMAS: dict[str, Any] = {}
"""Schemas that this Python worker has parsed, by definition."""


def _decode(data: bytes | None, definitions: Mapping[int, str]) -> str | None:
    if data is None or len(data) <= HEADER_BYTES or data[0]:
        return None
    definition = definitions.get(int.from_bytes(data[1:HEADER_BYTES], "big"))
    if definition is None:
        return None
    if definition not in _PARSED_SCHEMAS:
        _PARSED_SCHEMAS[definition] = records.avro().parse_schema(json.loads(definition))
    content = io.BytesIO(data)
    content.seek(HEADER_BYTES)
    try:
        record = records.avro().schemaless_reader(content, _PARSED_SCHEMAS[definition], None)
    except MemoryError:
        raise
    except Exception:  # the decoder raises many types; any error means that the value cannot be read
        return None
    return json_text.as_json(record) if content.tell() == len(data) else None
