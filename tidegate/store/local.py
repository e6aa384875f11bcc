"""A store in a folder of the local file system, or of one that behaves like it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import random
import re
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tidegate.errors.classification import accessing
from tidegate.store.store import Content, Entry, Kind, Status, Store, below, checked, checked_move, conflict, missing

_LOCKS = ".locks"
"""The folder of the locks of keys that are updated by tag: one empty file each, which stays."""
_OWN = re.compile(r"\..+\.(\d+-\d+\.tmp|removed|update)")
"""Names of what an interrupted write or removal has left. They are never listed, and no key has one."""
_LONGEST_NAME = 255
"""Bytes of a file's name (``NAME_MAX`` of Linux's file systems)."""


class LocalStore(Store):
    """Keys are paths of files.

    A write is a temporary file beside the key's, with a hidden name, which gets the key's name by a rename or a link when it is whole. No
    file is synced: the system writes it to the disk when it wants to, so a power cut may leave the old content, the new one, or on some
    file systems an empty file. An update by tag locks a file of its own: a writer that is stopped holds up the others, and one that is
    killed holds up no one.

    Args:
        root: The folder. It is created by the first write.
        wait: How many seconds an update by tag waits for another one.
    """

    def __init__(self, root: Path, wait: float = 30.0) -> None:
        self.root = root
        self._wait = wait

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

    def __repr__(self) -> str:
        return f"LocalStore({str(self.root)!r})"

    @property
    def is_local(self) -> bool:
        """It is."""
        return True

    def path(self, key: str) -> Path:
        """The file of a key, or the folder."""
        return self.root / checked(key, of_folder=True)

    def uri(self, key: str) -> str:
        """The path."""
        return str(self.path(key))

    def read(self, key: str) -> Content:
        """Reads the file."""
        path = self._file(key)
        with _reading(path):
            return Content(path.read_bytes())

    def open(self, key: str) -> BinaryIO:
        """Opens the file, which stays readable if the key gets another one."""
        path = self._file(key)
        with _reading(path):
            return path.open("rb")

    def put(self, key: str, data: bytes) -> None:
        """Renames."""
        path = self._file(key)
        with _temporary(path, data) as temporary:
            temporary.replace(path)

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        """Links a new file; for a tag, compares and renames under a lock."""
        path = self._file(key)
        if tag is None:
            with _temporary(path, data) as temporary:
                try:
                    path.hardlink_to(temporary)
                except FileExistsError:
                    raise conflict(str(path), tag) from None
            return Content(data).tag
        with self._locked(key):
            try:
                before = self.read(key)
            except FileNotFoundError:
                raise conflict(str(path), tag) from None
            if before.tag != tag:
                raise conflict(str(path), tag)
            # Under the lock one name is enough, and what a killed writer has left there is replaced.
            with _temporary(path, data, _hidden(path, "update")) as temporary:
                temporary.replace(path)
        return Content(data).tag

    def append(self, key: str, line: bytes) -> None:
        """Appends with one system call, under the lock of updates, which would lose the line."""
        path = self._file(key)
        _create_folder(path.parent)
        with self._locked(key), accessing(path, "write"), path.open("ab", buffering=0) as file:
            if (written := file.write(line)) != len(line):
                raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes were written", str(path))

    def delete(self, key: str) -> None:
        """Unlinks the file."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._file(key).unlink()

    def delete_folder(self, key: str) -> None:
        """Renames the folder, then removes it. What an interruption leaves, under a hidden name, goes with the next removal."""
        folder = self._file(key)
        hidden = _hidden(folder, "removed")
        with _naming(folder, "remove"):
            if hidden.exists():
                shutil.rmtree(hidden)
            if folder.is_dir():
                folder.rename(hidden)
                shutil.rmtree(hidden)

    def make_folder(self, key: str) -> None:
        """Makes it."""
        _create_folder(self.path(key))

    def move(self, source: str, target: str) -> None:
        """Renames."""
        checked_move(source, target)
        before, after = self._file(source), self._file(target)
        if after.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(after))
        if not before.exists():
            raise missing(str(before))
        _create_folder(after.parent)
        before.rename(after)

    def list(self, key: str = "") -> list[Entry]:
        """Reads the folder."""
        folder = self.path(key)
        try:
            with accessing(folder, "list"), os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        return [
            _entry(below(key, entry.name), entry)
            for entry in entries
            if not (entry.name.startswith(".") and (_OWN.fullmatch(entry.name) or (entry.name == _LOCKS and not key)))
        ]

    def stat(self, key: str) -> Entry:
        """Asks for the file's status."""
        path = self.path(key)
        with _reading(path):
            status = path.stat()
        is_folder, is_file = stat.S_ISDIR(status.st_mode), stat.S_ISREG(status.st_mode)
        return Entry(key, _kind(is_folder, is_file), lambda: _status(status))

    def _file(self, key: str) -> Path:
        return self.root / checked(key)

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        path, until = self.path(key), time.monotonic() + self._wait
        lock = self.root / _LOCKS / hashlib.sha256(os.fsencode(key)).hexdigest()[:32]
        with accessing(path, "lock"):
            lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            while not _lock(descriptor):
                if time.monotonic() > until:
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
                time.sleep(random.uniform(0.001, 0.01))
            yield
        finally:
            # Closing alone would keep the lock if the process was forked meanwhile.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _temporary(path: Path, data: bytes, temporary: Path | None = None) -> Iterator[Path]:
    """A whole file of its own beside a path, which is gone afterwards: it has the path's name, or is removed."""
    _create_folder(path.parent)
    # The random number tells processes of different machines apart.
    temporary = temporary or _hidden(path, f"{os.getpid()}-{random.getrandbits(64)}.tmp")
    try:
        with _naming(path, "write"):
            temporary.write_bytes(data)
            yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _hidden(path: Path, suffix: str) -> Path:
    """The path beside another one that `_OWN` matches; of a name that would be too long it has a hash."""
    name = f".{path.name}.{suffix}"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()}.{suffix}"
    return path.with_name(name)


@contextlib.contextmanager
def _naming(path: Path, operation: str) -> Iterator[None]:
    """Name a path in every error, in place of a hidden file of this module, and what is done to it."""
    try:
        with accessing(path, operation):
            yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A file below a file does not exist."""
    try:
        with accessing(path, "read"):
            yield
    except NotADirectoryError:
        raise missing(str(path)) from None


def _entry(key: str, listed: os.DirEntry[str]) -> Entry:
    def status() -> Status:
        with accessing(listed.path, "read"):
            return _status(listed.stat())

    try:
        kind = _kind(listed.is_dir(), listed.is_file())
    except OSError as error:
        # A link that leads to itself.
        if error.errno != errno.ELOOP:
            raise
        kind = "other"
    return Entry(key, kind, status)


def _kind(is_folder: bool, is_file: bool) -> Kind:
    return "folder" if is_folder else "content" if is_file else "other"


def _status(known: os.stat_result) -> Status:
    """Of what the system says. A file that was written again has another inode, or at least another time of change."""
    size = 0 if stat.S_ISDIR(known.st_mode) else known.st_size
    return Status(size, known.st_mtime_ns, (known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns))
