"""`tidegate query` prints the result of a query on tables of the lake."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow
import pytest
from deltalake import write_deltalake

from tests.cli.project import Project
from tidegate.cli.values import plain, text


@pytest.fixture
def lake(project: Project) -> Project:
    """A table with values of many kinds in its first row, and NULL in the second."""
    rows = {
        "name": ['a, "b"\nc', None],
        "amount": [Decimal("1.50"), None],
        "sent": [datetime(2026, 3, 1, 23, 30, tzinfo=UTC), None],
        "items": [[{"sku": "é", "n": 1}], None],
        "share": [math.nan, None],
        "empty": ["", None],
        "long": ["x" * 200, None],
    }
    write_deltalake(str(project.layout.table("silver.orders")), pyarrow.table(rows))
    return project


def test_a_table_shows_null_and_shortens_long_values(lake: Project) -> None:
    result = lake.run("query", "SELECT name, amount, sent, items, empty, long FROM silver.orders")
    assert result.code == 0, result.err
    line = result.row("1.50")
    assert line.startswith('a, "b"\\nc')
    assert "2026-03-01T23:30:00Z" in line
    assert '[{"sku": "é", "n": 1}]' in line
    assert line.endswith("x" * 79 + "…")
    assert result.out.splitlines()[-1].split() == ["NULL"] * 6


def test_only_the_first_rows_are_shown_and_the_note_says_so(lake: Project) -> None:
    sql = "SELECT a.name FROM silver.orders a, range(100)"
    result = lake.run("query", sql)
    assert len(result.out.splitlines()) == 2 + 100
    assert "there are more than 100 rows; --limit ROWS shows more" in result.err
    result = lake.run("query", sql, "--limit", "200")
    assert (len(result.out.splitlines()), result.err) == (2 + 200, "")


def test_json_has_every_row_with_plain_values(lake: Project) -> None:
    result = lake.run("query", "FROM silver.orders", "--json")
    first = ['a, "b"\nc', "1.50", "2026-03-01T23:30:00Z", [{"sku": "é", "n": 1}], "nan", "", "x" * 200]
    assert result.json == {
        "format": 1,
        "columns": ["name", "amount", "sent", "items", "share", "empty", "long"],
        "rows": [first, [None] * 7],
        "complete": True,
    }
    limited = lake.run("query", "FROM silver.orders", "--json", "--limit", "1").json
    assert (len(limited["rows"]), limited["complete"]) == (1, False)


def test_csv_tells_null_from_the_emptytext(lake: Project) -> None:
    result = lake.run("query", "SELECT name, empty, NULL AS nothing, amount FROM silver.orders", "--csv")
    assert result.out == 'name,empty,nothing,amount\n"a, ""b""\nc","",,1.50\n,,,\n'
    assert next(csv.DictReader(io.StringIO(result.out)))["name"] == 'a, "b"\nc'


def test_without_sql_the_tables_are_listed(lake: Project) -> None:
    write_deltalake(str(lake.layout.ops("orders", "ledger")), pyarrow.table({"flow": ["silver"]}))
    result = lake.run("query")
    assert result.row("silver.orders").split()[1:4] == ["0", "name,", "amount,"]
    assert result.row("ops.orders.ledger").split()[1:] == ["0", "flow"]
    names = [table["table"] for table in lake.run("query", "--json").json["tables"]]
    assert names == ["ops.orders.ledger", "silver.orders"]


def test_errors_end_with_the_code_for_wrong_usage(lake: Project) -> None:
    missing = lake.run("query", "FROM gold.orders")
    assert (missing.code, "The lake has: silver.orders" in missing.err) == (64, True), missing.err
    wrong = lake.run("query", "FROM silver.orders", "--at", "silver.orders")
    assert (wrong.code, "is not TABLE=VERSION" in wrong.err) == (64, True), wrong.err
    assert lake.run("query", "FROM silver.orders", "--at", "silver.orders=0").code == 0
    assert lake.run("query", "SELECT 1", "--json", "--csv").code == 64


def test_an_empty_project_has_no_tables(project: Project) -> None:
    assert "has no tables yet" in project.run("query").out


def test_values_that_json_does_not_have_are_texts() -> None:
    assert plain(math.inf) == "inf"
    assert plain({1: b"text", "raw": b"\xff"}) == {"1": "text", "raw": "\\xff"}
    assert text({"a": None, "b": [True]}) == '{"a": null, "b": [true]}'
    assert json.loads(text([1.5])) == [1.5]
