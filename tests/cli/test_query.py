"""`tidegate query` prints the result of a query on tables of the lake."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import write_deltalake

from tests.cli.project import Project, Result
from tidegate.cli.query import query
from tidegate.cli.values import plain, text
from tidegate.errors import RequestError
from tidegate.lake.place import PipelinePlace

Ask = Callable[..., Result]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A table with values of many kinds in its first row, and NULL in the second."""
    project = Project.make(tmp_path_factory.mktemp("query") / "project")
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
    write_deltalake(str(PipelinePlace(project.layout, "orders").ops("ledger")), pyarrow.table({"flow": ["silver"]}))
    return project


@pytest.fixture
def ask(lake: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs the command in this process."""
    for name, value in lake.variables.items():
        monkeypatch.setenv(name, value)
    # The command makes the project importable, here and in child processes.
    monkeypatch.setenv("PYTHONPATH", str(lake.folder))
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(sql: str | None = None, **options: Any) -> Result:
        query(sql, **options)
        printed = capsys.readouterr()
        return Result(0, printed.out, printed.err)

    return run


def test_a_table_shows_null_and_shortens_long_values(ask: Ask) -> None:
    result = ask("SELECT name, amount, sent, items, empty, long FROM silver.orders")
    line = result.row("1.50")
    assert line.startswith('a, "b"\\nc')
    assert "2026-03-01T23:30:00Z" in line
    assert '[{"sku": "é", "n": 1}]' in line
    assert line.endswith("x" * 79 + "…")
    assert result.out.splitlines()[-1].split() == ["NULL"] * 6


def test_only_the_first_rows_are_shown_and_the_note_says_so(ask: Ask) -> None:
    sql = "SELECT a.name FROM silver.orders a, range(100)"
    result = ask(sql)
    assert len(result.out.splitlines()) == 2 + 100
    assert "there are more than 100 rows; --limit ROWS shows more" in result.err
    result = ask(sql, limit=200)
    assert (len(result.out.splitlines()), result.err) == (2 + 200, "")


def test_json_has_every_row_with_plain_values(ask: Ask) -> None:
    result = ask("FROM silver.orders", as_json=True)
    first = ['a, "b"\nc', "1.50", "2026-03-01T23:30:00Z", [{"sku": "é", "n": 1}], "nan", "", "x" * 200]
    assert result.json == {
        "format": 1,
        "columns": ["name", "amount", "sent", "items", "share", "empty", "long"],
        "rows": [first, [None] * 7],
        "complete": True,
    }
    limited = ask("FROM silver.orders", as_json=True, limit=1).json
    assert (len(limited["rows"]), limited["complete"]) == (1, False)


def test_csv_tells_null_from_the_empty_text(ask: Ask) -> None:
    result = ask("SELECT name, empty, NULL AS nothing, amount FROM silver.orders", as_csv=True)
    assert result.out == 'name,empty,nothing,amount\n"a, ""b""\nc","",,1.50\n,,,\n'
    assert next(csv.DictReader(io.StringIO(result.out)))["name"] == 'a, "b"\nc'


def test_without_sql_the_tables_are_listed(ask: Ask) -> None:
    result = ask()
    assert result.row("silver.orders").split()[1:4] == ["0", "name,", "amount,"]
    assert result.row("ops.orders.ledger").split()[1:] == ["0", "flow"]
    names = [table["table"] for table in ask(as_json=True).json["tables"]]
    assert names == ["ops.orders.ledger", "silver.orders"]


def test_errors_end_with_the_code_for_wrong_usage(lake: Project) -> None:
    missing = lake.run("query", "FROM gold.orders")
    assert (missing.code, "The lake has: ops.orders.ledger, silver.orders" in missing.err) == (64, True), missing.err
    assert lake.run("query", "FROM silver.orders", "--at", "silver.orders=0", "--csv").code == 0


def test_options_that_mean_nothing_are_refused(ask: Ask) -> None:
    with pytest.raises(RequestError, match="is not TABLE=VERSION"):
        ask("FROM silver.orders", at=["silver.orders"])
    with pytest.raises(RequestError, match="exclude each other"):
        ask("SELECT 1", as_json=True, as_csv=True)


def test_an_empty_project_has_no_tables(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_LAKE", str(tmp_path))
    assert "has no tables yet" in ask().out


def test_values_that_json_does_not_have_are_texts() -> None:
    assert plain(math.inf) == "inf"
    assert plain({1: b"text", "raw": b"\xff"}) == {"1": "text", "raw": "\\xff"}
    assert text({"a": None, "b": [True]}) == '{"a": null, "b": [true]}'
    assert json.loads(text([1.5])) == [1.5]
