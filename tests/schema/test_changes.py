"""Classification of the differences between two lists of fields."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import json_codec
from tidegate.schema.changes import SchemaChange, compare, fingerprint, normal, relation
from tidegate.schema.ddl import Column, parse_ddl


def fields(ddl: str) -> tuple[Column, ...]:
    return parse_ddl("schema", ddl) if ddl else ()


def kinds(old: str, new: str) -> list[tuple[str, str]]:
    return [(change.kind, change.field) for change in compare(fields(old), fields(new))]


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("a INT", "a INT", []),
        ("a INT", "a integer", []),
        ("a INT, b STRING", "b STRING, a INT", []),
        ("a INT", "a INT, b STRING", [("addition", "b")]),
        ("a INT", "a INT, b STRING NOT NULL", [("narrowing", "b")]),
        ("a INT, zip STRING", "a INT", [("removal", "zip")]),
        ("a INT", "a BIGINT", [("widening", "a")]),
        ("a BIGINT", "a INT", [("narrowing", "a")]),
        ("a INT NOT NULL", "a INT", [("widening", "a")]),
        ("a INT", "a INT NOT NULL", [("narrowing", "a")]),
        ("a INT", "a BIGINT NOT NULL", [("type_change", "a")]),
        ("a INT", "a STRING", [("type_change", "a")]),
        ("a INT", "A INT", [("case_clash", "A")]),
        ("a INT", "a INT, A INT", [("case_clash", "A")]),
        ("dep_delay INT, b INT", "departure_delay INT, b INT", [("rename_suspect", "departure_delay")]),
        ("dep_delay INT", "departure_delay STRING", [("addition", "departure_delay"), ("removal", "dep_delay")]),
        ("userId STRING", "user_id STRING", [("rename_suspect", "user_id")]),
        ("a STRUCT<x: INT>", "a STRUCT<x: INT, y: STRING>", [("widening", "a")]),
        ("a STRUCT<x: INT, y: STRING>", "a STRUCT<x: INT>", [("narrowing", "a")]),
        ("a STRUCT<x: INT>", "a STRUCT<x: STRING>", [("type_change", "a")]),
        ("a STRUCT<x: INT>", "a struct < x integer >", []),
        ("a STRUCT<zipCode: INT>", "a STRUCT<zipcode: INT>", [("type_change", "a")]),
        ("a STRUCT<`x y`: INT>", "a STRUCT<`xy`: INT>", [("type_change", "a")]),
        ("a STRUCT<`x, y`: INT, z: INT>", "a STRUCT<z: INT, `x, y`: BIGINT>", [("widening", "a")]),
        ("a ARRAY<INT>", "a ARRAY<BIGINT>", [("widening", "a")]),
        ("a MAP<STRING, INT>", "a MAP<STRING, BOOLEAN>", [("type_change", "a")]),
        ("a ARRAY<INT>", "a INT", [("type_change", "a")]),
    ],
)
def test_each_difference_is_classified(old: str, new: str, changes: list[tuple[str, str]]) -> None:
    assert kinds(old, new) == changes


@pytest.mark.parametrize(
    ("small", "wide"),
    [
        ("TINYINT", "SMALLINT"),
        ("SMALLINT", "INT"),
        ("INT", "DOUBLE"),
        ("SMALLINT", "FLOAT"),
        ("FLOAT", "DOUBLE"),
        ("INT", "DECIMAL(12,2)"),
        ("BIGINT", "DECIMAL(19,0)"),
        ("DECIMAL(10,2)", "DECIMAL(12,3)"),
        ("VARCHAR(10)", "VARCHAR(20)"),
        ("VARCHAR(10)", "STRING"),
        ("DATE", "TIMESTAMP_NTZ"),
    ],
)
def test_a_change_to_a_type_that_holds_all_values_is_a_widening_and_its_reverse_a_narrowing(
    small: str, wide: str
) -> None:
    assert relation(Column("a", small), Column("a", wide)) == "widening"
    assert relation(Column("a", wide), Column("a", small)) == "narrowing"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("BIGINT", "DOUBLE"),
        ("INT", "FLOAT"),
        ("DECIMAL(10,2)", "DECIMAL(11,4)"),
        ("INT", "DECIMAL(5,0)"),
        ("DATE", "INT"),
    ],
)
def test_a_change_that_loses_values_in_both_directions_is_a_type_change(one: str, other: str) -> None:
    assert relation(Column("a", one), Column("a", other)) == "type_change"
    assert relation(Column("a", other), Column("a", one)) == "type_change"


def test_the_normal_form_of_a_type_keeps_the_names_of_nested_fields() -> None:
    kind = "Struct < zipCode : Integer, `geo point`: ARRAY< DEC(5, 2) >, `x`: MAP<string, STRUCT<`a,b` LONG>> >"
    text = "struct<zipCode:int,`geo point`:array<decimal(5,2)>,x:map<string,struct<`a,b`:bigint>>>"
    assert normal(kind) == text
    assert normal(text) == text


def test_an_unknown_type_matches_any_type() -> None:
    assert compare(fields("a INT NOT NULL"), [Column("a", "", required=True)]) == ()


def test_only_nullable_additions_and_a_removed_not_null_keep_the_checkpoint() -> None:
    old = fields("a INT NOT NULL, b INT, c INT, zip STRING, user_id INT")
    new = fields("a INT, b BIGINT, C INT, d STRING, e INT NOT NULL, userid INT")

    keeps_checkpoint = {change.field: change.keeps_checkpoint for change in compare(old, new)}

    assert keeps_checkpoint == {"a": True, "b": False, "C": False, "d": True, "e": False, "userid": False, "zip": False}


def test_each_former_field_is_in_at_most_one_suspected_rename() -> None:
    changes = compare(fields("user_id INT, account_id INT"), fields("userid INT, accountid INT"))

    assert [(change.field, change.formerly) for change in changes] == [
        ("userid", "user_id"),
        ("accountid", "account_id"),
    ]


def test_the_fingerprint_of_changes_is_independent_of_their_order() -> None:
    changes = compare(fields("a INT, b INT"), fields("a STRING, c DATE"))

    assert fingerprint("silver", changes) == fingerprint("silver", reversed(changes))
    assert fingerprint("silver", changes) != fingerprint("gold", changes)
    assert fingerprint("silver", changes) != fingerprint("silver", changes[:1])


def test_a_change_round_trips_through_json_and_its_identity() -> None:
    for change in compare(fields("a INT NOT NULL, dep_delay INT, z INT"), fields("A INT, departure_delay INT, n DATE")):
        assert json_codec.from_plain(json_codec.to_plain(change), SchemaChange) == change
        assert SchemaChange.from_identity(change.identity()) == change


names = st.sampled_from(["id", "ID", "user_id", "userId", "at", "amount", "Amount", "note"])
simple = st.sampled_from(["INT", "bigint", "DOUBLE", "STRING", "DATE", "decimal(10, 2)", "BOOLEAN", "TIMESTAMP"])
types = st.recursive(
    simple,
    lambda inner: st.one_of(
        inner.map(lambda kind: f"ARRAY<{kind}>"),
        inner.map(lambda kind: f"STRUCT<x: {kind}, y: INT>"),
        inner.map(lambda kind: f"MAP<STRING, {kind}>"),
    ),
    max_leaves=3,
)
schemas = st.lists(
    st.builds(Column, names, types, st.booleans()), max_size=6, unique_by=lambda column: column.name.lower()
)


@pytest.mark.slow
@given(schemas)
def test_a_schema_equals_itself_in_any_order(schema: list[Column]) -> None:
    assert compare(schema, list(reversed(schema))) == ()
    assert [normal(normal(column.type)) for column in schema] == [normal(column.type) for column in schema]


@pytest.mark.slow
@given(schemas, schemas)
def test_every_added_or_missing_field_is_in_exactly_one_change(old: list[Column], new: list[Column]) -> None:
    changes = compare(old, new)
    before, now = {column.name for column in old}, {column.name for column in new}
    added = [change.field for change in changes if change.kind != "removal" and change.field not in before]
    missing = [change.formerly or change.field for change in changes if change.formerly or change.kind == "removal"]

    assert sorted(added) == sorted(now - before)
    assert sorted(missing) == sorted(before - now)


@pytest.mark.slow
@given(schemas, schemas)
def test_comparing_in_reverse_reverses_every_class(old: list[Column], new: list[Column]) -> None:
    forward, backward = compare(old, new), compare(new, old)
    reverse = {"widening": "narrowing", "narrowing": "widening", "type_change": "type_change"}
    both = {column.name for column in old} & {column.name for column in new}

    assert {c.field: reverse[c.kind] for c in forward if c.field in both} == {
        c.field: c.kind for c in backward if c.field in both
    }
    clashes = [sorted([c.field, str(c.formerly)]) for c in forward if c.kind == "case_clash"]
    assert sorted(clashes) == sorted(sorted([c.field, str(c.formerly)]) for c in backward if c.kind == "case_clash")
