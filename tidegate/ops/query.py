"""SQL over one Delta table with delta-rs and DuckDB: no JVM, and not pyarrow or pandas, which take a second to load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.ops import store


def columns(path: Path) -> tuple[str, ...]:
    """The names of a table's columns; none when there is no table."""
    table = store.opened(path)
    return () if table is None else tuple(field.name for field in table.schema().fields)


def query(
    path: Path, columns: Sequence[str], sql: str, values: Sequence[Any] | Mapping[str, Any] = (), *, where: str = "true"
) -> list[dict[str, Any]]:
    """The rows of a query; none when there is no table.

    Args:
        path: The Delta table.
        columns: What is read of it; nothing else leaves the files.
        sql: DuckDB's SQL over these columns of the table ``held``.
        values: For each ``?`` in it, or by name for each ``$name``.
        where: Which rows are read, as a condition that delta-rs pushes down to the files.
    """
    table = store.opened(path)
    if table is None:
        return []
    import duckdb
    from deltalake import QueryBuilder

    wanted = ", ".join(f'"{column}"' for column in columns)
    rows = QueryBuilder().register("source", table).execute(f"SELECT {wanted} FROM source WHERE {where}")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("held", rows)
        cursor = connection.execute(sql, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
