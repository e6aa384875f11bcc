"""Reads the content of a Delta table and the changes of each commit from its log.

Commits become visible by a rename, so the log can be read while jobs write to the table. The files that the change feed reads
for a commit follow Delta's ``CDCReader``: change files if there are any, else the files added and removed.

Every function raises `TableUnreadableError` if a file of the log that it needs is damaged.

Longer than 300 lines: it knows the actions of the log that have content, and no other module does.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

from tidegate.errors import TableUnreadableError
from tidegate.probes import delta_log, delta_table
from tidegate.store import Address


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """A file that a stream reads from the change feed, or from its first snapshot of the table."""

    rows: int | None
    """Number of rows; None if the log has no statistics, as for change files."""
    size: int
    """In bytes."""
    name: str = ""
    """Path from the log, relative to the table's folder and percent-encoded."""


@dataclass(frozen=True, kw_only=True)
class FeedCommit:
    """A commit as a reader of the change feed sees it."""

    version: int
    files: tuple[ChangedFile, ...]
    """In log order, which is the order of the stream's ``index``; empty when no row changed."""
    rows: int | None
    """Number of rows inserted, deleted and updated (an update counts once); None if the log has no statistics."""
    has_change_files: bool
    """Whether it has change files; the stream then reads the commit in a single batch."""
    table_id: str | None
    """The table's id, if the commit sets it."""

    @property
    def size(self) -> int:
        """Total size of its files in bytes."""
        return sum(file.size for file in self.files)


def current_version(address: Address) -> int | None:
    """The newest version of a table; None if there is no table."""
    return max(delta_log.versions(address), default=None)


def transaction_version(address: Address, app_id: str) -> int | None:
    """The last batch that the application ``app_id`` wrote to a table; None if there is no batch or no table."""
    table = delta_table.find_log(address)
    with delta_table.reading(address):
        return None if table is None else table.transaction_version(app_id)


def writers(address: Address, app_id: str) -> frozenset[str]:
    """The transaction ids of the applications that wrote to a table; empty without a table.

    Delta writes them into the checksum file of a version (Delta protocol, "Version Checksum File"); commits of delta-rs have
    none, so those of later commits are missing here, except for ``app_id``.
    """
    own = frozenset({app_id} if transaction_version(address, app_id) is not None else ())
    for version in reversed((address / "_delta_log").numbers(".crc")):
        # None if the file was removed with old versions, or is being written.
        if (transactions := delta_log.transactions(address, version)) is not None:
            return own | set(transactions)
    return own


