"""An in-memory copy of small Delta tables, for pages that are requested often. Starts no JVM.

A ledger grows by one small file a batch, and opening a thousand files takes a second. The cache opens each file once: before
a query it checks the table's log for a newer version, which costs two calls of `stat`, and then reads only new commits and
files. Rows of files that the new version no longer has (compacted, deleted) are removed, so a query always sees one complete
version of a table, also while a job writes. delta-rs reads the files, and SQLite, which Python has, keeps the rows.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.probes import delta, delta_log, delta_table
from tidegate.probes.delta_table import quoted
from tidegate.probes.linked_table import LinkedFile, linked
from tidegate.store.copies import local_files
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.store import Address

_INSTANT, _MAP = "TIMESTAMPTZ", "MAP(VARCHAR, BIGINT)"
_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    _INSTANT: dates.from_micros,
    _MAP: json.loads,
    "VARCHAR[]": json.loads,
}
"""From what SQLite keeps, by type: microseconds since 1970, and JSON."""
_ENCODERS: Mapping[str, Callable[[Any], Any]] = {
    # Arrow returns a map as a list of pairs.
    _MAP: lambda pairs: json.dumps(dict(pairs)),
    "VARCHAR[]": json.dumps,
}
_DELTA_TYPES: Mapping[str, Any] = {
    **{"VARCHAR": "string", "BIGINT": "long", "INTEGER": "integer", "DOUBLE": "double", _INSTANT: "timestamp"},
    "VARCHAR[]": {"type": "array", "elementType": "string", "containsNull": True},
    _MAP: {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
}
_FILE = "_file"
"""The column with the file of a row."""


@dataclass(frozen=True, kw_only=True)
class CachedTable:
    """Definition of one cached table: it holds the rows of all pipelines' Delta tables of one kind."""

    name: str
    """Name of the cached table, which has the columns below and ``pipeline``."""
    columns: Mapping[str, str]
    """Column name to type, as in `tidegate.ops.table`. A column that a file lacks is NULL."""
    derived: Mapping[str, tuple[str, Callable[[Any], Any]]] = field(default_factory=dict)
    """Column name to a column of a file, which is too large to cache whole, and the function that computes it from that."""
    key: tuple[str, ...] = ()
    """The columns by which it is joined, beside ``pipeline``."""
    only: str = ""
    """SQL of DataFusion after the FROM: of the files that are read together, the rows that are needed."""


@dataclass
class _State:
    files: set[str] = field(default_factory=set)
    version: int = -1
    log_entry: Hashable = None
    """The revision of the log entry of that version; if it changes, the table was created again."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class TableCache:
    """Cached tables of one lake. Thread-safe.

    Create it in the process that uses it: delta-rs has threads that do not survive a fork.

    Args:
        kinds: The tables.
        functions: Of one value, by the name with which queries call them.
    """

    def __init__(
        self, kinds: Sequence[CachedTable], functions: Mapping[str, Callable[[Any], Any]] | None = None
    ) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self._states: dict[tuple[str, str], _State] = {}
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for name, function in (functions or {}).items():
            self._database.create_function(name, 1, function, deterministic=True)
        self._decoders: dict[str, Callable[[Any], Any]] = {}
        for kind in kinds:
            columns = ", ".join(map(quoted, kind.columns))
            self._database.execute(f'CREATE TABLE "{kind.name}" (pipeline, _file, {columns})')
            self._database.execute(f'CREATE INDEX "{kind.name}_files" ON "{kind.name}" (pipeline, _file)')
            if kind.key:
                columns = ", ".join(map(quoted, kind.key))
                self._database.execute(f'CREATE INDEX "{kind.name}_joins" ON "{kind.name}" (pipeline, {columns})')
            self._decoders |= {name: _DECODERS[type_] for name, type_ in kind.columns.items() if type_ in _DECODERS}

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

    def query(
        self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), before: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """The rows of a query over the cached tables. An instant is a number in it: microseconds since 1970.

        Args:
            sql: SQL of SQLite. A column of the result that has the name of a cached one has the type of that.
            values: Parameters: one for each ``?``, or by name for each ``$name``.
            before: Statements that make temporary tables for it, with the same parameters by name.
        """
        with self._lock:
            self._database.execute("BEGIN")
            try:
                for statement in before:
                    self._database.execute(statement, values)
                cursor = self._database.execute(sql, values)
                rows = cursor.fetchall()
            finally:
                self._database.execute("ROLLBACK")
        names = [column[0] for column in cursor.description]
        return [{name: self._decoded(name, value) for name, value in zip(names, row, strict=True)} for row in rows]

    def _decoded(self, name: str, value: Any) -> Any:
        return self._decoders[name](value) if value is not None and name in self._decoders else value

    def _update(self, kind: CachedTable, pipeline: str, address: Address, state: _State) -> int:
        if state.log_entry is not None and _log_entry(address, state.version) == state.log_entry:
            version, files = delta.newest_files(address, state.version, state.files)
        else:
            version, files = delta.newest_files(address)
        removed, added = state.files - files, sorted(files - state.files)
        if removed or added:
            with delta_table.reading(address):
                rows = _read(kind, address, added) if added else []
            with self._lock, self._database:
                self._database.execute("BEGIN")
                self._database.executemany(
                    f'DELETE FROM "{kind.name}" WHERE pipeline = ? AND _file = ?',
                    [(pipeline, file) for file in removed],
                )
                places = ", ".join("?" * (2 + len(kind.columns)))
                self._database.executemany(
                    f'INSERT INTO "{kind.name}" VALUES ({places})', [(pipeline, *row) for row in rows]
                )
        state.files, state.version = files, version
        state.log_entry = _log_entry(address, version)
        return len(added)


def _read(kind: CachedTable, address: Address, files: list[str]) -> list[tuple[Any, ...]]:
    """The rows of files, each with its file before the values of all columns, as SQLite keeps them."""
    sources = {name: (name, _ENCODERS.get(type_)) for name, type_ in kind.columns.items()} | dict(kind.derived)
    stored = {source: kind.columns.get(source, "VARCHAR") for source, _ in sources.values()}
    fields = [_field(name, type_) for name, type_ in {**stored, _FILE: "VARCHAR"}.items()]
    selected = ", ".join([_FILE, *(_expression(name, type_) for name, type_ in stored.items())])
    with local_files([address.of_uri(file) for file in files]) as copies:
        links = [
            LinkedFile(name=f"{number}.parquet", content=copy, values={_FILE: file})
            for number, (file, copy) in enumerate(zip(files, copies, strict=True))
        ]
        with linked(fields, [_FILE], links) as table:
            builder = delta_table.query_builder().register("files", table)
            rows: Any = builder.execute(f"SELECT {selected} FROM files {kind.only}").read_all()
    columns = [rows.column(_FILE).to_pylist()]
    for source, function in sources.values():
        values = rows.column(source).to_pylist()
        columns.append(values if function is None else [None if each is None else function(each) for each in values])
    return list(zip(*columns, strict=True))


def _field(name: str, type_: str) -> dict[str, Any]:
    return {"name": name, "type": _DELTA_TYPES[type_], "nullable": True, "metadata": {}}


def _expression(name: str, type_: str) -> str:
    return f"arrow_cast({quoted(name)}, 'Int64') AS {quoted(name)}" if type_ == _INSTANT else quoted(name)


def _log_entry(address: Address, version: int) -> Hashable:
    try:
        return delta_log.entry(address, version).stat().revision
    except OSError:
        return None
