"""Declared renames: what is refused, and what columns, types and comments have."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import FieldError
from tidegate.schema.changes import SchemaChange
from tidegate.schema.ddl import Column, parse_ddl
from tidegate.schema.names import FieldNames
from tidegate.schema.transliteration import column_name
from tidegate.spec import ChangeFeed, Contract, Dialect, FileSource, Flow, KafkaSource, Pipeline, Table, debezium

SCHEMA = "order_id STRING NOT NULL, amount INT, items ARRAY<STRUCT<unit_price: INT, code: STRING>>"
FIELDS: dict[str | tuple[str, ...], str] = {
    "Order ID": "order_id",
    "Posten": "items",
    ("Posten", "Unit Price"): "unit_price",
}


def source(fields: Any, schema: str = SCHEMA, **more: Any) -> FileSource:
    return FileSource(path="orders", format=more.pop("format", "json"), schema=schema, fields=fields, **more)


def names() -> FieldNames:
    return source(FIELDS).names


def test_fields_of_records_have_their_declared_names_also_inside_their_types() -> None:
    written = [
        Column("Order ID", "string"),
        Column("Posten", "array<struct<`Unit Price`:int,code:string>>"),
        Column("more", "map<string,int>"),
    ]
    assert names().columns(written) == (
        Column("order_id", "string"),
        Column("items", "array<struct<unit_price:int,code:string>>"),
        Column("more", "map<string,int>"),
    )


def test_the_comment_of_a_column_has_the_names_of_the_records() -> None:
    assert names().description("order_id") == '"Order ID" in the source'
    assert names().description("items") == '"Posten" in the source; items.unit_price is "Unit Price"'
    assert names().description("amount") is None


def test_rules_and_schema_changes_are_shown_with_the_name_in_the_records() -> None:
    rules = ["required(order_id)", "wrong_type(order_id)", "between(amount)"]
    assert names().shown_in(rules) == ['order_id ("Order ID" in the source)']
    removal = SchemaChange(kind="removal", field="order_id")
    assert removal.summary(names()) == 'order_id ("Order ID" in the source) is missing'
    assert removal.summary() == "order_id is missing"


@pytest.mark.parametrize(
    ("fields", "more", "words"),
    [
        ({"A": "amount", "B": "amount"}, {}, "one field for 'amount': give 'B' a column of its own, as in 'b'"),
        ({"A": "price"}, {}, "a name that the schema has: order_id, amount, items; or add 'price' to it"),
        ({"A": "_row_id"}, {}, "names that begin with '_' are those of the platform's columns"),
        ({"amount": "order_id"}, {}, "also a field for the column 'amount', whose own name is taken by this rename"),
        ({("items", "A"): "price"}, {}, "a name that the schema has in items: unit_price, code"),
        ({("amount", "A"): "price"}, {}, "only fields of a STRUCT that the schema has: 'amount' is INT"),
        ({("x", "A"): "price"}, {}, "'x' is no field of it"),
        ({("items", "A"): "code", ("items", "B"): "code"}, {}, "one field for 'code' in items"),
        ({"A": "amount", ("A",): "amount"}, {}, "each field once"),
        ({"A": 1}, {}, "as in {'Order ID': 'order_id'}"),
        ({(): "amount"}, {}, "as in {'Order ID': 'order_id'}"),
        ("amount", {}, "as in {'Order ID': 'order_id'}"),
        ({" A": "amount"}, {"format": "csv"}, "'A': blanks around names in a header are ignored"),
        ({"A": "amount"}, {"format": "csv", "dialect": Dialect(header=False)}, "none without a header"),
        ({"A": "amount"}, {"contract": Contract(columns={"A": "rescue"})}, "'amount', the name that fields gives it"),
        (
            {"A": "lsn"},
            {"schema": "id INT, op STRING, lsn BIGINT", "changes": debezium(lsn="source.lsn")},
            "no rename for 'lsn': its path in changes has the name that the records have",
        ),
    ],
)
def test_renames_that_do_not_fit_are_refused_with_what_is_allowed(
    fields: Any, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(FieldError) as refused:
        source(fields, **more)
    assert words in refused.value.message


def test_two_columns_may_exchange_their_names() -> None:
    exchanged = source({"a": "b", "b": "a"}, "a INT, b INT").names
    assert [exchanged.declared(name) for name in "ab"] == ["b", "a"]


def test_a_topic_declares_the_same_and_equal_declarations_are_equal() -> None:
    topic = KafkaSource(topic="orders", schema=SCHEMA, fields=FIELDS)
    assert topic.names == names()
    assert topic == KafkaSource(topic="orders", schema=SCHEMA, fields=dict(reversed([*FIELDS.items()])))
    assert hash(topic) == hash(KafkaSource(topic="orders", schema=SCHEMA, fields=FIELDS))


@pytest.mark.parametrize(
    ("ddl", "words"),
    [
        ("`Order ID` STRING NOT NULL", '\'order_id STRING NOT NULL\', with fields={"Order ID": "order_id"} beside it'),
        ("Order ID STRING", '\'order_id STRING\', with fields={"Order ID": "order_id"} beside it'),
        ("größe INT", '\'groesse INT\', with fields={"größe": "groesse"} beside it'),
        ("_row_id STRING", '\'row_id STRING\', with fields={"_row_id": "row_id"} beside it'),
        ("`a.b` DECIMAL(10, 2)", '\'a_b DECIMAL(10, 2)\', with fields={"a.b": "a_b"} beside it'),
        ("my-key INT", '\'my_key INT\', with fields={"my-key": "my_key"} beside it'),
    ],
)
def test_a_name_that_no_column_has_is_refused_with_the_rename_to_declare(ddl: str, words: str) -> None:
    with pytest.raises(FieldError) as refused:
        parse_ddl("FileSource", ddl)
    assert words in refused.value.message


def test_words_of_sql_are_names() -> None:
    ddl = "select INT, order STRING, date DATE, timestamp TIMESTAMP NOT NULL, interval INTERVAL DAY TO SECOND, map MAP<STRING, INT>"
    assert [each.name for each in parse_ddl("FileSource", ddl)] == [
        "select",
        "order",
        "date",
        "timestamp",
        "interval",
        "map",
    ]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("Order ID", "order_id"),
        ("Größe", "groesse"),
        ("gro\u0308ße", "groesse"),
        ("naïve.Straße-Nr", "naive_strasse_nr"),
        ("Łódź", "lodz"),
        ("1st", "field_1st"),
        ("名前", "field"),
        ("", "field"),
        ("x" * 90, "x" * 63),
    ],
)
def test_a_name_is_transliterated(name: str, column: str) -> None:
    assert column_name(name) == column
    assert column_name(name, {column, f"{column}_2"}) == f"{column}_3"


def test_the_flows_that_land_and_that_parse_records_have_their_names() -> None:
    feeds = [Flow(name="bronze", source=source(FIELDS), target=Table("bronze.orders"))]
    for layer, below in (("silver", "bronze"), ("gold", "silver")):
        target = Table(f"{layer}.orders", keys=("order_id",), sequence_by=("amount",))
        feeds.append(Flow(name=layer, source=ChangeFeed(f"{below}.orders"), transform="orders:clean", target=target))
    pipeline = Pipeline(name="orders", flows=tuple(feeds))
    assert [bool(pipeline.names_of(flow)) for flow in ("bronze", "silver", "gold", "unknown")] == [
        True,
        True,
        False,
        False,
    ]
