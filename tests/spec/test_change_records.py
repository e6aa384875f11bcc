"""Change records are declared with the columns that say what a record does, and refused where the source cannot have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import FILES, TOPIC
from tidegate.errors import FieldError
from tidegate.ops.evolution import declared_fingerprint
from tidegate.spec import ChangeRecords, debezium

SCHEMA = "id INT NOT NULL, name STRING, op STRING, lsn BIGINT NOT NULL"
FLAT = ChangeRecords(operation="op", writes=("I", "U"), deletes=("D",))


def test_debezium_reads_the_operation_and_the_named_columns_outside_the_row() -> None:
    changes = debezium(lsn="source.lsn")
    assert changes.paths == {"op": "op", "lsn": "source.lsn"}
    assert (changes.writes, changes.deletes, changes.no_value) == (("c", "u", "r"), ("d",), "skip")
    assert debezium(operation="kind").paths == {"kind": "op"}


def test_a_source_may_have_change_records_and_a_refused_batch_may_pass_when_they_change() -> None:
    declared = [replace(TOPIC, schema=SCHEMA, changes=each) for each in (None, FLAT, debezium(lsn="source.lsn"))]
    assert len({declared_fingerprint(source) for source in declared}) == 3
    assert len({hash(source) for source in declared}) >= 2, "a declaration can still be hashed"
    for kind in ("csv", "json", "parquet", "avro"):
        replace(FILES, schema=SCHEMA, format=kind, changes=FLAT)
    replace(FILES, schema=SCHEMA, format="json", changes=debezium(lsn="source.lsn"))
    replace(TOPIC, schema=SCHEMA, format="avro", changes=debezium(lsn="source.lsn"))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"writes": ()}, "writes"),
        ({"deletes": "D"}, "deletes"),
        ({"deletes": ("D", "U")}, "deletes"),
        ({"refused": {"D": "delete"}}, "deletes"),
        ({"refused": {"T": "a value"}}, "refused"),
        ({"refused": ("T",)}, "refused"),
        ({"paths": None}, "paths"),
        ({"after": None}, "after"),
        ({"no_value": "keep"}, "no_value"),
        ({"operation": ""}, "operation"),
        ({"operation": "", "no_value": "delete"}, "writes"),
        ({"operation": "the op"}, "operation"),
        ({"after": "after"}, "before"),
        ({"paths": {"lsn": "source.lsn"}}, "after"),
        ({"after": "after", "before": "before"}, "paths"),
        ({"after": "after", "before": "before", "paths": {"op": "op", "lsn": "source..lsn"}}, "paths"),
    ],
)
def test_declarations_that_contradict_themselves_are_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as refused:
        replace(FLAT, **changed)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("source", "changed", "message"),
    [
        (TOPIC, {"schema": "id INT, op STRING", "changes": debezium(lsn="source.lsn")}, "also lsn"),
        (TOPIC, {"schema": "id INT, op INT", "changes": FLAT}, "STRING for 'op'"),
        (
            FILES,
            {"schema": SCHEMA, "format": "csv", "changes": debezium(lsn="source.lsn")},
            "without envelope for files of format csv",
        ),
        (TOPIC, {"changes": "debezium"}, "debezium"),
    ],
)
def test_a_source_whose_records_cannot_be_such_changes_is_refused(
    source: Any, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(FieldError, match=message):
        replace(source, **changed)


def test_messages_without_value_delete_only_where_columns_of_the_key_say_which_row() -> None:
    compacted = ChangeRecords(no_value="delete")
    source = replace(TOPIC, schema="id INT, op STRING", metadata={"id": "key"}, changes=compacted)
    replace(source, changes=replace(FLAT, no_value="delete", deletes=()))
    with pytest.raises(FieldError, match="a message without value deletes the row of its key"):
        replace(source, metadata={"id": "header.id"})
    with pytest.raises(FieldError, match="only messages have keys"):
        replace(FILES, changes=compacted)
    with pytest.raises(FieldError, match="that changes does not name in paths"):
        replace(source, changes=debezium(), metadata={"op": "header.op"})
