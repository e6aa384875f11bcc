"""SQL over one Delta table, without a JVM."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pytest
from deltalake import write_deltalake

from tidegate.ops import query


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "orders"
    rows = {
        "name": ["a", "b", "c"],
        "amount": [1, None, 3],
        "sent": [datetime(2026, 3, day, 23, 30, tzinfo=UTC) for day in (1, 2, 3)],
    }
    write_deltalake(str(path), pyarrow.table(rows))
    return path


def test_rows_come_by_the_names_of_their_columns(table: Path) -> None:
    found = query.query(table, ["name", "amount"], "SELECT name, amount * 2 AS twice FROM held ORDER BY name")
    assert found == [{"name": "a", "twice": 2}, {"name": "b", "twice": None}, {"name": "c", "twice": 6}]


def test_values_are_never_part_of_the_sql(table: Path) -> None:
    asked = "SELECT count(*) AS n FROM held WHERE name = $name"
    assert query.query(table, ["name"], asked, {"name": "b"}) == [{"n": 1}]
    assert query.query(table, ["name"], asked, {"name": "b' OR 'x' = 'x"}) == [{"n": 0}]
    assert query.query(table, ["name"], "SELECT count(*) AS n FROM held WHERE name IN (?, ?)", ["a", "c"]) == [{"n": 2}]


def test_a_condition_leaves_rows_where_they_are(table: Path) -> None:
    found = query.query(table, ["name"], "SELECT name FROM held ORDER BY name", where="amount IS NOT NULL")
    assert [row["name"] for row in found] == ["a", "c"]


def test_days_are_those_of_utc_wherever_the_machine_stands(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    found = query.query(table, ["sent"], "SELECT min(sent)::DATE::VARCHAR AS day FROM held")
    assert found == [{"day": "2026-03-01"}]


def test_where_there_is_no_table_there_are_no_columns_and_no_rows(tmp_path: Path, table: Path) -> None:
    assert query.columns(table) == ("name", "amount", "sent")
    assert query.columns(tmp_path / "nowhere") == ()
    assert query.query(tmp_path / "nowhere", ["name"], "SELECT * FROM held") == []


def test_neither_pyarrow_nor_pandas_is_loaded_for_it(table: Path) -> None:
    asked = (
        "import sys; from pathlib import Path; from tidegate.ops import query; "
        f"print(query.query(Path({str(table)!r}), ['name'], 'SELECT count(*) AS n FROM held')); "
        "print(sorted({'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[{'n': 3}]", "[]"]
