"""Kafka values as JSON text: JSON as it is, Avro by its writer's schema, each perhaps behind the id of a registered one."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.schema.ddl import Column
from tidegate.schema.writers import HEADER_BYTES, WriterSchema
from tidegate.spark.intake import records

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from tidegate.spec import ValueFormat

MOST_SCHEMAS = 200
"""A batch that names more schemas has values that are not what the declaration says, not so many schemas."""


def writer_id() -> SparkColumn:
    """The id of the schema that a value names, as BIGINT; NULL for a value that names none.

    No JSON text begins with a zero byte.
    """
    from pyspark.sql import functions as F

    value = F.col("value")
    framed = (F.length(value) > HEADER_BYTES) & (F.hex(F.substring(value, 1, 1)) == "00")
    return F.when(framed, F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).cast("bigint"))


def schemas_named(
    feed: DataFrame, kind: ValueFormat, lookup: Callable[[int], WriterSchema | None]
) -> dict[int, WriterSchema]:
    """The schemas that the values of a batch name, as far as the registry knows them and they are of their format."""
    named = feed.select(writer_id().alias("id")).where("id IS NOT NULL").distinct().limit(MOST_SCHEMAS).collect()
    found = {row["id"]: lookup(row["id"]) for row in sorted(named)}
    return {id: schema for id, schema in found.items() if schema is not None and schema.kind == kind.upper()}


def fields_of(schemas: Mapping[int, WriterSchema]) -> dict[int, tuple[Column, ...]]:
    """What each schema lists, with types as DDL; a schema that lists no fields is left out."""
    listed = {
        id: schema.json_fields()
        if schema.kind == "JSON"
        else tuple(Column(*pair) for pair in records.avro_fields(schema.definition))
        for id, schema in schemas.items()
    }
    return {id: fields for id, fields in listed.items() if fields}


def as_text(kind: ValueFormat, schemas: Mapping[int, WriterSchema]) -> tuple[SparkColumn, SparkColumn]:
    """A value as JSON text, and why it cannot be read; both are columns over ``value``.

    Returns:
        The text, NULL where the value is NULL or cannot be read. The rule: ``malformed_avro`` or ``unknown_schema``
        (Avro), ``malformed_json`` (JSON that is not UTF-8); NULL where there is none.
    """
    from pyspark.sql import functions as F

    value = F.col("value")
    if kind == "json":
        bare = F.when(writer_id().isNotNull(), F.substring(value, HEADER_BYTES + 1, 2**31 - 1)).otherwise(value)
        text = F.when(F.is_valid_utf8(bare.cast("string")), bare.cast("string"))
        return text, F.when(value.isNotNull() & F.col("_text").isNull(), F.lit("malformed_json"))
    definitions = {id: json.dumps(schema.definition) for id, schema in schemas.items()}
    decode = F.udf(lambda data: _decoded(data, definitions), "string").asNondeterministic()
    known = writer_id().isin(*definitions) if definitions else F.lit(False)
    unreadable = F.when(writer_id().isNull() | known, F.lit("malformed_avro")).otherwise(F.lit("unknown_schema"))
    return decode(value), F.when(value.isNotNull() & F.col("_text").isNull(), unreadable)


_PARSED: dict[str, Any] = {}
"""Schemas that this Python worker has prepared, by their text."""


def _decoded(data: bytes | None, definitions: Mapping[int, str]) -> str | None:
    import fastavro

    if data is None or len(data) <= HEADER_BYTES or data[0]:
        return None
    definition = definitions.get(int.from_bytes(data[1:HEADER_BYTES], "big"))
    if definition is None:
        return None
    if definition not in _PARSED:
        _PARSED[definition] = fastavro.parse_schema(json.loads(definition))
    content = io.BytesIO(data)
    content.seek(HEADER_BYTES)
    try:
        record = fastavro.schemaless_reader(content, _PARSED[definition], None)
    except Exception:  # whatever the decoder trips over, the value cannot be read
        return None
    return records.as_json(record) if content.tell() == len(data) else None