def user_metadata(info: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object in the ``userMetadata`` of a commit; empty if there is none or it is not a JSON object.

    Args:
        info: The ``commitInfo`` action from Delta's log, or an entry of delta-rs' history.
    """
    try:
        metadata = json.loads(info.get("userMetadata") or "{}")
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def commit_metadata(address: Address, version: int) -> dict[str, Any]:
    """The ``userMetadata`` of one commit, as in `user_metadata`.

    Raises:
        FileNotFoundError: The log no longer has the commit.
    """
    info = delta_log.commit_info(address, version)
    if info is None:
        raise FileNotFoundError(delta_log.entry(address, version))
    return user_metadata(info)


def is_replacement(address: Address, version: int) -> bool:
    """Whether a commit is the swap of a new version that replaced all rows (docs/adr/0013)."""
    return bool(commit_metadata(address, version).get("prepared", {}).get("replaced"))


def only_adds(address: Address, version: int) -> bool:
    """Whether a commit changes and deletes no row that was there before.

    Raises:
        FileNotFoundError: The log no longer has the commit.
    """
    actions = delta_log.actions(address, version)
    if actions is None:
        raise FileNotFoundError(delta_log.entry(address, version))
    return not any(kind == "cdc" or (kind == "remove" and action.get("dataChange", True)) for kind, action in actions)


def table_id(address: Address) -> str:
    """The id that a table got when it was created or replaced. The table must exist."""
    return str(delta_table.open_log(address).metadata().id)


def snapshot_files(address: Address, version: int | None = None) -> list[ChangedFile]:
    """The files of a version in the order in which a stream reads its first snapshot: by time, then by path.

    Args:
        version: The version; None for the newest.

    Raises:
        FileNotFoundError: The log no longer goes back to that version.
    """
    table = delta_table.open_log(address, version)
    with delta_table.reading(address):
        actions = table.get_add_actions(flatten=True)
    names = actions.schema.names
    columns = {
        name: actions.column(name).to_pylist() if name in names else [None] * actions.num_rows
        for name in ("modification_time", "path", "num_records", "size_bytes")
    }
    files = sorted(zip(*columns.values(), strict=True), key=lambda file: file[:2])
    return [ChangedFile(rows=rows, size=size, name=name) for _, name, rows, size in files]


def commit_ms(address: Address, version: int) -> int | None:
    """When a version was committed, by the clock of the file system, in milliseconds since 1970; None if the log no longer has it."""
    try:
        return delta_log.entry(address, version).stat().modified_ns // 1_000_000
    except FileNotFoundError:
        return None


_YOUNG = timedelta(days=1)
_RETENTION = {"delta.logRetentionDuration": "interval 30 days", "delta.deletedFileRetentionDuration": "interval 7 days"}
"""Properties of a table, with Delta's defaults: how long it keeps commits, and files that VACUUM may delete."""
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def kept_until_ms(address: Address, committed_ms: int) -> int | None:
    """Up to when a table certainly keeps a commit and its change files, in milliseconds since 1970.

    Returns:
        None while less than half of that time is over, and if a duration of the table is not in a form that is known.
    """
    age = timedelta(milliseconds=time.time() * 1000 - committed_ms)
    # A table is opened only if its commit may be old: most of the time, what is unread was just committed.
    if age < _YOUNG:
        return None
    properties = delta_table.open_table(address).metadata().configuration
    durations = [_duration(properties.get(name, default)) for name, default in _RETENTION.items()]
    known = [duration for duration in durations if duration is not None]
    if len(known) < len(durations):
        return None
    kept = min(known)
    return None if age < kept / 2 else committed_ms + round(kept.total_seconds() * 1000)


def _duration(text: str) -> timedelta | None:
    """A duration in Delta's form: ``interval 30 days``; None in any other."""
    match = re.fullmatch(r"(?:interval\s+)?(\d+)\s+([a-z]+?)s?", text.strip().lower())
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]]) if match and match[2] in _UNITS else None


def commits_since(address: Address, version: int) -> list[FeedCommit]:
    """Every commit from ``version`` to the newest, oldest first.

    Raises:
        FileNotFoundError: The log no longer has one of them.
    """
    newest = current_version(address)
    if newest is None:
        return []
    return [read_commit(address, number) for number in range(version, newest + 1)]


def rows_added(address: Address, after: int, until: int) -> int:
    """Rows that the versions behind ``after`` up to ``until`` added to a table that is only appended to.

    Those of versions that the log no longer has are not counted.

    Args:
        after: -1 for all rows of version ``until``.
    """
    if after < 0 <= until:
        with contextlib.suppress(FileNotFoundError):
            return sum(file.rows or 0 for file in snapshot_files(address, until))
    rows = 0
    for version in range(after + 1, until + 1):
        with contextlib.suppress(FileNotFoundError):
            rows += read_commit(address, version).rows or 0
    return rows


def row_bytes(address: Address) -> float | None:
    """Bytes per row, from the newest of the last ten commits with statistics; None if there is none."""
    newest = current_version(address)
    if newest is None:
        return None
    for version in range(newest, max(-1, newest - 10), -1):
        try:
            commit = read_commit(address, version)
        except FileNotFoundError:
            return None
        if commit.rows and not commit.has_change_files:
            return commit.size / commit.rows
    return None


def read_commit(address: Address, version: int) -> FeedCommit:
    """Read one commit from the log.

    Raises:
        FileNotFoundError: The log no longer has it.
    """
    actions, file = delta_log.actions(address, version), delta_log.entry(address, version)
    if actions is None:
        raise FileNotFoundError(file)
    with delta_log.reading(address, file):
        return _commit(version, actions)


def served_ranges(address: Address, first: int, last: int) -> list[tuple[int, int]]:
    """The parts of a range of versions whose changes can still be read: first and last version of each, oldest first.

    A version cannot be read after log cleanup removed its commit, or VACUUM a file with its changes.
    """
    ranges: list[tuple[int, int]] = []
    for version in range(max(first, delta_log.oldest_version(address)), last + 1):
        if not _is_served(address, version):
            continue
        if ranges and ranges[-1][1] == version - 1:
            ranges[-1] = (ranges[-1][0], version)
        else:
            ranges.append((version, version))
    return ranges


