"""The files of a Delta table's log: commits, checkpoints and checksum files. Read without a JVM; `tidegate.probes.delta` interprets them.

A commit always has actions, and a file becomes visible when it is complete. So an empty or torn file is damage, which Spark and
delta-rs partly read as a commit without changes: here every function raises `TableUnreadableError` for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegate.errors import TableUnreadableError
from tidegate.errors.classification import raise_machine

_VERSION = re.compile(r"(\d{20})\.(?:json|checkpoint(?:\.[0-9a-f.-]+)?\.(?:parquet|json))")
_PARQUET = b"PAR1"
"""The first and the last four bytes of a Parquet file."""
_checked_commits: dict[Path, tuple[tuple[int, int, int], frozenset[str]]] = {}
"""The kinds of actions of commits that `check` has read, with inode, time and size of the file: pages check every ten seconds."""
_MAX_CHECKED = 10_000


def entry(path: Path, version: int) -> Path:
    """The file of a commit."""
    return path / "_delta_log" / f"{version:020d}.json"


def versions(path: Path) -> list[int]:
    """The versions of which the log has a commit or a checkpoint, in no order; none without a table."""
    return [int(name[:20]) for name in _names(path)]


def oldest_version(path: Path) -> int:
    """The oldest version whose snapshot can be reconstructed; Delta needs it to read changes from there on."""
    names = _names(path)
    commits = {int(name[:20]) for name in names if _is_commit(name)}
    checkpoints = {int(name[:20]) for name in names if not _is_commit(name)}
    oldest = max(commits, default=0)
    while oldest - 1 in commits:
        oldest -= 1
    return oldest if oldest == 0 else min((version for version in checkpoints if version >= oldest), default=oldest)


def actions(path: Path, version: int) -> list[tuple[str, dict[str, Any]]] | None:
    """Kind and content of the actions of a commit; None if the log does not have it.

    Raises:
        TableUnreadableError: The commit is empty or torn, or cannot be read.
    """
    file = entry(path, version)
    try:
        with reading(path, file):
            content = file.read_bytes()
    except FileNotFoundError:
        return None
    return parse(path, file, content)


def parse(path: Path, file: Path, content: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Kind and content of the actions in the content of a commit's file.

    Raises:
        TableUnreadableError: It is empty or torn.
    """
    with reading(path, file):
        listed = [_action(line) for line in content.splitlines() if line.strip()]
    if not listed:
        raise TableUnreadableError(path, file, "is empty")
    return listed


def commit_info(path: Path, version: int) -> dict[str, Any] | None:
    """The action ``commitInfo`` of a commit, empty if it has none; None if the log does not have the commit.

    Raises:
        TableUnreadableError: As `actions`.
    """
    file = entry(path, version)
    try:
        with reading(path, file), file.open("rb") as lines:
            empty = True
            for line in lines:
                empty = empty and not line.strip()
                if line.startswith(b'{"commitInfo"'):
                    return _action(line)[1]
    except FileNotFoundError:
        return None
    if empty:
        raise TableUnreadableError(path, file, "is empty")
    return {}


def transactions(path: Path, version: int) -> dict[str, int] | None:
    """The last ``txnVersion`` of every ``txnAppId``, from the checksum file of a version (Delta protocol, "Version Checksum File").

    None if the file does not have them, cannot be read, or does not exist, as after a commit of delta-rs.
    """
    try:
        checksum = json.loads((path / "_delta_log" / f"{version:020d}.crc").read_bytes())
        listed = checksum.get("setTransactions")
        return None if listed is None else {str(each["appId"]): int(each["version"]) for each in listed}
    except (FileNotFoundError, ValueError, AttributeError, KeyError, TypeError):
        return None


def newest_checkpoint(path: Path) -> int | None:
    """The version of the newest checkpoint; None without one.

    Raises:
        TableUnreadableError: A file of it is missing or torn.
    """
    # Before the folder is listed: a checkpoint is complete when it is named here.
    named = hinted_version(path / "_delta_log")
    return _newest_checkpoint(path, named, _names(path))


