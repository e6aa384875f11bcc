"""A store in memory, for tests: of the platform, and of those who use it."""

from __future__ import annotations

import errno
import io
import itertools
import os
import threading
import time
from typing import BinaryIO, NamedTuple

from tidegate.store.store import Content, Entry, Status, Store, below, checked, checked_move, conflict, missing


class _Stored(NamedTuple):
    data: bytes
    modified_ns: int
    revision: int


class MemoryStore(Store):
    """Keys are in a dictionary, which threads may share. What a local store refuses is refused with the same errors."""

    def __init__(self) -> None:
        self._keys: dict[str, _Stored] = {}
        self._revisions = itertools.count()
        self._lock = threading.RLock()

    def uri(self, key: str) -> str:
        """An address that nothing can read."""
        return f"memory:///{checked(key, of_folder=True)}"

    def read(self, key: str) -> Content:
        """Looks the key up."""
        return Content(self._data(key))

    def open(self, key: str) -> BinaryIO:
        """A copy."""
        return io.BytesIO(self._data(key))

    def put(self, key: str, data: bytes) -> None:
        """Sets the key."""
        with self._lock:
            self._expect_file(key)
            self._keys[checked(key)] = self._stored(data)

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        """Compares and sets the key under a lock."""
        with self._lock:
            before = self._keys.get(checked(key))
            if tag != (None if before is None else Content(before.data).tag) or (tag is None and self._is_folder(key)):
                raise conflict(self.uri(key), tag)
            self.put(key, data)
            return Content(data).tag

    def append(self, key: str, line: bytes) -> None:
        """Sets the key."""
        with self._lock:
            before = self._keys.get(key)
            self.put(key, (b"" if before is None else before.data) + line)

    def delete(self, key: str) -> None:
        """Forgets the key."""
        with self._lock:
            if self._is_folder(checked(key)):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.uri(key))
            self._keys.pop(key, None)

    def delete_folder(self, key: str) -> None:
        """Forgets all keys at once."""
        with self._lock:
            for each in self._below(checked(key)):
                del self._keys[each]

    def make_folder(self, key: str) -> None:
        """Sets a key that is not listed."""
        with self._lock:
            self._expect_folder(checked(key, of_folder=True))
            self._keys.setdefault(f"{key}/", self._stored(b""))

    def move(self, source: str, target: str) -> None:
        """Renames the keys at once."""
        checked_move(source, target)
        with self._lock:
            if self.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.uri(target))
            if not self.exists(source):
                raise missing(self.uri(source))
            self._expect_file(target)
            for each in [source] if source in self._keys else self._below(source):
                self._keys[target + each[len(source) :]] = self._keys.pop(each)

    def list(self, key: str = "") -> list[Entry]:
        """Selects the keys."""
        with self._lock:
            self._expect_folder(checked(key, of_folder=True))
            start = len(key) + 1 if key else 0
            names = sorted({each[start:].partition("/")[0] for each in self._below(key)} - {""})
            return [self.stat(below(key, name)) for name in names]

    def stat(self, key: str) -> Entry:
        """Looks the key up."""
        with self._lock:
            if checked(key, of_folder=True) in self._keys:
                stored = self._keys[key]
                return Entry(key, "content", lambda: Status(len(stored.data), stored.modified_ns, stored.revision))
            if of_folder := [self._keys[each] for each in self._below(key)]:
                newest = max(each.modified_ns for each in of_folder)
                revision = frozenset(each.revision for each in of_folder)
                return Entry(key, "folder", lambda: Status(0, newest, revision))
        raise missing(self.uri(key))

    def _stored(self, data: bytes) -> _Stored:
        return _Stored(bytes(data), time.time_ns(), next(self._revisions))

    def _data(self, key: str) -> bytes:
        with self._lock:
            if checked(key) in self._keys:
                return self._keys[key].data
            if self._is_folder(key):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.uri(key))
        raise missing(self.uri(key))

    def _below(self, key: str) -> tuple[str, ...]:
        return tuple(each for each in self._keys if not key or each.startswith(f"{key}/"))

    def _is_folder(self, key: str) -> bool:
        return bool(self._below(key))

    def _expect_file(self, key: str) -> None:
        """Raise what a local store raises if a key cannot have a content."""
        self._expect_folder(key.rpartition("/")[0])
        if self._is_folder(key):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.uri(key))

    def _expect_folder(self, key: str) -> None:
        names = key.split("/")
        if any("/".join(names[:count]) in self._keys for count in range(1, len(names) + 1)):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.uri(key))
