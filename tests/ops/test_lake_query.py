"""SQL over all tables of a lake, by their names."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake
from duckdb import DuckDBPyConnection

from tidegate.errors import RequestError
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.ops import lake_query, query
from tidegate.store import Address


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A lake that tests only read."""
    return made(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def copies(layout: Layout) -> Iterator[DuckDBPyConnection]:
    """Copies of the tables in DuckDB, of which it reads all columns."""
    with query.connect() as connection:
        for name, path in layout.delta_tables().items():
            if name.count(".") == 1:
                connection.execute(f"CREATE SCHEMA {name.split('.')[0]}")
                connection.register(f"copied_{name}", query.Scan(DeltaTable(str(path))))
                connection.execute(f'CREATE TABLE {name} AS FROM "copied_{name}"')
        yield connection


@pytest.fixture
def changing(tmp_path: Path) -> Layout:
    """The same lake for one test."""
    return made(tmp_path)


def made(folder: Path) -> Layout:
    """A lake with a table of flights by day, airlines, one quarantine table and one ledger."""
    layout = Layout.local(folder / "lake", folder / "landing")
    write(
        layout.table("silver.flights"),
        {
            "number": [1, 2, 3],
            "day": ["2026-01-01", "2026-01-01", None],
            "origin": [{"path": "a.csv", "line": 5}, {"path": "b.csv", "line": 7}, None],
            "_deleted": [False, False, True],
        },
        partition_by=["day"],
    )
    write(layout.table("gold.airlines"), {"number": [1, 3], "name": ["Ada Air", None]})
    write(FlowPlace(layout, "flights", "silver").quarantine, {"_row_id": ["a.csv#9"], "rules": [["not_null(day)"]]})
    write(PipelinePlace(layout, "flights").ops("ledger"), {"flow": ["silver"], "read": [4]})
    return layout


def write(path: Path | Address, columns: Mapping[str, Any], **more: Any) -> None:
    write_deltalake(str(path), pyarrow.table(dict(columns)), mode="append", **more)


def rows(layout: Layout, sql: str, **versions: int) -> list[tuple[Any, ...]]:
    at = {name.replace("__", "."): version for name, version in versions.items()}
    with lake_query.execute(layout, sql, at) as result:
        return list(lake_query.fetched(result, None))


def test_tables_of_every_part_of_the_lake_are_joined_by_their_names(layout: Layout) -> None:
    sql = """
        SELECT f.number, a.name, q._row_id, l.read FROM silver.flights f LEFT JOIN "gold"."airlines" a USING (number),
            quarantine.flights.silver q, ops . flights . ledger l ORDER BY f.number
    """
    assert rows(layout, sql) == [
        (1, "Ada Air", "a.csv#9", 4),
        (2, None, "a.csv#9", 4),
        (3, None, "a.csv#9", 4),
    ]


def test_names_are_the_same_in_upper_case_and_in_every_form_of_a_query(layout: Layout) -> None:
    assert rows(layout, "FROM SILVER.Flights SELECT count(*)") == [(3,)]
    assert [row[0] for row in rows(layout, "DESCRIBE silver.flights")] == ["number", "day", "origin", "_deleted"]
    assert len(rows(layout, "SUMMARIZE gold.airlines")) == 2
    assert rows(layout, "WITH f AS (SELECT max(number) AS n FROM silver.flights) FROM f") == [(3,)]


def test_a_query_may_scan_a_table_several_times(layout: Layout) -> None:
    sql = "SELECT count(*) FROM silver.flights a, silver.flights b WHERE a.number <= (SELECT max(number) FROM silver.flights)"
    assert rows(layout, sql) == [(9,)]


def test_columns_that_a_query_does_not_need_are_not_read(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = query.Scan._expression

    def record(scan: query.Scan, column: str) -> str:
        expression = original(scan, column)
        read.append(expression)
        return expression

    monkeypatch.setattr(query.Scan, "_expression", record)
    assert rows(layout, "SELECT sum(number) FROM silver.flights") == [(6,)]
    # DuckDB asks for the schema of all columns first.
    assert read.count('"number"') > read.count('"origin"')
    assert 'CASE WHEN false THEN "origin" END AS "origin"' in read


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT origin.path FROM silver.flights WHERE origin.line = 7", [("b.csv",)]),
        ("SELECT f.day FROM silver.flights f NATURAL JOIN gold.airlines ORDER BY f.number", [("2026-01-01",), (None,)]),
        ("SELECT f FROM (SELECT * EXCLUDE (origin, _deleted) FROM silver.flights) f WHERE number = 2", None),
        ("SELECT count(*) FROM silver.flights WHERE day IS NULL", [(1,)]),
        (
            "SELECT number FROM silver.flights QUALIFY row_number() OVER (PARTITION BY day ORDER BY number DESC) = 1",
            None,
        ),
        (
            "SELECT (SELECT name FROM gold.airlines a WHERE a.number = f.number) FROM silver.flights f WHERE day > ''",
            None,
        ),
        ("SELECT number FROM silver.flights WHERE false", []),
    ],
)
def test_the_columns_that_a_query_needs_are_read(
    layout: Layout, copies: DuckDBPyConnection, sql: str, expected: list[Any] | None
) -> None:
    actual = sorted(rows(layout, sql), key=repr)
    assert actual == sorted(copies.execute(sql).fetchall(), key=repr)
    assert expected is None or actual == sorted(expected, key=repr)


