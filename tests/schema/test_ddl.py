"""DDL is parsed without Spark."""

from __future__ import annotations

import pytest

from tidegate.errors import FieldError
from tidegate.schema.ddl import Column, parse_ddl


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
