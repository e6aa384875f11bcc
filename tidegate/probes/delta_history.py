"""Reads the history of a Delta table from its log and compares it with a position that was proven before. Needs no JVM.

Only entries behind the position are interpreted, and that of the position is hashed; the others are checked once for damage.

Longer than 300 lines: a proof compares every kind of entry of a log, and each comparison names the doubt that it finds.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.errors import TableUnreadableError
from tidegate.json_codec import from_plain
from tidegate.lake.table_history import STANDS_ON, Doubt, ForeignCommit, LogEntry, Position, Proof, Reason
from tidegate.probes import delta, delta_log, delta_table
from tidegate.store.address import KeptByRevision
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.store import Address

_NAME = re.compile(r"(\d{20})\.(json|crc|checkpoint\..+)")
_FILE = re.compile(r"\.{0,1}(\d{20})\.(.+)")
"""With the checksums that Hadoop writes under hidden names."""
_SEARCHED = 20
"""Among how many of the newest entries that of a checkpoint is searched: only maintenance and other work of the flow follow it."""
_read_entries = KeptByRevision[LogEntry]()
_FEED = "delta.enableChangeDataFeed"
_PROPERTIES = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES")


@dataclass(frozen=True, kw_only=True)
class Follower:
    """Who stands on a table, and what of others' commits they can follow."""

    table: str
    """The name of the table, for people."""
    owner: str
    """What the transaction ids of its writer begin with."""
    platform: bool = False
    """Whether Tidegate itself changes it with delta-rs, without transaction ids: quarantine, late rows, heartbeats."""
    follows_changes: bool = True
    """Whether changed and deleted rows are followed, or appended ones only."""
    vouched: int = -1
    """Up to which version the flow that writes the table stands by it: rows that were replaced before are followed by their feed."""


def forget() -> None:
    """Read again what this process has read of logs, so that the store of a reading has it (`tidegate.ops.contents`)."""
    _read_entries.clear()


def prove(address: Address, known: Position | None, follower: Follower) -> Proof | Doubt | None:
    """Compare a table with a position that was proven before; None if there is no table and none was known.

    Args:
        known: That position; None to take the present history as it is, as far as it can be read.

    Raises:
        TableUnreadableError: An entry that the newest version is made of is missing, empty or torn.
    """
    result = _compare(address, known, follower)
    if isinstance(result, Proof):
        # An older entry may be lost, too. Entries before Delta's newest checkpoint are not needed.
        delta_log.check(address)
    return result


def _compare(address: Address, known: Position | None, follower: Follower) -> Proof | Doubt | None:
    newest, oldest, later = _extent(address)
    if newest is None:
        return None if known is None else _doubt(follower, "lost", "it has no log any more", known.version)
    if later is not None:
        return _doubt(
            follower, "lost", f"its log ends at version {newest}, but has files of version {later}", newest + 1
        )
    if known is None:
        return _adopt(address, newest)
    first = known.version + 1
    if known.version > newest:
        what = f"its log ends at version {newest}, but version {known.version} was written or read before"
        return _doubt(follower, "lost", what, newest + 1)
    present = _entry(address, known.version)
    if present is None and known.version > oldest:
        return _doubt(follower, "lost", f"entry {known.version} is missing in its log", known.version)
    if present is None:
        last = delta.transaction_version(address, known.app_id) if known.app_id else known.batch_id
        if last is None or last < known.batch_id:
            what = f"its log no longer goes back to version {known.version}, and it lacks the last batch that was known"
            return _doubt(follower, "no proof", what, oldest)
        first = oldest
    elif known.digest and present.digest != known.digest:
        what = f"version {known.version} is another commit than it was: {_maker(present)}"
        return _doubt(follower, "replaced", what, known.version, present)
    return _walk(address, follower, known, range(first, newest + 1))


def position(address: Address, version: int) -> Position:
    """The position behind a version, with the transaction of its commit."""
    entry = _entry(address, version)
    return Position(version=version, digest="") if entry is None else entry.position


def last_of(address: Address, app_id: str) -> LogEntry | None:
    """The newest commit of a transaction id among the newest entries; None without one."""
    newest, oldest, _ = _extent(address)
    if newest is None:
        return None
    searched = range(newest, max(oldest, newest - _SEARCHED + 1) - 1, -1)
    entries = (_entry(address, version) for version in searched)
    return next((entry for entry in entries if entry is not None and entry.app_id == app_id), None)


