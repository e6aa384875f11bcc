"""What a Delta table holds and what each commit changed, read from its log.

Commits become visible by a rename, so a log can be read while jobs write to the table. Which files of a commit the
change feed serves follows Delta's ``CDCReader``: change files when there are some, else the files added and removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_VERSION = re.compile(r"(\d{20})\.(?:json|checkpoint(?:\.[0-9a-f.-]+)?\.(?:parquet|json))")


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """One file that the change feed, or the table's first snapshot, serves."""

    rows: int | None
    """None where the log does not tell: change files have no statistics."""
    size: int
    """Bytes."""
    name: str = ""
    """As the log names it: its place below the table's folder, percent-encoded."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What one commit means to a reader of the change feed."""

    version: int
    files: tuple[ChangedFile, ...]
    """In the order of the log, which is the order of the stream's ``index``; empty when no row changed."""
    rows: int | None
    """Rows inserted, deleted and updated (an update once); None where the log does not tell."""
    whole: bool
    """It has change files, so the stream admits it as a whole."""
    table_id: str | None
    """The table's id, in a commit that sets it."""

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)


def current_version(path: Path) -> int | None:
    """The table's newest version; None without a table."""
    return max(_logged(path), default=None)


def transaction_version(path: Path, app_id: str) -> int | None:
    """The last batch that the application ``app_id`` wrote to the table; None without one, or without a table."""
    if current_version(path) is None:
        return None
    from deltalake import DeltaTable

    return DeltaTable(str(path)).transaction_version(app_id)


