"""SQL over all tables of a lake, by the names that users know: ``silver.flights``, ``quarantine.flights.silver``. Reads only."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.advice import Advice, Edit, OutsideAct
from tidegate.errors import RequestError
from tidegate.errors.classification import raise_machine
from tidegate.ops import query
from tidegate.probes import delta_table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

    from tidegate.lake.layout import Layout
    from tidegate.store import Address

_SCAN = "PYTHON_ARROW_SCAN"
"""What DuckDB's plans call a `query.Scan`."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """An executed query, whose rows have not been fetched."""

    cursor: DuckDBPyConnection
    columns: tuple[str, ...]
    tombstones: tuple[str, ...]
    """The tables it reads that have rows of deleted keys, if it does not name their column ``_deleted``."""


@contextmanager
def execute(layout: Layout, sql: str, versions: Mapping[str, int]) -> Iterator[Result]:
    """Execute one query; its rows can be fetched inside the ``with``.

    Args:
        sql: One statement of DuckDB's SQL that only reads.
        versions: The version of a table to read, by the table's name; the newest for all others.

    Raises:
        RequestError: A table or a version does not exist, or the query is wrong.
    """
    import duckdb

    known = layout.readable_tables()
    for name in versions.keys() - known.keys():
        raise RequestError(f"--at {name}={versions[name]}: the lake has no table {name!r}", _existing(layout))
    named = {name: path for name, path in known.items() if _names(sql, name)}
    for name in versions.keys() - named.keys():
        raise RequestError(
            f"--at {name}={versions[name]}: the query does not read {name!r}", Edit("leave it out", "request")
        )
    with TemporaryDirectory(prefix="tidegate-query-") as folder, query.connect() as connection:
        connection.execute(f"SET temp_directory = '{folder}'")
        scans = {name: query.Scan(_open(name, path, versions.get(name))) for name, path in named.items()}
        for catalog in sorted({name.split(".")[0] for name in scans if name.count(".") == 2}):
            connection.execute(f"ATTACH ':memory:' AS {delta_table.quoted(catalog)}")
        connection.execute("SET enable_external_access = false")
        try:
            for name, scan in scans.items():
                _create_view(connection, name, scan)
            _check_statement(connection, sql)
            needed = _needed_columns(connection, sql, scans.values())
            for scan in scans.values():
                scan.needed = needed
            cursor = connection.execute(sql)
            noticed = {} if hidden.DELETED in sql.lower() else scans
            tombstones = tuple(name for name, scan in noticed.items() if _keeps_tombstones(connection, scan))
        except duckdb.Error as error:
            raise_machine(error, "the query")
            advice = _existing(layout) if "Table with name" in str(error) else _CORRECT
            raise RequestError(_sentence(error), advice) from None
        yield Result(
            cursor=cursor, columns=tuple(column[0] for column in cursor.description or ()), tombstones=tombstones
        )


def fetched(result: Result, limit: int | None) -> Iterator[tuple[Any, ...]]:
    """The rows of a query, one after another, at most so many.

    Raises:
        RequestError: A row cannot be computed, or a file of the version no longer exists.
    """
    import duckdb

    left = limit
    try:
        while rows := result.cursor.fetchmany(1024 if left is None else min(left, 1024)):
            yield from rows
            left = None if left is None else left - len(rows)
    except duckdb.Error as error:
        raise_machine(error, "the query")
        raise RequestError(_sentence(error), _CORRECT) from None


def _names(sql: str, table: str) -> bool:
    """Whether the table's name occurs in the query; one in a literal or a comment costs only time."""
    text = re.sub(r"\s*\.\s*", ".", sql.replace('"', "")).lower()
    return re.search(rf"(?<!\w){re.escape(table.lower())}(?!\w)", text) is not None


def _open(name: str, path: Address, version: int | None) -> DeltaTable:
    table = delta_table.find(path)
    if table is None:
        raise RequestError(
            f"table {name!r} has no version yet: its first commit is not complete.", OutsideAct("try again later")
        )
    if version is None or version == table.version():
        return table
    try:
        return delta_table.open_table(path, version)
    except FileNotFoundError:
        raise RequestError(
            f"--at {name}={version}: that version does not exist, or its log was cleaned up",
            Edit(f"the newest is {table.version()}", "request"),
        ) from None


def _create_view(connection: DuckDBPyConnection, name: str, scan: query.Scan) -> None:
    *schema, table = name.split(".")
    parent = ".".join(map(delta_table.quoted, schema))
    connection.register(name, scan)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {parent}")
    connection.execute(f"CREATE VIEW {parent}.{delta_table.quoted(table)} AS FROM temp.main.{delta_table.quoted(name)}")


def _check_statement(connection: DuckDBPyConnection, sql: str) -> None:
    import duckdb

    statements = connection.extract_statements(sql)
    reads = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if len(statements) != 1 or statements[0].type not in reads:
        raise RequestError(
            "a query reads the lake and writes nothing",
            Edit("only one SELECT is allowed (or FROM, WITH, DESCRIBE, SUMMARIZE, EXPLAIN)", "request"),
        )


def _needed_columns(connection: DuckDBPyConnection, sql: str, scans: Collection[query.Scan]) -> frozenset[str] | None:
    """The columns that the plan of a query reads from any table; None if that is not certain, so that all are read."""
    import duckdb

    try:
        planned = connection.execute(f"EXPLAIN (FORMAT json) {sql}").fetchone()
    except duckdb.Error:
        # The query is wrong, which its execution reports, or of a form that has no plan, such as DESCRIBE.
        return None
    columns = frozenset(column for scan in scans for column in scan.columns)
    projected = list(_projections(json.loads(planned[1]))) if planned is not None else []
    # The plan names a field of a struct as column.field.
    read = [{column for column in columns if f"{each}.".startswith(f"{column}.")} for each in projected]
    return frozenset().union(*read) if read and all(read) else None


def _projections(nodes: list[dict[str, Any]]) -> Iterator[str]:
    for node in nodes:
        if node["name"].strip() == _SCAN:
            projections = node["extra_info"].get("Projections", [])
            yield from [projections] if isinstance(projections, str) else projections
            yield from node["extra_info"].get("Filters", [])
        yield from _projections(node["children"])


def _keeps_tombstones(connection: DuckDBPyConnection, scan: query.Scan) -> bool:
    if hidden.DELETED not in scan.columns:
        return False
    # Another cursor, because the rows of the query are still to be fetched.
    with connection.cursor() as cursor:
        cursor.register("deleted", query.Scan(scan.table, [hidden.DELETED], hidden.DELETED))
        return cursor.execute("FROM deleted LIMIT 1").fetchone() is not None


def _sentence(error: Exception) -> str:
    """DuckDB's message without the excerpt of the query."""
    message = re.split(r"\n\s*LINE \d+:", str(error))[0]
    return f"the query failed: {' '.join(message.split()).rstrip('.')}."


_CORRECT = Edit("correct the query", "request")


def _existing(layout: Layout) -> Advice:
    names = sorted(layout.readable_tables())
    has = f"the lake has: {', '.join(names)}" if names else f"the lake at {layout.root} has no tables yet"
    return Edit(f"{has}. A table exists when its flow has written it", "request")
