"""An in-memory copy of small Delta tables, for pages that are requested often. Starts no JVM.

A ledger grows by one small file a batch, and opening a thousand files takes a second. The cache opens each file once: before
a query it checks the table's log for a newer version, which costs two calls of `stat`, and then reads only new commits and
files. Rows of files that the new version no longer has (compacted, deleted) are removed, so a query always sees one complete
version of a table, also while a job writes.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.probes import delta, delta_log
from tidegate.store.copies import local_files

if TYPE_CHECKING:
    import duckdb

    from tidegate.store import Address


@dataclass(frozen=True, kw_only=True)
class CachedTable:
    """Definition of one cached table: it holds the rows of all pipelines' Delta tables of one kind."""

    name: str
    """Name of the cached table, which has the columns below and ``pipeline``."""
    columns: Mapping[str, str]
    """Column name to DuckDB type. A column that a file lacks is NULL."""
    derived: Mapping[str, str] = field(default_factory=dict)
    """Column name to the SQL that computes it from a file's columns, for columns that are too large to cache whole."""
    only: str = ""
    """SQL after the FROM that selects rows of the files that are read together, for a table of which only these are needed."""


@dataclass
class _State:
    files: set[str] = field(default_factory=set)
    version: int = -1
    log_entry: Hashable = None
    """The revision of the log entry of that version; if it changes, the table was created again."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class TableCache:
    """Cached tables of one lake. Thread-safe.

    Create it in the process that uses it: delta-rs and DuckDB have threads that do not survive a fork.
    """

    def __init__(self, kinds: Sequence[CachedTable]) -> None:
        import duckdb

        self._kinds = {kind.name: kind for kind in kinds}
        self._states: dict[tuple[str, str], _State] = {}
        self._lock = threading.Lock()
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = 'UTC'")
        for kind in kinds:
            columns = ", ".join(f'"{name}" {type_}' for name, type_ in kind.columns.items())
            self._connection.execute(f'CREATE TABLE "{kind.name}" (pipeline VARCHAR, _file VARCHAR, {columns})')

    def refresh(self, kind: str, pipeline: str, address: Address) -> int:
        """Update the copy of one Delta table to its newest version; a table that does not exist is empty.

        Returns:
            The number of files that were opened.
        """
        with self._lock:
            state = self._states.setdefault((kind, pipeline), _State())
        with state.lock:
            if (
                state.log_entry is not None
                and _log_entry(address, state.version) == state.log_entry
                and not delta_log.entry(address, state.version + 1).exists()
            ):
                return 0
            return self._update(self._kinds[kind], pipeline, address, state)

    def query(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[dict[str, Any]]:
        """The rows of a query over the cached tables.

        Args:
            values: Parameters: one for each ``?``, or by name for each ``$name``.
        """
        with self._connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            cursor.execute(sql, values)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _update(self, kind: CachedTable, pipeline: str, address: Address, state: _State) -> int:
        if state.log_entry is not None and _log_entry(address, state.version) == state.log_entry:
            version, files = delta.newest_files(address, state.version, state.files)
        else:
            version, files = delta.newest_files(address)
        removed, added = state.files - files, sorted(files - state.files)
        if removed or added:
            with self._connection.cursor() as cursor:
                cursor.execute("BEGIN")
                try:
                    self._delete(cursor, kind, pipeline, removed)
                    self._insert(cursor, kind, pipeline, address, added)
                    cursor.execute("COMMIT")
                except BaseException:
                    cursor.execute("ROLLBACK")
                    state.log_entry = None
                    raise
        state.files, state.version = files, version
        state.log_entry = _log_entry(address, version)
        return len(added)

    @staticmethod
    def _delete(cursor: duckdb.DuckDBPyConnection, kind: CachedTable, pipeline: str, files: set[str]) -> None:
        if files:
            cursor.execute(
                f'DELETE FROM "{kind.name}" WHERE pipeline = ? AND list_contains(?, _file)', [pipeline, sorted(files)]
            )

    @staticmethod
    def _insert(
        cursor: duckdb.DuckDBPyConnection, kind: CachedTable, pipeline: str, address: Address, files: list[str]
    ) -> None:
        if not files:
            return
        stored = [name for name in kind.columns if name not in kind.derived]
        # No file need have a column of a later release.
        empty = ", ".join(f'NULL::{kind.columns[name]} AS "{name}"' for name in stored)
        of_files = "SELECT * FROM read_parquet($read, union_by_name = true, filename = true)"
        source = f"(SELECT {empty} WHERE false UNION ALL BY NAME {of_files})"
        selected = [f'"{name}"' for name in stored]
        selected += [f'{sql} AS "{name}"' for name, sql in kind.derived.items()]
        own = "$files[list_position($read, filename)]"
        with local_files([address.of_uri(file) for file in files]) as read:
            cursor.execute(
                f'INSERT INTO "{kind.name}" BY NAME SELECT $pipeline AS pipeline, {own} AS _file, {", ".join(selected)} '
                f"FROM {source} {kind.only}",
                {"pipeline": pipeline, "files": files, "read": [str(file) for file in read]},
            )


def _log_entry(address: Address, version: int) -> Hashable:
    try:
        return delta_log.entry(address, version).stat().revision
    except OSError:
        return None
