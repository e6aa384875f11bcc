"""The files of a Delta table's log: commits, checkpoints and checksum files. Read without a JVM; `tidegate.probes.delta` interprets them.

A commit always has actions, and a file becomes visible when it is complete. So an empty or torn file is damage, which Spark and
delta-rs partly read as a commit without changes: here every function raises `TableUnreadableError` for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tidegate.errors import TableUnreadableError
from tidegate.errors.classification import raise_machine
from tidegate.store import Address, Entry
from tidegate.store.address import KeptByRevision

_VERSION = re.compile(r"(\d{20})\.(?:json|checkpoint(?:\.[0-9a-f.-]+)?\.(?:parquet|json))")
_PARQUET = b"PAR1"
"""The first and the last four bytes of a Parquet file."""
_HINT = "_last_checkpoint"
_checked_commits = KeptByRevision[frozenset[str]]()
"""The kinds of actions of commits that `check` has read."""
_checked_checkpoints = KeptByRevision[bool]()
"""Files of checkpoints that have the beginning and the end of a Parquet file."""


def entry(address: Address, version: int) -> Address:
    """The file of a commit."""
    return address / "_delta_log" / f"{version:020d}.json"


def versions(address: Address) -> list[int]:
    """The versions of which the log has a commit or a checkpoint, in no order; none without a table."""
    return [int(name[:20]) for name in _names(address)]


def oldest_version(address: Address) -> int:
    """The oldest version whose snapshot can be reconstructed; Delta needs it to read changes from there on."""
    names = _names(address)
    commits = {int(name[:20]) for name in names if _is_commit(name)}
    checkpoints = {int(name[:20]) for name in names if not _is_commit(name)}
    oldest = max(commits, default=0)
    while oldest - 1 in commits:
        oldest -= 1
    return oldest if oldest == 0 else min((version for version in checkpoints if version >= oldest), default=oldest)


def actions(address: Address, version: int) -> list[tuple[str, dict[str, Any]]] | None:
    """Kind and content of the actions of a commit; None if the log does not have it.

    Raises:
        TableUnreadableError: The commit is empty or torn, or cannot be read.
    """
    file = entry(address, version)
    try:
        with reading(address, file):
            content = file.read().data
    except FileNotFoundError:
        return None
    return parse(address, file, content)


def parse(address: Address, file: Address, content: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Kind and content of the actions in the content of a commit's file.

    Raises:
        TableUnreadableError: It is empty or torn.
    """
    with reading(address, file):
        listed = [_action(line) for line in content.splitlines() if line.strip()]
    if not listed:
        raise TableUnreadableError(address, file, "is empty")
    return listed


def commit_info(address: Address, version: int) -> dict[str, Any] | None:
    """The action ``commitInfo`` of a commit, empty if it has none; None if the log does not have the commit.

    Raises:
        TableUnreadableError: As `actions`.
    """
    file = entry(address, version)
    try:
        with reading(address, file):
            lines = file.read().data.splitlines()
            for line in lines:
                if line.startswith(b'{"commitInfo"'):
                    return _action(line)[1]
    except FileNotFoundError:
        return None
    if not any(line.strip() for line in lines):
        raise TableUnreadableError(address, file, "is empty")
    return {}


def transactions(address: Address, version: int) -> dict[str, int] | None:
    """The last ``txnVersion`` of every ``txnAppId``, from the checksum file of a version (Delta protocol, "Version Checksum File").

    None if the file does not have them, cannot be read, or does not exist, as after a commit of delta-rs.
    """
    try:
        checksum = json.loads((address / "_delta_log" / f"{version:020d}.crc").read().data)
        listed = checksum.get("setTransactions")
        return None if listed is None else {str(each["appId"]): int(each["version"]) for each in listed}
    except (FileNotFoundError, ValueError, AttributeError, KeyError, TypeError):
        return None


def newest_checkpoint(address: Address) -> int | None:
    """The version of the newest checkpoint; None without one.

    Raises:
        TableUnreadableError: A file of it is missing or torn.
    """
    return _newest_checkpoint(address, _files(address))[0]


def _newest_checkpoint(address: Address, files: dict[str, Entry]) -> tuple[int | None, dict[str, Entry]]:
    """The newest checkpoint, and the files of the log, which is listed again if a checkpoint was made meanwhile."""
    log = address / "_delta_log"
    named = None
    if _HINT in files:
        with reading(address, log):
            named = hinted_version(log)
    checkpoints = _checkpoints(files)
    if named is not None and named > max(checkpoints, default=-1):
        # A checkpoint is complete when it is named, so it has been lost if it is not listed then.
        log.forget()
        files = _files(address)
        checkpoints = _checkpoints(files)
    newest = max(checkpoints, default=None)
    for name in checkpoints.get(newest, ()) if newest is not None else ():
        _check_parquet(address, files[name])
    if named is not None and (newest is None or named > newest):
        raise TableUnreadableError(address, log / f"{named:020d}.checkpoint.parquet", "is missing")
    return newest, files


