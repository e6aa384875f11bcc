"""Queries Delta tables with delta-rs and DuckDB, for the commands with which people look at data. Starts no JVM.

It does not import pyarrow or pandas, which takes a second. Without the extra ``query``, or ``job``, there is no DuckDB: plans, pages,
alerts and the platform's own tables (`tidegate.ops.store`) need delta-rs alone.

DuckDB reads Delta tables with an extension that it fetches when it is first used. Here delta-rs reads the tables, with deletion
vectors, mapped and partition columns, and DuckDB is given its Arrow batches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tidegate.probes import delta_table
from tidegate.store import Address

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

_SETTINGS = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
"""Nothing is fetched at run time."""
_shared: ContextVar[DuckDBPyConnection | None] = ContextVar("shared", default=None)
"""The database of `shared`."""


class Scan:
    """A Delta table for DuckDB's ``register``: each scan of a query reads it again, so a query may use it several times.

    Args:
        columns: Those to read; all by default.
        where: DataFusion's SQL: the rows to read. delta-rs skips files by it.
    """

    def __init__(self, table: DeltaTable, columns: Sequence[str] | None = None, where: str = "true") -> None:
        self.table = table
        self.columns = delta_table.column_names(table) if columns is None else tuple(columns)
        self.where = where
        self.needed: Collection[str] | None = None
        """If set, all other columns are NULL and are not read."""

    def __arrow_c_schema__(self) -> object:
        return self._batches().schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._batches().__arrow_c_stream__(requested_schema)

    def _batches(self) -> Any:
        """Arrow's batches, which are read when they are taken."""
        selected = ", ".join(self._expression(column) for column in self.columns)
        builder = delta_table.query_builder().register("source", self.table)
        return builder.execute(f"SELECT {selected} FROM source WHERE {self.where}")

    def _expression(self, column: str) -> str:
        name = delta_table.quoted(column)
        if self.needed is None or column in self.needed:
            return name
        # A NULL of the column's type.
        return f"CASE WHEN false THEN {name} END AS {name}"


def connect() -> DuckDBPyConnection:
    """A database in memory, in UTC, which reads and fetches nothing by itself; within `shared`, a connection to one. Close it."""
    database = _shared.get()
    return _database() if database is None else database.cursor()


@contextmanager
def shared() -> Iterator[None]:
    """Within it all queries use one database, because a new one costs 15 ms. No process may be forked within it."""
    with _database() as database:
        token = _shared.set(database)
        try:
            yield
        finally:
            _shared.reset(token)


def _database() -> DuckDBPyConnection:
    import duckdb

    database = duckdb.connect(config=dict(_SETTINGS))
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database


def query(
    address: Address,
    columns: Sequence[str],
    sql: str,
    values: Sequence[Any] | Mapping[str, Any] = (),
    *,
    where: str = "true",
) -> list[dict[str, Any]]:
    """The rows of a query; none when there is no table.

    Args:
        sql: DuckDB's SQL over the table ``delta_table``, which has these columns.
        values: Parameters: one for each ``?``, or by name for each ``$name``.
        where: Condition on the rows to read; delta-rs pushes it down to the files.
    """
    table = delta_table.find_small(address)
    if table is None:
        return []
    with connect() as connection, reading(address):
        connection.register("delta_table", Scan(table, columns, where))
        return rows_of(connection.execute(sql, values))


@contextmanager
def reading(address: Address) -> Iterator[None]:
    """Raise `TableUnreadableError` if delta-rs, or DuckDB before it, fails to read rows of the table inside."""
    import duckdb

    with delta_table.reading(address):
        try:
            yield
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            delta_table.raise_unreadable(address, error)


def rows_of(cursor: DuckDBPyConnection) -> list[dict[str, Any]]:
    """All rows of an executed query, by the names of its columns."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