def all_exist(address: Address, files: Iterable[ChangedFile]) -> bool:
    """Whether files from the log still exist; VACUUM removes files that the current version of the table does not use."""
    return _all_exist(address, [file.name for file in files if file.name])


def can_read_version(address: Address, version: int) -> bool:
    """Whether the table can still be read at a version: the log goes back that far, and all files exist."""
    try:
        table = delta_table.open_table(address, version)
        with delta_table.reading(address):
            names = table.get_add_actions().column("path").to_pylist()
    except (FileNotFoundError, TableUnreadableError):
        return False
    return _all_exist(address, names)


def newest_files(address: Address, version: int | None = None, files: Iterable[str] = ()) -> tuple[int, set[str]]:
    """The newest version of a small table and the paths of its data files; -1 and none if there is no table.

    Reads the log itself: opening a table with delta-rs costs ten times as much.

    Args:
        version: A version whose files are known; only later commits are read.
        files: The files of that version.
    """
    newest, live = (version, set(files)) if version is not None else _checkpointed_files(address)
    while (actions := delta_log.actions(address, newest + 1)) is not None:
        with delta_log.reading(address, delta_log.entry(address, newest + 1)):
            for kind, action in actions:
                if kind in ("add", "remove"):
                    name = str(address / unquote(action["path"]))
                    live.add(name) if kind == "add" else live.discard(name)
        newest += 1
    return newest, live


def _checkpointed_files(address: Address) -> tuple[int, set[str]]:
    """The newest version and its files if the log has a checkpoint; else -1 and none."""
    if delta_log.newest_checkpoint(address) is None:
        return -1, set()
    table = delta_table.open_log(address)
    with delta_table.reading(address):
        names = table.get_add_actions().column("path").to_pylist()
    return table.version(), {str(address / unquote(name)) for name in names}


def _is_served(address: Address, version: int) -> bool:
    actions = delta_log.actions(address, version)
    if actions is None:
        return False
    changes = [action for kind, action in actions if kind == "cdc"]
    data = [action for kind, action in actions if kind in ("add", "remove") and action.get("dataChange", True)]
    with delta_log.reading(address, delta_log.entry(address, version)):
        return _all_exist(address, [action["path"] for action in changes or data])


def _all_exist(address: Address, names: Iterable[str]) -> bool:
    """Whether files of a table exist, by their names in its log. Absolute ones, as in shallow clones, are not checked."""
    return all((address / unquote(name)).exists() for name in names if not name.startswith("/") and ":/" not in name)


def _commit(version: int, actions: Iterable[tuple[str, dict[str, Any]]]) -> FeedCommit:
    info: dict[str, Any] = {}
    cdc: list[ChangedFile] = []
    changed: list[tuple[str, str, dict[str, Any]]] = []
    table: str | None = None
    for kind, action in actions:
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
    rows = _rows_in_metrics(metrics) if cdc else _rows_of(changed)
    return FeedCommit(version=version, files=files, rows=rows, has_change_files=bool(cdc), table_id=table)


def _changed_nothing(operation: str | None, metrics: dict[str, str]) -> bool:
    """Whether a commit is a MERGE that only copied rows: ``CDCReader.shouldSkipFileActionsInCommit``."""
    counts = [metrics.get(f"numTargetRows{what}") for what in ("Inserted", "Updated", "Deleted")]
    return operation == "MERGE" and all(count == "0" for count in counts)


def _rows_in_metrics(metrics: dict[str, str]) -> int | None:
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
    deleted = (action.get("deletionVector") or {}).get("cardinality", 0)
    rows = None if records is None else int(records) - deleted
    return ChangedFile(rows=rows, size=int(action.get("size") or 0), name=action["path"])


def _rows_of(changed: list[tuple[str, str, dict[str, Any]]]) -> int | None:
    """Rows of the files added and removed; for a file that is both, the rows by which its deletion vectors differ."""
    rows: dict[str, dict[str, int | None]] = {}
    for kind, path, action in changed:
        rows.setdefault(path, {})[kind] = _data_file(action).rows
    total = 0
    for sides in rows.values():
        counts = [count for count in sides.values() if count is not None]
        if len(counts) < len(sides):
            return None
        total += abs(counts[0] - counts[1]) if len(counts) == 2 else counts[0]
    return total
