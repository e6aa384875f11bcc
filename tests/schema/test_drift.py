"""Every difference between two lists of fields has one class, and the class says what it asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.schema.ddl import Column, parse_ddl
from tidegate.schema.drift import Change, compare, fingerprint, normal, relation


def fields(ddl: str) -> tuple[Column, ...]:
    return parse_ddl("schema", ddl) if ddl else ()


def classed(old: str, new: str) -> list[tuple[str, str]]:
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
        ("a ARRAY<INT>", "a ARRAY<BIGINT>", [("widening", "a")]),
        ("a MAP<STRING, INT>", "a MAP<STRING, BOOLEAN>", [("type_change", "a")]),
        ("a ARRAY<INT>", "a INT", [("type_change", "a")]),
    ],
)
def test_each_difference_has_its_class(old: str, new: str, changes: list[tuple[str, str]]) -> None:
    assert classed(old, new) == changes


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
def test_a_type_that_holds_every_value_is_wider_and_the_way_back_is_narrower(small: str, wide: str) -> None:
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
def test_types_that_lose_values_either_way_are_another_type(one: str, other: str) -> None:
    assert relation(Column("a", one), Column("a", other)) == "type_change"
    assert relation(Column("a", other), Column("a", one)) == "type_change"


def test_a_type_that_nobody_knows_fits_any() -> None:
    assert compare(fields("a INT NOT NULL"), [Column("a", "", required=True)]) == ()


def test_only_nullable_additions_and_lifted_not_null_keep_a_checkpoint() -> None:
    old = fields("a INT NOT NULL, b INT, c INT, zip STRING, user_id INT")
    new = fields("a INT, b BIGINT, C INT, d STRING, e INT NOT NULL, userid INT")

    kept = {change.field: change.keeps_checkpoint for change in compare(old, new)}

    assert kept == {"a": True, "b": False, "C": False, "d": True, "e": False, "userid": False, "zip": False}


def test_a_rename_names_the_former_field_once() -> None:
    changes = compare(fields("user_id INT, account_id INT"), fields("userid INT, accountid INT"))

    assert [(change.field, change.formerly) for change in changes] == [
        ("userid", "user_id"),
        ("accountid", "account_id"),
    ]


def test_a_drift_has_one_name_in_whatever_order_its_changes_are_seen() -> None:
    changes = compare(fields("a INT, b INT"), fields("a STRING, c DATE"))

    assert fingerprint("silver", changes) == fingerprint("silver", reversed(changes))
    assert fingerprint("silver", changes) != fingerprint("gold", changes)
    assert fingerprint("silver", changes) != fingerprint("silver", changes[:1])


def test_a_change_survives_being_written_down() -> None:
    for change in compare(fields("a INT NOT NULL, dep_delay INT, z INT"), fields("A INT, departure_delay INT, n DATE")):
        assert Change.from_json(change.to_json()) == change
        assert Change.from_identity(change.identity()) == change


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


@given(schemas)
def test_a_schema_does_not_differ_from_itself(schema: list[Column]) -> None:
    assert compare(schema, list(reversed(schema))) == ()
    assert [normal(normal(column.type)) for column in schema] == [normal(column.type) for column in schema]


@given(schemas, schemas)
def test_every_field_that_came_or_went_is_in_exactly_one_change(old: list[Column], new: list[Column]) -> None:
    changes = compare(old, new)
    before, now = {column.name for column in old}, {column.name for column in new}
    came = [change.field for change in changes if change.kind != "removal" and change.field not in before]
    went = [change.formerly or change.field for change in changes if change.formerly or change.kind == "removal"]

    assert sorted(came) == sorted(now - before)
    assert sorted(went) == sorted(before - now)


@given(schemas, schemas)
def test_the_way_back_turns_every_class_around(old: list[Column], new: list[Column]) -> None:
    there, back = compare(old, new), compare(new, old)
    turned = {"widening": "narrowing", "narrowing": "widening", "type_change": "type_change"}
    both = {column.name for column in old} & {column.name for column in new}

    assert {c.field: turned[c.kind] for c in there if c.field in both} == {
        c.field: c.kind for c in back if c.field in both
    }
    clashes = [sorted([c.field, str(c.formerly)]) for c in there if c.kind == "case_clash"]
    assert sorted(clashes) == sorted(sorted([c.field, str(c.formerly)]) for c in back if c.kind == "case_clash")