def test_a_table_is_read_at_a_version(changing: Layout) -> None:
    write(changing.table("gold.airlines"), {"number": [2], "name": ["Late"]})
    assert rows(changing, "SELECT count(*) FROM gold.airlines") == [(3,)]
    assert rows(changing, "SELECT count(*) FROM gold.airlines", gold__airlines=0) == [(2,)]


@pytest.mark.parametrize(
    ("sql", "at", "words"),
    [
        ("FROM gold.flights", {}, "gold.airlines, ops.flights.ledger, quarantine.flights.silver, silver.flights"),
        ("FROM quarantine.flights.gold", {}, "The lake has: gold.airlines"),
        ("SELECT carrier\nFROM silver.flights", {}, '"carrier" not found'),
        ("SELECT FROM", {}, "Parser Error"),
        ("SELECT number::DATE FROM silver.flights", {}, "Conversion Error"),
        ("SELECT error('row') FROM silver.flights", {}, "the query failed: Invalid Input Error: row."),
        ("FROM silver.flights", {"silver.flights": 7}, "--at silver.flights=7: that version does not exist"),
        ("FROM silver.flights", {"gold.x": 1}, "--at gold.x=1: the lake has no table 'gold.x'"),
        ("FROM silver.flights", {"gold.airlines": 0}, "the query does not read 'gold.airlines'"),
    ],
)
def test_what_is_wrong_is_said(layout: Layout, sql: str, at: dict[str, int], words: str) -> None:
    with pytest.raises(RequestError) as caught, lake_query.execute(layout, sql, at) as result:
        list(lake_query.fetched(result, None))
    assert words in caught.value.message
    assert "LINE" not in caught.value.message


def test_a_version_whose_files_were_removed_is_an_error(changing: Layout) -> None:
    for file in Path(changing.table("gold.airlines")).glob("*.parquet"):
        file.unlink()
    with pytest.raises(RequestError, match="the query failed"):
        rows(changing, "FROM gold.airlines")


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM silver.flights",
        "CREATE TABLE x AS SELECT 1",
        "COPY (SELECT 1) TO '{}/x.csv'",
        "ATTACH '{}/x.db'",
        "SELECT 1; SELECT 2",
        "INSTALL delta",
        "SET enable_external_access = true",
        "",
        "SELECT * FROM read_csv('{}/secret.csv')",
        "SELECT * FROM '{}/secret.csv'",
        "SELECT * FROM secret",
    ],
)
def test_a_query_reads_only_tables_and_writes_nothing(layout: Layout, tmp_path: Path, sql: str) -> None:
    secret = [{"a": 1}]  # a variable of Python, which DuckDB could read
    (tmp_path / "secret.csv").write_text("a\n1\n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RequestError):
        rows(layout, sql.format(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before
    assert secret


def test_nothing_is_fetched_from_the_network(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(RequestError):
        rows(layout, "SELECT * FROM read_xlsx('x.xlsx')")
    assert rows(layout, "SELECT day::DATE, now() > '2020-01-01' FROM silver.flights WHERE number = 1")[0][1] is True


@pytest.mark.slow
def test_tables_with_rows_of_deleted_keys_are_named_unless_the_query_considers_them(changing: Layout) -> None:
    def named(sql: str) -> tuple[str, ...]:
        with lake_query.execute(changing, sql, {}) as result:
            return result.tombstones

    assert named("SELECT count(*) FROM silver.flights, gold.airlines") == ("silver.flights",)
    assert named("SELECT count(*) FROM silver.flights WHERE NOT _deleted") == ()
    DeltaTable(str(changing.table("silver.flights"))).delete("_deleted")
    assert named("SELECT count(*) FROM silver.flights") == ()


def test_a_lake_without_tables_says_so(changing: Layout) -> None:
    shutil.rmtree(Path(changing.root))
    with pytest.raises(RequestError, match="has no tables yet"):
        rows(changing, "FROM silver.flights")