def extent(address: Address) -> tuple[int | None, int | None]:
    """The newest entry of a log, None without one, and a later version of which only other files are left, if there is one."""
    newest, _, later = _extent(address)
    return newest, later


def readable_version(address: Address) -> int | None:
    """The last version that the log of a table can be read up to, whatever is lost behind it; None if no version can be read."""
    commits, _ = _names(address)
    checkpoints = delta_log.readable_checkpoints(address)
    for version in sorted(commits | checkpoints, reverse=True):
        base = max((each for each in checkpoints if each <= version), default=-1)
        if all(_is_readable(address, each) for each in range(base + 1, version + 1)):
            return version
    return None


def unusable_files(address: Address, version: int) -> list[Address]:
    """The files of a log that stand in the way of a table at a version: those behind it, checkpoints that are damaged, a hint of one.

    Also the checksums that Hadoop writes beside each file: with that of another file, Spark could not read the next one of that name.
    """
    checkpoints = delta_log.readable_checkpoints(address)
    unusable = []
    for entry in (address / "_delta_log").list():
        match = _FILE.match(entry.name)
        is_checkpoint = match is not None and match[2].startswith("checkpoint")
        if match is not None and (int(match[1]) > version or (is_checkpoint and int(match[1]) not in checkpoints)):
            unusable.append(address.at(entry))
    hint = address / "_delta_log" / "_last_checkpoint"
    hinted = delta_log.hinted_version(address / "_delta_log")
    if hinted is not None and (hinted > version or hinted not in checkpoints):
        unusable.append(hint)
    return unusable


def _is_readable(address: Address, version: int) -> bool:
    try:
        entry = _entry(address, version)
    except TableUnreadableError:
        return False
    return entry is not None and (version > 0 or entry.metadata)


def _walk(address: Address, follower: Follower, known: Position, versions: range) -> Proof | Doubt:
    proven = known
    foreign: list[ForeignCommit] = []
    for version in versions:
        entry = _entry(address, version)
        if entry is None:
            return _doubt(follower, "lost", f"entry {version} is missing in its log", version)
        same_columns = not entry.metadata or _same_columns(address, entry)
        meaning = entry.meaning(follower.owner, same_columns=same_columns)
        if meaning == "break" and same_columns and version <= follower.vouched:
            meaning = "change"
        if follower.platform and meaning in ("append", "change"):
            meaning = "own"
        if meaning == "break":
            return _doubt(follower, "rewritten", f"version {version} is {_maker(entry)}", version, entry)
        if meaning == "change" and not follower.follows_changes:
            return _doubt(follower, "not followed", f"version {version} is {_maker(entry)}", version, entry)
        if meaning in ("append", "change"):
            commit = ForeignCommit(table=follower.table, version=version, operation=entry.operation, at_ms=entry.at_ms)
            foreign.append(commit)
        last = entry.position
        proven = last if last.app_id else replace(last, app_id=proven.app_id, batch_id=proven.batch_id)
    return Proof(position=proven, foreign=tuple(foreign))


def _adopt(address: Address, newest: int) -> Proof:
    """The present history, of which nothing was known before: its newest entry must be readable."""
    entry = _entry(address, newest)
    if entry is None:
        return Proof(position=Position(version=newest, digest=""))
    return Proof(position=entry.position)


def _extent(address: Address) -> tuple[int | None, int, int | None]:
    """The newest entry of a log, the oldest one, and a later version of which only other files are left, if there is one."""
    entries, others = _names(address)
    if entries and max(others, default=-1) > max(entries):
        # A checksum may be listed and its entry not, while a commit is made.
        (address / "_delta_log").forget()
        entries, others = _names(address)
    if not entries:
        return None, 0, None
    newest, later = max(entries), max(others, default=-1)
    return newest, min(entries), later if later > newest else None


def _names(address: Address) -> tuple[set[int], set[int]]:
    entries: set[int] = set()
    others: set[int] = set()
    try:
        names = [each.name for each in (address / "_delta_log").list()]
    except NotADirectoryError:
        return entries, others
    for name in names:
        if match := _NAME.fullmatch(name):
            (entries if match[2] == "json" else others).add(int(match[1]))
    return entries, others


