"""DDL is parsed without Spark."""

from __future__ import annotations

import pytest

from tidegate.errors import FieldError
from tidegate.schema.ddl import Column, can_be_column, nested_fields, parse_ddl, quoted


def test_ddl_is_split_into_fields() -> None:
    assert parse_ddl(
        "x", "id BIGINT not null,\n `name` STRING, tags: array<struct<a:int,b:decimal(10,2)>>, d decimal(10, 2)"
    ) == (
        Column("id", "BIGINT", True),
        Column("name", "STRING", False),
        Column("tags", "array<struct<a:int,b:decimal(10,2)>>", False),
        Column("d", "decimal(10, 2)", False),
    )


@pytest.mark.parametrize("ddl", ["", ",", "id INT,", "id", "_id INT", "id-x INT", "`id INT", "id INT,,b INT"])
def test_invalid_ddl_is_refused(ddl: str) -> None:
    with pytest.raises(FieldError):
        parse_ddl("FileSource", ddl)


@pytest.mark.parametrize(
    ("name", "text"),
    [("zipCode", "zipCode"), ("_id", "_id"), ("a b", "`a b`"), ("x,y>", "`x,y>`"), ("a`b:", "`a``b:`")],
)
def test_a_quoted_name_of_a_nested_field_is_read_back(name: str, text: str) -> None:
    assert quoted(name) == text
    for separator in (":", ": ", " "):
        inside = f"{text}{separator}struct<c:int,d:decimal(4,2)>, other: int"
        assert nested_fields(inside) == [(name, "struct<c:int,d:decimal(4,2)>"), ("other", "int")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("int", True),
        ("struct<zipCode:string,tags:array<struct<a:int>>>", True),
        ("struct<`user-name`:string>", True),
        ("struct<`user name`:string>", False),
        ("array<struct<`a=b`:int>>", False),
        ("map<string,struct<a:int,A:int>>", False),
        ("struct<``:int>", False),
        ("struct<>", False),
        ("struct<parent:>", False),
    ],
)
def test_a_table_has_no_column_with_nested_names_that_delta_refuses_or_a_part_of_unknown_type(
    kind: str, expected: bool
) -> None:
    assert can_be_column(kind) is expected
