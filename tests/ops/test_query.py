"""Queries of one Delta table, without a JVM."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pyarrow
import pytest
from deltalake import write_deltalake

from tidegate.ops import query
from tidegate.probes import delta_table
from tidegate.store import Address

pytestmark = pytest.mark.slow


@pytest.fixture
def table(folder: Address) -> Address:
    path = folder / "orders"
    rows = {
        "name": ["a", "b", "c"],
        "amount": [1, None, 3],
        "sent": [datetime(2026, 3, day, 23, 30, tzinfo=UTC) for day in (1, 2, 3)],
    }
    write_deltalake(str(path), pyarrow.table(rows))
    return path


def test_rows_are_dictionaries_by_column_name(table: Address) -> None:
    rows = query.query(table, ["name", "amount"], "SELECT name, amount * 2 AS twice FROM delta_table ORDER BY name")
    assert rows == [{"name": "a", "twice": 2}, {"name": "b", "twice": None}, {"name": "c", "twice": 6}]


def test_values_are_passed_as_parameters(table: Address) -> None:
    sql = "SELECT count(*) AS n FROM delta_table WHERE name = $name"
    assert query.query(table, ["name"], sql, {"name": "b"}) == [{"n": 1}]
    assert query.query(table, ["name"], sql, {"name": "b' OR 'x' = 'x"}) == [{"n": 0}]
    assert query.query(table, ["name"], "SELECT count(*) AS n FROM delta_table WHERE name IN (?, ?)", ["a", "c"]) == [
        {"n": 2}
    ]


def test_a_condition_selects_the_rows_to_read(table: Address) -> None:
    rows = query.query(table, ["name"], "SELECT name FROM delta_table ORDER BY name", where="amount IS NOT NULL")
    assert [row["name"] for row in rows] == ["a", "c"]


def test_timestamps_are_in_utc_whatever_the_time_zone_of_the_machine(
    table: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    rows = query.query(table, ["sent"], "SELECT min(sent)::DATE::VARCHAR AS day FROM delta_table")
    assert rows == [{"day": "2026-03-01"}]


def test_a_missing_table_has_no_columns_and_no_rows(folder: Address, table: Address) -> None:
    assert delta_table.columns(table) == ("name", "amount", "sent")
    assert delta_table.columns(folder / "missing") == ()
    assert query.query(folder / "missing", ["name"], "SELECT * FROM delta_table") == []


def test_a_query_imports_neither_pyarrow_nor_pandas(table: Address) -> None:
    code = (
        "import sys; from pathlib import Path; from tidegate.ops import query; from tidegate.store import Address; "
        f"print(query.query(Address.local(Path({str(table)!r})), ['name'], 'SELECT count(*) AS n FROM delta_table')); "
        "print(sorted({'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["[{'n': 3}]", "[]"]
