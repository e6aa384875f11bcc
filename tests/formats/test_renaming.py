"""Fields of records get their declared names before anything else reads them; a field by two names is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tidegate.formats.arrow_fields import CsvFields
from tidegate.formats.delimited import header_problem
from tidegate.formats.envelopes import Envelope
from tidegate.formats.raw_fields import Field, RawFields, csv_reader, json_reader
from tidegate.formats.reader import FileReader
from tidegate.spec import Dialect, FileSource, debezium
from tidegate.store import Address

SOURCE = FileSource(
    path="orders",
    format="json",
    schema="order_id STRING, size INT, who STRUCT<first_name: STRING, tags: MAP<STRING, STRUCT<no: DECIMAL(9,2)>>>",
    fields={
        "Order ID": "order_id",
        "größe": "size",
        "Kunde": "who",
        ("Kunde", "First.Name"): "first_name",
        ("Kunde", "tags", "Nr"): "no",
    },
)
FIELDS = [Field(name=each.name, is_text=each.is_text) for each in SOURCE.columns]


def of_json(record: Any) -> RawFields:
    text = record if isinstance(record, str) else json.dumps(record)
    return json_reader(FIELDS, ("",), None, SOURCE.names)(text, None, None)


def of_csv(header: str, line: str) -> RawFields:
    read = csv_reader(FIELDS, ("",), SOURCE.names)(line, header, None)
    raw, headers = (pyarrow.array([each], pyarrow.string()) for each in (line, header))
    split = CsvFields(FIELDS, ("",), SOURCE.names)(raw, headers, pyarrow.nulls(1, pyarrow.string()))
    assert [*split.to_pylist()[0].values()] == [*read.declared, list(read.unknown.items()), read.malformed]
    return read


def test_json_keys_at_every_depth_have_their_declared_names_and_numbers_their_literals() -> None:
    text = '{"Order ID": "A", "größe": 1.0, "Kunde": {"First.Name": "Ada", "tags": {"Nr": {"Nr": 1.10}}}, "x y": 1}'
    read = of_json(text)
    assert read.declared == ["A", "1.0", '{"first_name":"Ada","tags":{"Nr":{"no":1.10}}}']
    assert read.unknown == {"x y": "1"}


def test_a_record_may_have_the_declared_names_as_older_files_do() -> None:
    assert of_json({"order_id": "A", "who": {"first_name": "b"}}).declared == ["A", None, '{"first_name":"b"}']
    assert of_json({"order_id": "A", "who": {"First.Name": "b"}}).declared == ["A", None, '{"first_name":"b"}']
    assert of_csv("order_id,größe", "A,1").declared == ["A", "1", None]


def test_a_nested_value_may_be_a_text_of_json() -> None:
    assert of_json({"Kunde": '{"First.Name": "b"}'}).declared[2] == '{"first_name":"b"}'
    assert of_json({"Kunde": "no JSON"}).declared[2] == "no JSON"
    assert of_json({"Kunde": '{"a": 1, "a": 2}'}).declared[2] == '{"a": 1, "a": 2}', "the cast refuses it"
    half = '{"First.Name": "\\ud800"}'
    assert of_json({"Kunde": half}).declared[2] == half, "it cannot be encoded"


def test_a_field_by_two_names_is_refused() -> None:
    assert of_json({"Order ID": "A", "order_id": "B"}).malformed == "repeated_field(order_id)"
    assert of_json({"Kunde": {"First.Name": "A", "first_name": "B"}}).malformed == "repeated_field(first_name)"
    assert of_csv("Order ID,order_id", "A,B").malformed == "repeated_header"
    assert of_csv("Kunde,x", '"{""First.Name"": 1, ""first_name"": 2}",1').malformed == "repeated_field(first_name)"


def test_headers_have_their_declared_names() -> None:
    assert of_csv(" Order ID ,größe,more", "A,1,x") == RawFields(["A", "1", None], {"more": "x"})
    assert of_csv("größe,Order ID", "1,A").declared == ["A", "1", None]
    assert of_csv("Kunde", '"{""First.Name"": ""Ada""}"').declared[2] == '{"first_name":"Ada"}'
    assert header_problem("Order ID;größe", Dialect(), {"order_id"}, SOURCE.names) == "other_separator(semicolon)"
    assert header_problem("Order ID;größe", Dialect(), {"order_id"}) == "unknown_header"


@pytest.mark.parametrize(("header", "problem"), [("Order ID,größe", None), ("Order-ID,groesse", "unknown_header")])
def test_a_file_of_a_header_alone_is_judged_by_the_names_of_the_records(
    tmp_path: Path, header: str, problem: str | None
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n")
    reader = FileReader(Address.local(path), 0, "csv", Dialect(), [each.name for each in FIELDS], SOURCE.names)
    assert list(reader) == []
    assert reader.checked.problem == problem


def test_the_row_of_an_envelope_has_its_declared_names() -> None:
    source = FileSource(
        path="orders",
        format="json",
        schema="id INT, name STRING, op STRING",
        fields={"ID": "id", "Full Name": "name"},
        changes=debezium(),
    )
    assert source.changes is not None
    fields = [Field(name=each.name, is_text=each.is_text) for each in source.columns]
    envelope = Envelope(source.changes, ["id", "name", "op"], names=source.names)

    def read(row: dict[str, Any]) -> RawFields:
        record = {"op": "c", "before": None, "after": row}
        return json_reader(fields, ("",), envelope, source.names)(json.dumps(record), None, None)

    assert read({"ID": 1, "Full Name": "Ada"}).declared == ["1", "Ada", "c"]
    assert read({"ID": 1, "id": 2}).malformed == "repeated_field(id)"
    assert read({"ID": 1, "Full Name": source.changes.unavailable}).malformed == "unavailable(name)"
    assert read({"ID": 1, "op": "x"}).malformed == "repeated_field(op)"