def readable_checkpoints(address: Address) -> set[int]:
    """The versions of which the log has a whole checkpoint."""
    files, readable = _files(address), set()
    for version, names in _checkpoints(files).items():
        try:
            for name in names:
                _check_parquet(address, files[name])
            readable.add(version)
        except (TableUnreadableError, FileNotFoundError):
            continue
    return readable


def check(address: Address) -> bool:
    """Check that the newest version of a table can be made of its log; False without a table.

    Reads the commits since the newest checkpoint, unless the store has only whole contents, and no data file.

    Raises:
        TableUnreadableError: A file is missing, empty or torn, or cannot be read.
    """
    files = _files(address)
    if not _versions(files):
        return False
    checkpoint, files = _newest_checkpoint(address, files)
    first = 0 if checkpoint is None else checkpoint + 1
    kinds: set[str] = set()
    for version in range(first, max(_versions(files)) + 1):
        kinds |= _kinds(address, version, files)
    if checkpoint is None and address.store.may_be_cut and not kinds >= {"metaData", "protocol"}:
        raise TableUnreadableError(address, entry(address, first), "has neither schema nor protocol of the table")
    return True


def newest_files(address: Address) -> list[Entry]:
    """What the newest version of a table is made of: its newest checkpoint, the hint of it, and the commits since; none without a table.

    Raises:
        TableUnreadableError: A file of the checkpoint is missing or torn.
    """
    checkpoint, files = _newest_checkpoint(address, _files(address))
    since = -1 if checkpoint is None else checkpoint
    named = {name: int(name[:20]) for name in files if _VERSION.fullmatch(name)}
    needed = [name for name, version in named.items() if version >= since + _is_commit(name)]
    return [files[name] for name in (*needed, *({_HINT} & files.keys()))]


def _kinds(address: Address, version: int, files: Mapping[str, Entry]) -> frozenset[str]:
    """The kinds of the actions of a commit, as far as it has to be read."""
    file = entry(address, version)
    try:
        with reading(address, file):
            listed = files.get(file.name) or file.stat()
            revision, size = listed.revision, listed.size
    except FileNotFoundError:
        raise TableUnreadableError(address, file, "is missing") from None
    if size and not address.store.may_be_cut:
        return frozenset()
    return _checked_commits.get(file, revision, lambda: frozenset(kind for kind, _ in actions(address, version) or ()))


@contextmanager
def reading(address: Address, file: Address) -> Iterator[None]:
    """Raise `TableUnreadableError` for what goes wrong inside, unless the file does not exist.

    Args:
        path: The folder of the table.
        file: The file of its log that is read and interpreted.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise_machine(error, f"table {address}")
        raise TableUnreadableError(
            address, file, f"cannot be read ({error.strerror or type(error).__name__})"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        # The text of the error may quote statistics, which have values of the data.
        raise TableUnreadableError(address, file, "is torn, or does not have what Delta writes") from None


def _files(address: Address) -> dict[str, Entry]:
    """The files of the log by name; none without a table."""
    folder = address / "_delta_log"
    try:
        with reading(address, folder):
            return {each.name: each for each in folder.list()}
    except NotADirectoryError:
        return {}


def _names(address: Address) -> list[str]:
    """The files of commits and checkpoints; none without a table."""
    return [name for name in _files(address) if _VERSION.fullmatch(name)]


def _versions(files: Mapping[str, Entry]) -> list[int]:
    return [int(name[:20]) for name in files if _VERSION.fullmatch(name)]


def _checkpoints(files: Mapping[str, Entry]) -> dict[int, list[str]]:
    """The files of checkpoints, by their versions."""
    by_version: dict[int, list[str]] = {}
    for name in files:
        if _VERSION.fullmatch(name) and not _is_commit(name):
            by_version.setdefault(int(name[:20]), []).append(name)
    return by_version


def _is_commit(name: str) -> bool:
    return len(name) == 25


def _action(line: bytes) -> tuple[str, dict[str, Any]]:
    ((kind, content),) = json.loads(line).items()
    if not isinstance(content, dict):
        raise TypeError(kind)
    return kind, content


def hinted_version(log: Address) -> int | None:
    """The checkpoint that ``_last_checkpoint`` names; None if it names none. Readers list the folder then, so that is no damage."""
    try:
        named = json.loads((log / _HINT).read().data)["version"]
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return named if isinstance(named, int) else None


def _check_parquet(address: Address, listed: Entry) -> None:
    """Raise `TableUnreadableError` if a file of a checkpoint is torn; those of JSON are not looked at."""
    file = address.at(listed)
    if not file.name.endswith(".parquet"):
        return
    with reading(address, file):
        revision, size = listed.revision, listed.size
    if size <= 12 or address.store.may_be_cut:
        _checked_checkpoints.get(file, revision, lambda: _is_whole(address, file))


def _is_whole(address: Address, file: Address) -> bool:
    """True; raises if it is not."""
    with reading(address, file), file.open() as content:
        first = content.read(4)
        size = content.seek(0, 2)
        content.seek(max(0, size - 8))
        last = content.read()
        if not (size > 12 and first == last[4:] == _PARQUET and int.from_bytes(last[:4], "little") <= size - 12):
            raise ValueError(file.name)
    return True
