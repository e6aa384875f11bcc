"""Queries one Delta table with delta-rs and DuckDB. Starts no JVM, and does not import pyarrow or pandas, which takes a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.ops import store


def columns(path: Path) -> tuple[str, ...]:
    """The names of a table's columns; none when there is no table."""
    table = store.open_table(path)
    return () if table is None else tuple(field.name for field in table.schema().fields)


def query(
    path: Path, columns: Sequence[str], sql: str, values: Sequence[Any] | Mapping[str, Any] = (), *, where: str = "true"
) -> list[dict[str, Any]]:
    """The rows of a query; none when there is no table.

    Args:
        sql: DuckDB's SQL over the table ``delta_table``, which has these columns.
        values: Parameters: one for each ``?``, or by name for each ``$name``.
        where: Condition on the rows to read; delta-rs pushes it down to the files.
    """
    table = store.open_table(path)
    if table is None:
        return []
    import duckdb
    from deltalake import QueryBuilder

    selected = ", ".join(f'"{column}"' for column in columns)
    rows = QueryBuilder().register("source", table).execute(f"SELECT {selected} FROM source WHERE {where}")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("delta_table", rows)
        cursor = connection.execute(sql, values)
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