def _entry(address: Address, version: int) -> LogEntry | None:
    """An entry of the log; None if the log does not have it."""
    file = delta_log.entry(address, version)
    try:
        with delta_log.reading(address, file):
            revision = file.stat().revision
    except FileNotFoundError:
        return None
    return _read_entries.get(file, revision, lambda: _read(address, version))


def _read(address: Address, version: int) -> LogEntry:
    file = delta_log.entry(address, version)
    with delta_log.reading(address, file):
        content = file.read().data
    actions, digest = delta_log.parse(address, file, content), hashlib.sha256(content).hexdigest()
    info: dict[str, Any] = next((action for kind, action in actions if kind == "commitInfo"), {})
    own = delta.user_metadata(info)
    transactions = {action.get("appId") for kind, action in actions if kind == "txn"}
    changing = [kind for kind, action in actions if kind in ("add", "remove") and action.get("dataChange", True)]
    has_cdc = any(kind == "cdc" for kind, _ in actions)
    parameters = info.get("operationParameters") or {}
    app_id, batch_id, at_ms = own.get("app_id"), own.get("batch_id"), info.get("timestamp")
    if isinstance(batch_id, int) and batch_id >= 0 and app_id not in transactions:
        # Every batch has one. An entry that ends with a line can be parsed.
        raise TableUnreadableError(address, file, "is torn: it lacks the transaction of its batch")
    return LogEntry(
        version=version,
        digest=digest,
        operation=str(info.get("operation") or ""),
        overwrites=str(parameters.get("mode", parameters.get("outputMode", "Append"))).upper() != "APPEND",
        at_ms=at_ms if isinstance(at_ms, int) else None,
        app_id=app_id if isinstance(app_id, str) else "",
        batch_id=batch_id if isinstance(batch_id, int) else -1,
        adds="add" in changing,
        removes="remove" in changing or has_cdc,
        stands_on=_positions(own.get(STANDS_ON)),
        metadata=any(kind in ("metaData", "protocol") for kind, _ in actions),
    )


def _positions(values: Any) -> dict[str, Position]:
    try:
        return from_plain(values or {}, dict[str, Position])
    except ValueError:
        return {}


def _same_columns(address: Address, entry: LogEntry) -> bool:
    """Whether a commit that sets the metadata of a table keeps its columns, its id and its change feed.

    The first commit, which creates the table, does.
    """
    after = next(
        (action for kind, action in delta_log.actions(address, entry.version) or () if kind == "metaData"), None
    )
    if after is None or entry.version == 0:
        return True
    has_feed = (after.get("configuration") or {}).get(_FEED) == "true"
    try:
        table = delta_table.open_table(address, entry.version - 1)
    except FileNotFoundError:
        # Delta has cleaned what was before: only the operation says what was changed.
        return has_feed and entry.operation.upper() in _PROPERTIES
    before, fields = table.metadata(), json.loads(table.schema().to_json())["fields"]
    columns = {_column(field) for field in json.loads(after["schemaString"])["fields"]}
    kept_feed = has_feed or before.configuration.get(_FEED) != "true"
    return str(before.id) == after["id"] and kept_feed and all(_column(field) in columns for field in fields)


def _column(field: dict[str, Any]) -> str:
    """Name, type and, with column mapping, the name in the files: a column that was dropped and added again is another one."""
    physical = (field.get("metadata") or {}).get("delta.columnMapping.physicalName", field["name"])
    return json.dumps([field["name"], field["type"], physical], sort_keys=True)


def _maker(entry: LogEntry) -> str:
    if entry.app_id:
        return f"batch {entry.batch_id} of {entry.app_id}"
    at = dates.moment(entry.at_ms)
    when = "" if at is None else f" at {at:%Y-%m-%d %H:%M:%S} UTC"
    return f"a {entry.operation or 'commit'} by another writer{when}"


def _doubt(follower: Follower, reason: Reason, what: str, version: int, entry: LogEntry | None = None) -> Doubt:
    return Doubt(
        table=follower.table,
        reason=reason,
        what=what,
        version=version,
        operation="" if entry is None else entry.operation,
        at_ms=None if entry is None else entry.at_ms,
    )
