"""Reads the change feed of a table with `delta_table.query_builder`. Starts no JVM.

`DeltaTable.load_cdf` of delta-rs reads timestamps of files with INT96 wrong, and takes no setting. The change feed is a set of files
that the log names, so here a temporary table has these files, with what only the log knows of them (version, kind of change) as
partition columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate import hidden
from tidegate.ops import query
from tidegate.probes import delta_log, delta_table
from tidegate.probes.linked_table import LinkedFile, linked
from tidegate.store import Address
from tidegate.store.copies import local_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

_KIND = "_kind_of_file"
_ADDED = {hidden.CHANGE_TYPE: "string", _KIND: "string", hidden.COMMIT_VERSION: "long"}
_OF_FILE = {"add": "insert", "remove": "delete", "cdc": None}
"""The kind of change of all rows of a file; a change file has that of each row in its column ``_change_type``."""
_MAPPING = "delta.columnMapping"


def rows(address: Address, first: int, last: int, columns: Sequence[str], where: str) -> list[dict[str, Any]]:
    """The changes of some versions, oldest first, as `columns`, ``_change_type`` and ``_commit_version``.

    Args:
        address: A Delta table; its log and the files of these versions exist.
        columns: Columns that the newest version has.
        where: SQL of delta-rs.

    Raises:
        DeltaError: A file does not have the table's types (an error of deltalake), as `duckdb.Error`.
        FileNotFoundError: A file is missing.
    """
    names = ", ".join(
        [
            *map(delta_table.quoted, columns),
            f"coalesce({hidden.CHANGE_TYPE}, {_KIND}) AS {hidden.CHANGE_TYPE}",
            hidden.COMMIT_VERSION,
        ]
    )
    with _table(address, first, last) as table, query.connect() as connection:
        batches = delta_table.query_builder().register("feed", table).execute(f"SELECT {names} FROM feed WHERE {where}")
        connection.register("feed", batches)
        return query.rows_of(
            connection.execute(f"FROM feed ORDER BY {hidden.COMMIT_VERSION}, {hidden.CHANGE_TYPE} DESC")
        )


@contextmanager
def _table(address: Address, first: int, last: int) -> Iterator[DeltaTable]:
    """A temporary table of the files of the feed."""
    newest = delta_table.open_table(address)
    metadata, schema = newest.metadata(), json.loads(newest.schema().to_json())
    configuration = {name: value for name, value in metadata.configuration.items() if name.startswith(_MAPPING)}
    files = [(version, *file) for version in range(first, last + 1) for file in _files(address, version)]
    with local_files([address / unquote(name) for _, name, _ in files]) as contents:
        # A folder for each version: the log of a table has a path once, and a file may be added and removed, and put back by RESTORE.
        links = [
            LinkedFile(name=f"{version}/{unquote(name)}", content=content, values=values)
            for (version, name, values), content in zip(files, contents, strict=True)
        ]
        fields = [*schema["fields"], *(_field(name, kind) for name, kind in _ADDED.items())]
        columns = [*metadata.partition_columns, _KIND, hidden.COMMIT_VERSION]
        with linked(fields, columns, links, configuration) as table:
            yield table


def _files(address: Address, version: int) -> Iterator[tuple[str, dict[str, str | None]]]:
    """The files with the changes of a version, and the values of their partition columns.

    They are change files if there are any, as in Delta's ``CDCReader``.
    """
    from deltalake.exceptions import DeltaError

    actions = delta_log.actions(address, version) or ()
    changes = [action for action in actions if action[0] == "cdc"]
    data = [(kind, file) for kind, file in actions if kind in ("add", "remove") and file.get("dataChange", True)]
    for kind, file in changes or data:
        if file.get("deletionVector"):
            raise DeltaError(f"version {version}: the changes of a file with a deletion vector are not in the file")
        if file["path"].startswith("/") or ":/" in file["path"]:
            raise DeltaError(f"version {version}: a file is not in the folder of the table")
        added = {_KIND: _OF_FILE[kind], hidden.COMMIT_VERSION: str(version)}
        yield file["path"], (file.get("partitionValues") or {}) | added


def _field(name: str, kind: str) -> dict[str, Any]:
    # Where columns are mapped, each has an id and its name in files.
    metadata = {f"{_MAPPING}.id": 10**9 + [*_ADDED].index(name), f"{_MAPPING}.physicalName": name}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}
