"""Of an envelope the row and the columns outside it are read; what is no change of a whole row breaks a rule by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.formats.envelopes import Envelope, fields_of_row
from tidegate.formats.raw_fields import Field, RawFields, json_reader
from tidegate.spec import debezium

UNAVAILABLE = "__debezium_unavailable_value"
CHANGES = debezium(lsn="source.lsn")
FIELDS = [
    Field(name="id", is_text=False, bits=32),
    Field(name="name", is_text=True),
    Field(name="op", is_text=True),
    Field(name="lsn", is_text=False, bits=64),
]
ROW = {"id": 1, "name": "Ada"}


def read(record: object, evolves: bool = False) -> RawFields:
    envelope = Envelope(CHANGES, [field.name for field in FIELDS], lambda name: evolves)
    text = record if isinstance(record, str) else json.dumps(record)
    return json_reader(FIELDS, ("",), envelope)(text, None, None)


def change(op: Any, after: Any = None, before: Any = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"lsn": 7, "ts_ms": 9}, "op": op, "ts_ms": 10, **more}


def broken(record: object, **more: bool) -> str | None:
    return read(record, **more).malformed


@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_a_record_that_writes_has_the_row_after_it(op: str) -> None:
    record = read(change(op, after={**ROW, "age": 1.10}, before={"id": 0}))
    assert (record.declared, record.unknown) == (["1", "Ada", op, "7"], {"age": "1.1"})


def test_a_record_that_deletes_has_the_row_before_it_or_its_key() -> None:
    assert read(change("d", before=ROW)).declared == ["1", "Ada", "d", "7"]
    assert read(change("d", before={"id": 1})).declared == ["1", None, "d", "7"]


def test_the_schema_around_a_record_is_ignored() -> None:
    wrapped = {"schema": {"type": "struct", "fields": []}, "payload": change("c", after=ROW)}
    assert read(wrapped) == read(change("c", after=ROW))
    assert broken({"schema": None, "payload": None}) == "no_value"
    assert broken({"schema": None, "payload": 1}) == "malformed_json"


def test_numbers_keep_their_literal_in_the_row_and_outside() -> None:
    text = '{"op":"c","source":{"lsn":9007199254740993},"after":{"id":1.0,"name":1.10,"big":12345678901234567890.1}}'
    record = read(text)
    assert record.declared == ["1", "1.10", "c", "9007199254740993"]
    assert record.unknown == {"big": "12345678901234567890.1"}


@pytest.mark.parametrize("op", ["t", "m", "x", None, 1, {"a": 1}])
def test_another_operation_has_no_row_and_stays_for_its_rule(op: Any) -> None:
    record = read(change(op, after=ROW))
    assert (record.declared[:2], record.malformed) == ([None, None], None)


def test_a_change_without_its_row_breaks_a_rule() -> None:
    assert broken(change("u", before=ROW)) == "missing(after)"
    assert broken(change("c", after=[1])) == "missing(after)"
    assert broken(change("d", after=ROW)) == "missing(before)"
    assert broken(change("c", after={**ROW, "lsn": 1})) == "repeated_field(lsn)"


@pytest.mark.parametrize(
    "value", [UNAVAILABLE, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", [UNAVAILABLE], {UNAVAILABLE: UNAVAILABLE}]
)
def test_a_value_that_the_record_does_not_have_never_overwrites_one(value: Any) -> None:
    assert broken(change("u", after={"id": 1, "name": value})) == "unavailable(name)"
    undeclared = change("u", after={**ROW, "bio": value})
    assert read(undeclared).unknown == {}, "a field that is no column has no value"
    assert broken(undeclared, evolves=True) == "unavailable(undeclared)"
    assert read(change("d", before={"id": 1, "name": value})).declared == ["1", None, "d", "7"]


@pytest.mark.parametrize("value", ["", [], {}, [UNAVAILABLE, "b"], f"{UNAVAILABLE} ", None])
def test_other_values_are_values(value: Any) -> None:
    assert broken(change("u", after={**ROW, "name": value})) is None


def test_the_fields_of_an_avro_envelope_are_those_of_its_row() -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}
    fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    assert fields_of_row({"type": "record", "name": "Envelope", "fields": fields}, CHANGES) == row
    assert fields_of_row({"type": "record", "name": "Row", "fields": row["fields"]}, CHANGES) is None
