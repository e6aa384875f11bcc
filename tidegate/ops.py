"""The platform's own small Delta tables about a pipeline: appended and read with delta-rs, without a JVM.

A commit is a rename that fails when the name exists, so writers in different processes do not lose each other's lines
(docs/adr/0002).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow


def append(path: Path, schema: pyarrow.Schema, rows: Sequence[Mapping[str, Any]], commit: Any = None) -> None:
    """Add rows in one commit; columns that the table lacks are added to it.

    Args:
        path: `Layout.ops`.
        schema: Names and types of the columns.
        rows: Each with a value for every column.
        commit: delta-rs' ``CommitProperties``, for a commit that carries a transaction id.
    """
    import pyarrow
    from deltalake import write_deltalake

    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist([dict(row) for row in rows], schema=schema)
    write_deltalake(str(path), table, mode="append", schema_mode="merge", commit_properties=commit)


def select(path: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query over the table ``held``; none when there is no table.

    Args:
        path: The Delta table.
        sql: With names and numbers of ours only; nothing that a person typed may end a literal in it.
    """
    if not (path / "_delta_log").is_dir():
        return []
    from deltalake import DeltaTable, QueryBuilder

    found: Any = QueryBuilder().register("held", DeltaTable(str(path))).execute(sql).read_all()
    # As the reader hands them over: pyarrow would take longer to load than the query takes.
    rows: list[dict[str, Any]] = found.to_struct_array().to_pylist()
    return rows
