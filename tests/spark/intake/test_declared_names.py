"""Fields of headers, files and registered schemas are compared with the contract by their declared names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import Row

from tidegate.schema.ddl import Column
from tidegate.schema.registry_schemas import WriterSchema
from tidegate.sources.files.read import BRONZE
from tidegate.spark.intake import messages
from tidegate.spec import FileSource, KafkaSource, debezium

SCHEMA = "id INT, who STRUCT<first_name: STRING>"
FIELDS: dict[str | tuple[str, ...], str] = {"_id": "id", ("who", "first name"): "first_name"}
WHO = {"name": "who", "type": {"type": "record", "name": "Who", "fields": [{"name": "first", "type": "string"}]}}


def of_file(kind: Any, header: str) -> tuple[Column, ...]:
    source = FileSource(path="orders", format=kind, schema=SCHEMA, fields=FIELDS)
    (fields,) = BRONZE.writers_in([Row(header=header, dialect=None, writer=7)], source).values()
    return fields


def test_fields_of_files_have_their_declared_names() -> None:
    expected = (Column("id", "int"), Column("who", "struct<first_name:string>"), Column("Neu", "string"))
    header = [["_id", "int"], ["who", "struct<`first name`:string>"], ["Neu", "string"]]
    assert of_file("parquet", json.dumps(header)) == expected
    assert of_file("csv", "_id,who,Neu") == tuple(Column(each.name, "") for each in expected)


@pytest.mark.parametrize("enveloped", [False, True])
def test_fields_of_registered_schemas_have_their_declared_names(enveloped: bool) -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "_id", "type": "int"}, WHO]}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": "after", "type": row}, {"name": "op", "type": "string"}],
    }
    names = KafkaSource(topic="orders", schema=SCHEMA, fields={"_id": "id", ("who", "first"): "first_name"}).names
    schemas: Mapping[int, WriterSchema] = {7: WriterSchema(kind="AVRO", definition=envelope if enveloped else row)}
    changes = debezium() if enveloped else None
    (fields,) = messages.fields_of(schemas, changes, (), names).values()
    outside = (Column("op", ""),) if enveloped else ()
    assert fields == (Column("id", "int"), Column("who", "struct<first_name:string>"), *outside)


def test_fields_of_a_json_schema_have_their_declared_names() -> None:
    names = KafkaSource(topic="orders", schema=SCHEMA, fields=FIELDS).names
    schema = WriterSchema(kind="JSON", definition={"properties": {"_id": {"type": "integer"}, "who": {}}})
    assert messages.fields_of({7: schema}, None, (), names) == {7: (Column("id", ""), Column("who", ""))}
