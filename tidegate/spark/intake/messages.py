"""Kafka values as JSON text: JSON unchanged, Avro decoded with its writer's schema; both can start with a schema id."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.formats import envelopes, json_text, records
from tidegate.schema.ddl import Column
from tidegate.schema.registry_schemas import HEADER_BYTES, WriterSchema

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from tidegate.spec import ChangeRecords, ValueFormat

MAX_SCHEMAS = 200
"""Maximum number of schema ids in a batch. More ids mean values that are not in the declared format."""


def schema_id() -> SparkColumn:
    """The schema id at the start of a value, as BIGINT; NULL for a value without one.

    A schema id follows a zero byte, with which no JSON text can begin.
    """
    value = F.col("value")
    framed = (F.length(value) > HEADER_BYTES) & (F.hex(F.substring(value, 1, 1)) == "00")
    return F.when(framed, F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint"))


def referenced_schemas(
    feed: DataFrame, kind: ValueFormat, lookup: Callable[[int], WriterSchema | None]
) -> dict[int, WriterSchema]:
    """The schemas that values of a batch reference, if the registry has them and their type is that of the declared format."""
    ids = feed.select(schema_id().alias("id")).where("id IS NOT NULL").distinct().limit(MAX_SCHEMAS).collect()
    schemas = {row["id"]: lookup(row["id"]) for row in sorted(ids)}
    return {id: schema for id, schema in schemas.items() if schema is not None and schema.kind == kind.upper()}


def fields_of(
    schemas: Mapping[int, WriterSchema], changes: ChangeRecords | None = None
) -> dict[int, tuple[Column, ...]]:
    """The fields of each schema, with types as DDL; schemas without fields are left out.

    Of an envelope in Avro those of its row, and the columns outside it without a type. The fields of one in JSON are known from
    the records only.
    """
    fields_by_id = {id: _fields_of(schema, changes) for id, schema in schemas.items()}
    return {id: fields for id, fields in fields_by_id.items() if fields}


def _fields_of(schema: WriterSchema, changes: ChangeRecords | None) -> tuple[Column, ...]:
    enveloped = changes is not None and changes.has_envelope
    if schema.kind == "JSON":
        return () if enveloped else schema.json_fields()
    if changes is None or not enveloped:
        return tuple(Column(*pair) for pair in records.avro_fields(schema.definition))
    fields = [Column(*pair) for pair in records.avro_fields(envelopes.fields_of_row(schema.definition, changes))]
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
    definitions = {id: json.dumps(schema.definition) for id, schema in schemas.items()}
    decode = F.udf(lambda data: _decode(data, definitions), "string").asNondeterministic()
    has_schema = schema_id().isin(*definitions) if definitions else F.lit(False)
    unreadable = F.when(schema_id().isNull() | has_schema, F.lit("malformed_avro")).otherwise(F.lit("unknown_schema"))
    return decode(value), F.when(value.isNotNull() & F.col(hidden.TEXT).isNull(), unreadable)


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
