"""A copy of small Delta tables in memory, for pages that are asked for again and again. Starts no JVM.

A ledger grows by one small file a batch, and opening a thousand files takes a second. The copy opens each file once:
before a look it asks the table's log whether there is a newer version, which costs two calls of `stat`, and then reads
only the files that are new. Files that a version no longer names (compacted, deleted) leave the copy with it, so a look
always shows one whole version of a table, also while a job writes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.ops import store

if TYPE_CHECKING:
    import duckdb
    from deltalake import DeltaTable


@dataclass(frozen=True, kw_only=True)
class Copied:
    """What is copied of tables of one kind: those of all pipelines stand in one table of the copy."""

    name: str
    """Of the table in the copy; it has the columns below and ``pipeline``."""
    columns: Mapping[str, str]
    """Column to DuckDB's type. One that a file does not have is NULL."""
    derived: Mapping[str, str] = field(default_factory=dict)
    """Column to the SQL that makes it of a file's columns, where the whole would be too large to keep."""


@dataclass
class _Held:
    files: set[str] = field(default_factory=set)
    table: DeltaTable | None = None
    version: int = -1
    mark: tuple[int, int] | None = None
    """Of the log entry of that version; another one means that the table was made anew."""


class Mirror:
    """The copies of one lake's tables. Threads may share it.

    It must be made in the process that uses it: delta-rs and DuckDB have threads that do not survive a fork.
    """

    def __init__(self, kinds: Sequence[Copied]) -> None:
        import duckdb

        self._kinds = {kind.name: kind for kind in kinds}
        self._held: dict[tuple[str, str], _Held] = {}
        self._lock = threading.Lock()
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = 'UTC'")
        for kind in kinds:
            columns = ", ".join(f'"{name}" {type_}' for name, type_ in kind.columns.items())
            self._connection.execute(f'CREATE TABLE "{kind.name}" (pipeline VARCHAR, _file VARCHAR, {columns})')

    def refresh(self, kind: str, pipeline: str, path: Path) -> int:
        """Bring one table's copy up to its newest version; a table that is not there is empty.

        Args:
            kind: The name of one of the kinds.
            pipeline: Whose table it is.
            path: Where the Delta table lies.

        Returns:
            How many files were opened for it.
        """
        with self._lock:
            held = self._held.setdefault((kind, pipeline), _Held())
            if (
                held.mark is not None
                and _mark(path, held.version) == held.mark
                and not _log(path, held.version + 1).exists()
            ):
                return 0
            return self._catch_up(self._kinds[kind], pipeline, path, held)

    def query(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[dict[str, Any]]:
        """The rows of a query over the copies.

        Args:
            sql: DuckDB's SQL.
            values: For each ``?`` in it, or by name for each ``$name``.
        """
        with self._connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            cursor.execute(sql, values)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _catch_up(self, kind: Copied, pipeline: str, path: Path, held: _Held) -> int:
        table = _opened(path, held)
        now = set(table.file_uris()) if table is not None else set()
        gone, new = held.files - now, sorted(now - held.files)
        if gone or new:
            with self._connection.cursor() as cursor:
                cursor.execute("BEGIN")
                try:
                    self._forget(cursor, kind, pipeline, gone)
                    self._read(cursor, kind, pipeline, new)
                    cursor.execute("COMMIT")
                except BaseException:
                    cursor.execute("ROLLBACK")
                    held.mark = None
                    raise
        held.files, held.table = now, table
        held.version = table.version() if table is not None else -1
        held.mark = _mark(path, held.version) if table is not None else None
        return len(new)

    @staticmethod
    def _forget(cursor: duckdb.DuckDBPyConnection, kind: Copied, pipeline: str, files: set[str]) -> None:
        if files:
            cursor.execute(
                f'DELETE FROM "{kind.name}" WHERE pipeline = ? AND list_contains(?, _file)', [pipeline, sorted(files)]
            )

    @staticmethod
    def _read(cursor: duckdb.DuckDBPyConnection, kind: Copied, pipeline: str, files: list[str]) -> None:
        if not files:
            return
        source = "read_parquet(?, union_by_name = true, filename = true)"
        cursor.execute(f"SELECT * FROM {source} LIMIT 0", [files])
        there = {column[0] for column in cursor.description or ()}
        chosen = [f'"{name}"' for name in kind.columns if name in there and name not in kind.derived]
        chosen += [f'{sql} AS "{name}"' for name, sql in kind.derived.items()]
        cursor.execute(
            f'INSERT INTO "{kind.name}" BY NAME SELECT ? AS pipeline, filename AS _file, {", ".join(chosen)} FROM {source}',
            [pipeline, files],
        )


def _opened(path: Path, held: _Held) -> DeltaTable | None:
    if held.table is not None and held.mark is not None and _mark(path, held.version) == held.mark:
        held.table.update_incremental()
        return held.table
    return store.opened(path)


def _log(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


def _mark(path: Path, version: int) -> tuple[int, int] | None:
    try:
        told = _log(path, version).stat()
    except OSError:
        return None
    return told.st_ino, told.st_mtime_ns