def _newest_checkpoint(path: Path, named: int | None, names: Sequence[str]) -> int | None:
    log, checkpoints = path / "_delta_log", [name for name in names if not _is_commit(name)]
    newest = max((int(name[:20]) for name in checkpoints), default=None)
    for name in checkpoints:
        if int(name[:20]) == newest and name.endswith(".parquet"):
            _check_parquet(path, log / name)
    if named is not None and (newest is None or named > newest):
        raise TableUnreadableError(path, log / f"{named:020d}.checkpoint.parquet", "is missing")
    return newest


def readable_checkpoints(path: Path) -> set[int]:
    """The versions of which the log has a whole checkpoint."""
    readable, damaged = set(), set()
    for name in _names(path):
        if _is_commit(name):
            continue
        try:
            if name.endswith(".parquet"):
                _check_parquet(path, path / "_delta_log" / name)
            readable.add(int(name[:20]))
        except (TableUnreadableError, FileNotFoundError):
            damaged.add(int(name[:20]))
    return readable - damaged


def check(path: Path) -> None:
    """Check that the newest version of a table can be made of its log; without a table there is nothing to check.

    Reads the commits since the newest checkpoint, and no data file.

    Raises:
        TableUnreadableError: A file is missing, empty or torn, or cannot be read.
    """
    log = path / "_delta_log"
    with reading(path, log):
        named = hinted_version(log)
    names = _names(path)
    if not names:
        return
    newest = max(int(name[:20]) for name in names)
    checkpoint = _newest_checkpoint(path, named, names)
    first = 0 if checkpoint is None else checkpoint + 1
    kinds: set[str] = set()
    for version in range(first, newest + 1):
        kinds |= _kinds(path, version)
    if checkpoint is None and not kinds >= {"metaData", "protocol"}:
        raise TableUnreadableError(path, entry(path, first), "has neither schema nor protocol of the table")


def _kinds(path: Path, version: int) -> frozenset[str]:
    """The kinds of the actions of a commit; a file that was read before and has not changed is not read again."""
    file = entry(path, version)
    try:
        with reading(path, file):
            stat = file.stat()
    except FileNotFoundError:
        raise TableUnreadableError(path, file, "is missing") from None
    state = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    known = _checked_commits.get(file)
    if known is None or known[0] != state:
        if len(_checked_commits) > _MAX_CHECKED:
            _checked_commits.clear()
        known = _checked_commits[file] = state, frozenset(kind for kind, _ in actions(path, version) or ())
    return known[1]


@contextmanager
def reading(path: Path, file: Path) -> Iterator[None]:
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
        raise_machine(error, f"table {path}")
        raise TableUnreadableError(path, file, f"cannot be read ({error.strerror or type(error).__name__})") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        # The text of the error may quote statistics, which have values of the data.
        raise TableUnreadableError(path, file, "is torn, or does not have what Delta writes") from None


def _names(path: Path) -> list[str]:
    """The files of commits and checkpoints; none without a table."""
    folder = path / "_delta_log"
    try:
        with reading(path, folder):
            names = [each.name for each in folder.iterdir() if _VERSION.fullmatch(each.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return names


def _is_commit(name: str) -> bool:
    return len(name) == 25


def _action(line: bytes) -> tuple[str, dict[str, Any]]:
    ((kind, content),) = json.loads(line).items()
    if not isinstance(content, dict):
        raise TypeError(kind)
    return kind, content


def hinted_version(log: Path) -> int | None:
    """The checkpoint that ``_last_checkpoint`` names; None if it names none. Readers list the folder then, so that is no damage."""
    try:
        named = json.loads((log / "_last_checkpoint").read_bytes())["version"]
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError, KeyError):
        return None
    return named if isinstance(named, int) else None


def _check_parquet(path: Path, file: Path) -> None:
    with reading(path, file), file.open("rb") as content:
        first = content.read(4)
        size = content.seek(0, 2)
        content.seek(max(0, size - 8))
        last = content.read()
        complete = size > 12 and first == last[4:] == _PARQUET and int.from_bytes(last[:4], "little") <= size - 12
        if not complete:
            raise ValueError(file.name)
