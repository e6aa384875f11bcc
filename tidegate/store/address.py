"""A key in a store, as one value."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from tidegate.errors import WriteConflictError
from tidegate.store.local import LocalStore
from tidegate.store.store import Content, Entry, ReadableStore, Store, below

T = TypeVar("T")

_MAX_KEPT = 10_000


@dataclass(frozen=True, order=False)
class Address:
    """A key, or a folder of keys, in a store. Its operations are those of `Store`, with their errors and promises."""

    store: ReadableStore
    key: str = ""

    @classmethod
    def local(cls, path: Path) -> Address:
        """A local file or folder, as a key in the folder that it is in."""
        return cls(LocalStore(path.parent), path.name)

    def __truediv__(self, key: str) -> Address:
        return Address(self.store, below(self.key, key))

    def __str__(self) -> str:
        return self.uri

    def __lt__(self, other: Address) -> bool:
        return self.key.split("/") < other.key.split("/")

    def __fspath__(self) -> str:
        """The path of the local file or folder, for programs that need one. Raises as `Store.path`."""
        return os.fspath(self.store.path(self.key))

    @property
    def uri(self) -> str:
        """As Spark, Delta, delta-rs and DuckDB read and write it."""
        return self.store.uri(self.key)

    @property
    def written_uri(self) -> str:
        """`uri` for a program that writes there. Raises as `writable`."""
        return self.writable.uri(self.key)

    @property
    def writable(self) -> Store:
        """The store, to write there.

        Raises:
            OSError: EROFS: it can only be read (`tidegate.store.read_only`).
        """
        if not isinstance(self.store, Store):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), self.uri)
        return self.store

    def of_uri(self, uri: str) -> Address:
        """The address of what is in this folder, by its `uri`.

        Raises:
            ValueError: It is not in this folder.
        """
        start = f"{self.uri}/"
        if not uri.startswith(start):
            raise ValueError(f"{uri} is not in {self}")
        return self / uri[len(start) :]

    @property
    def options(self) -> Mapping[str, str]:
        """What delta-rs needs beside `uri`."""
        return self.store.options

    @property
    def name(self) -> str:
        """The last part of the key; empty for the folder of all keys."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        stem, _, suffix = self.name.rpartition(".")
        return stem if stem and suffix else self.name

    @property
    def parent(self) -> Address:
        """The folder that it is in; that of all keys is in itself."""
        return Address(self.store, self.key.rpartition("/")[0])

    def numbers(self, suffix: str = "") -> list[int]:
        """The numbers that name what the folder has, with a suffix, ascending; none if it does not exist. Raises as `list`."""
        names = (entry.name.removesuffix(suffix) for entry in self.list() if entry.name.endswith(suffix))
        return sorted(int(name) for name in names if name.isdigit())

    def read(self) -> Content:
        """As `Store.read`."""
        return self.store.read(self.key)

    def open(self) -> BinaryIO:
        """As `Store.open`."""
        return self.store.open(self.key)

    def put(self, data: bytes) -> None:
        """As `Store.put`."""
        self.writable.put(self.key, data)

    def put_if(self, data: bytes, tag: str | None) -> str:
        """As `Store.put_if`."""
        return self.writable.put_if(self.key, data, tag)

    def update(self, change: Callable[[bytes | None], bytes]) -> None:
        """Replace the content by what a function makes of it, again while other writers are in between: each change stays.

        Args:
            change: Gets None if there is no content.
        """
        while True:
            try:
                before = self.read()
                data, tag = before.data, before.tag
            except FileNotFoundError:
                data, tag = None, None
            with contextlib.suppress(WriteConflictError):
                self.put_if(change(data), tag)
                return

    def append(self, line: bytes) -> None:
        """As `Store.append`."""
        self.writable.append(self.key, line)

    def delete(self) -> None:
        """As `Store.delete`."""
        self.writable.delete(self.key)

    def delete_folder(self) -> None:
        """As `Store.delete_folder`."""
        self.writable.delete_folder(self.key)

    def make_folder(self) -> None:
        """As `Store.make_folder`."""
        self.writable.make_folder(self.key)

    def move(self, target: Address) -> None:
        """As `Store.move`; both are in one store."""
        if target.store != self.store:
            raise ValueError(f"{self} and {target} are in different stores")
        self.writable.move(self.key, target.key)

    def list(self) -> list[Entry]:
        """As `Store.list`."""
        return self.store.list(self.key)

    def walk(self) -> Iterator[Entry]:
        """As `Store.walk`."""
        return self.store.walk(self.key)

    def stat(self) -> Entry:
        """As `Store.stat`."""
        return self.store.stat(self.key)

    def exists(self) -> bool:
        """As `Store.exists`."""
        return self.store.exists(self.key)

    def forget(self) -> None:
        """As `Store.forget`."""
        self.store.forget(self.key)

    def at(self, entry: Entry) -> Address:
        """The address of what was listed."""
        return Address(self.store, entry.key)


class KeptByRevision(Generic[T]):
    """The results of one function of a file's content, kept while it has the same revision: pages read tables every few seconds."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Hashable, T]] = {}

    def get(self, file: Address, revision: Hashable, make: Callable[[], T]) -> T:
        """The result for a file, which is made of its content if none is kept for this revision."""
        known = self._kept.get(file.uri)
        if known is None or known[0] != revision:
            if len(self._kept) > _MAX_KEPT:
                self._kept.clear()
            known = self._kept[file.uri] = revision, make()
        return known[1]

    def clear(self) -> None:
        """Make each again."""
        self._kept.clear()