def user_metadata(info: Mapping[str, Any]) -> dict[str, Any]:
    """What the transaction that made a commit said of itself; nothing where it said none, or is not ours.

    Args:
        info: Of the commit, as Delta's log or delta-rs' history tells it.
    """
    try:
        told = json.loads(info.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def table_id(path: Path) -> str:
    """The id that the table was given when it was created or replaced. There must be a table."""
    from deltalake import DeltaTable

    return str(DeltaTable(str(path)).metadata().id)


def snapshot_files(path: Path, version: int | None = None) -> list[ChangedFile]:
    """The files of one version in the order in which a stream serves its first snapshot: by time, then by path.

    Args:
        path: The table.
        version: None for the newest.

    Raises:
        deltalake.exceptions.DeltaError: The log no longer goes back to that version.
    """
    from deltalake import DeltaTable

    found = DeltaTable(str(path), version=version).get_add_actions(flatten=True)
    names = found.schema.names
    columns = {
        name: found.column(name).to_pylist() if name in names else [None] * found.num_rows
        for name in ("modification_time", "path", "num_records", "size_bytes")
    }
    files = sorted(zip(*columns.values(), strict=True), key=lambda file: file[:2])
    return [ChangedFile(rows=rows, size=size, name=name) for _, name, rows, size in files]


def commits_since(path: Path, version: int) -> list[Commit]:
    """Every commit from ``version`` to the newest, oldest first.

    Raises:
        FileNotFoundError: The log no longer holds one of them.
    """
    newest = current_version(path)
    if newest is None:
        return []
    return [read_commit(path, number) for number in range(version, newest + 1)]


def row_bytes(path: Path) -> float | None:
    """How many bytes a row of the table takes in its newest commits; None when none of the last ten tells."""
    newest = current_version(path)
    if newest is None:
        return None
    for version in range(newest, max(-1, newest - 10), -1):
        try:
            commit = read_commit(path, version)
        except FileNotFoundError:
            return None
        if commit.rows and not commit.whole:
            return commit.size / commit.rows
    return None


def read_commit(path: Path, version: int) -> Commit:
    """One commit.

    Raises:
        FileNotFoundError: The log no longer holds it.
    """
    info: dict[str, Any] = {}
    cdc: list[ChangedFile] = []
    changed: list[tuple[str, str, dict[str, Any]]] = []
    table: str | None = None
    with Path(path / "_delta_log" / f"{version:020d}.json").open(encoding="utf-8") as log:
        for line in log:
            ((kind, action),) = json.loads(line).items() if line.strip() else (("", {}),)
            if kind == "commitInfo":
                info = action
            elif kind == "metaData":
                table = action.get("id")
            elif kind == "cdc":
                cdc.append(ChangedFile(rows=None, size=int(action.get("size") or 0), name=action["path"]))
            elif kind in ("add", "remove") and action.get("dataChange", True):
                changed.append((kind, action["path"], action))
    metrics = info.get("operationMetrics") or {}
    if _changed_nothing(info.get("operation"), metrics):
        cdc, changed = [], []
    files = tuple(cdc) if cdc else tuple(_data_file(action) for _, _, action in changed)
    rows = _rows_told(metrics) if cdc else _rows_of(changed)
    return Commit(version=version, files=files, rows=rows, whole=bool(cdc), table_id=table)


def served_ranges(path: Path, first: int, last: int) -> list[tuple[int, int]]:
    """The parts of a range of versions whose changes can still be read, first and last version each, oldest first.

    A version is gone when the log was cleaned behind it, or when VACUUM removed a file that its changes stand in.
    """
    found: list[tuple[int, int]] = []
    for version in range(max(first, _oldest(path)), last + 1):
        if not _is_served(path, version):
            continue
        if found and found[-1][1] == version - 1:
            found[-1] = (found[-1][0], version)
        else:
            found.append((version, version))
    return found


def are_there(path: Path, files: Iterable[ChangedFile]) -> bool:
    """Whether files that the log names lie there still; VACUUM removes those that the table itself no longer needs."""
    # A name with a place of its own, as a clone's, is not looked for.
    names = [file.name for file in files if file.name and not file.name.startswith("/") and ":/" not in file.name]
    return all((path / unquote(name)).exists() for name in names)


def is_whole(path: Path, version: int) -> bool:
    """Whether the table can still be read as of a version: the log goes back that far, and no file is gone."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        held = DeltaTable(str(path), version=version).get_add_actions().column("path").to_pylist()
    except (DeltaError, OSError):
        return False
    return all((path / unquote(name)).exists() for name in held)


def _oldest(path: Path) -> int:
    """The oldest version whose snapshot can be put together: Delta needs it to read changes from there on."""
    names = [entry.name for entry in (path / "_delta_log").iterdir()]
    commits = {
        int(name[:20]) for name in names if _VERSION.fullmatch(name) and name.endswith(".json") and len(name) == 25
    }
    checkpoints = {int(name[:20]) for name in names if _VERSION.fullmatch(name) and ".checkpoint" in name}
    oldest = max(commits, default=0)
    while oldest - 1 in commits:
        oldest -= 1
    return oldest if oldest == 0 else min((each for each in checkpoints if each >= oldest), default=oldest)


def _is_served(path: Path, version: int) -> bool:
    try:
        lines = (path / "_delta_log" / f"{version:020d}.json").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return False
    actions = [next(iter(json.loads(line).items())) for line in lines if line.strip()]
    changes = [action for kind, action in actions if kind == "cdc"]
    data = [action for kind, action in actions if kind in ("add", "remove") and action.get("dataChange", True)]
    return all((path / unquote(action["path"])).exists() for action in changes or data)


def _logged(path: Path) -> list[int]:
    try:
        names = [entry.name for entry in (path / "_delta_log").iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [int(match[1]) for name in names if (match := _VERSION.fullmatch(name))]


def _changed_nothing(operation: str | None, metrics: dict[str, str]) -> bool:
    """A MERGE that only copied rows: ``CDCReader.shouldSkipFileActionsInCommit``."""
    told = [metrics.get(f"numTargetRows{what}") for what in ("Inserted", "Updated", "Deleted")]
    return operation == "MERGE" and all(count == "0" for count in told)


def _rows_told(metrics: dict[str, str]) -> int | None:
    for names in (
        ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
        ("numUpdatedRows",),
        ("numDeletedRows",),
    ):
        if all(name in metrics for name in names):
            return sum(int(metrics[name]) for name in names)
    return None


def _data_file(action: dict[str, Any]) -> ChangedFile:
    stats = json.loads(action.get("stats") or "{}")
    records = stats.get("numRecords")
    hidden = (action.get("deletionVector") or {}).get("cardinality", 0)
    rows = None if records is None else int(records) - hidden
    return ChangedFile(rows=rows, size=int(action.get("size") or 0), name=action["path"])


def _rows_of(changed: list[tuple[str, str, dict[str, Any]]]) -> int | None:
    """Rows of the files added and removed; of a file that is both, only those that its deletion vectors differ in."""
    rows: dict[str, dict[str, int | None]] = {}
    for kind, path, action in changed:
        rows.setdefault(path, {})[kind] = _data_file(action).rows
    total = 0
    for sides in rows.values():
        known = [count for count in sides.values() if count is not None]
        if len(known) < len(sides):
            return None
        total += abs(known[0] - known[1]) if len(known) == 2 else known[0]
    return total
