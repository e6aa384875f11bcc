"""What a store does, whatever it stores in.

Longer than 300 lines: it is what every store promises, and what they share.
"""

from __future__ import annotations

import errno
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeVar

from tidegate.advice import OutsideAct
from tidegate.errors import WriteConflictError

T = TypeVar("T")


@dataclass(frozen=True)
class Content:
    """What a key has."""

    data: bytes
    given_tag: str = field(default="", compare=False)
    """The tag that the storage gave it, where it gives any."""

    @cached_property
    def tag(self) -> str:
        """The condition of a `Store.put_if` that expects this content. Equal contents may have equal tags."""
        return self.given_tag or hashlib.sha256(self.data).hexdigest()


Kind = Literal["content", "folder", "other"]
"""``folder``: has keys below it. ``other``: what only a local file system has: pipes, sockets, devices, and links to nothing."""


class Status(NamedTuple):
    """Of a key or a folder."""

    size: int
    """In bytes; 0 of a folder."""
    modified_ns: int
    revision: Hashable
    tag: str = ""
    """That of its `Content`, where the storage tells it; the same tag is the same content."""


class Entry:
    """A key, or a folder of keys.

    Args:
        key: The key, or the folder's.
        kind: What it is; see `Kind`.
        status: Called when something of its status is asked for: a local store asks the system then, which raises FileNotFoundError if
            the key is gone by that time.
    """

    __slots__ = ("_status", "key", "kind")

    def __init__(self, key: str, kind: Kind, status: Callable[[], Status]) -> None:
        self.key = key
        self.kind = kind
        self._status = status

    @property
    def is_folder(self) -> bool:
        """Whether there are keys below it."""
        return self.kind == "folder"

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self.key.rpartition("/")[2]

    @property
    def size(self) -> int:
        """In bytes."""
        return self._status().size

    @property
    def modified_ns(self) -> int:
        """When it was written, in nanoseconds since 1970, by the clock of who stores it. It is shown, and decides nothing."""
        return self._status().modified_ns

    @property
    def revision(self) -> Hashable:
        """Differs from that of each other content that the key has had. What was made of a content may be kept under it."""
        return self._status().revision

    @property
    def tag(self) -> str:
        """As `Status.tag`."""
        return self._status().tag

    def __repr__(self) -> str:
        return f"Entry({self.key!r}, {self.kind!r})"


class ReadableStore(ABC):
    """Contents by keys, to be read.

    A key is one or more names with ``/`` between them, none of them empty, ``.`` or ``..``. Keys form a tree: a key with keys below it
    (a folder) has no content of its own. Folders need not be made; whether one whose last key was deleted is still listed is
    not defined. The empty key is the folder of all keys.

    **Errors.** A key that does not exist is FileNotFoundError, in each operation that needs it. Whatever else the storage refuses is an
    OSError that names the key's address, and says with `tidegate.errors.classification` whether another attempt may succeed. So what cannot
    be read is never missing, and a folder that cannot be listed is never empty. A name that the storage cannot have is an OSError, too.
    ValueError: not a key.

    **Atomicity.** A reader sees a content as a whole: the one before a write or the one after it. A write that raised had no effect,
    unless the storage is remote and only its answer was lost. Operations on folders say themselves what they promise.
    """

    @abstractmethod
    def read(self, key: str) -> Content:
        """What a key has."""

    @abstractmethod
    def open(self, key: str) -> BinaryIO:
        """What a key has, to be read in parts: buffered, and with ``seek``. All parts are of the content at the time of the call.

        An object store may no longer have it when the next part is read, which is an OSError, ESTALE.
        """

    @abstractmethod
    def list(self, key: str = "") -> list[Entry]:
        """The keys and folders in a folder, without those further below, sorted by name; none if there is no such folder.

        What was written before the call is there, what was deleted before it is not. A local store raises NotADirectoryError for a key that
        has a content.
        """

    def list_tree(self, key: str, *, whole: bool = False) -> Mapping[str, Sequence[Entry]]:
        """What folders have, by their keys, as `list`: a folder, and those in it as far as an object store tells with one request.

        Args:
            whole: Whether it takes as many requests as it needs for all of them.
        """
        del whole
        return {key: self.list(key)}

    @abstractmethod
    def stat(self, key: str) -> Entry:
        """A key or a folder, with its size and time at the time of the call."""

    @abstractmethod
    def uri(self, key: str) -> str:
        """The address by which Spark, Delta and delta-rs read and write a key or a folder, and DuckDB of a local store."""

    def path(self, key: str) -> Path:
        """The local file of a key, or the folder.

        Raises:
            TypeError: The store has none.
        """
        raise TypeError(f"{self.uri(key)} is not in the local file system")

    def forget(self, key: str = "") -> None:  # noqa: B027  # most stores keep nothing
        """Ask again for a key and all below it, where a store keeps what it was once told (`tidegate.store.once`)."""

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What a function makes of what is below a key; made again each time, unless the store keeps what it was once told."""
        del key
        return make()

    @property
    def keeps(self) -> bool:
        """Whether it keeps what it was once told."""
        return False

    @property
    def may_be_cut(self) -> bool:
        """Whether a content may be there and end too early: of a file system, of which nothing is synced, after a power cut."""
        return True

    @property
    def is_local(self) -> bool:
        """Whether keys are files of this machine, or of a file system that it has mounted."""
        return False

    @property
    def options(self) -> Mapping[str, str]:
        """What delta-rs needs beside an address (``storage_options``); empty for a local store."""
        return {}

    def exists(self, key: str) -> bool:
        """Whether there is such a key or folder."""
        try:
            self.stat(key)
        except FileNotFoundError:
            return False
        return True

    def walk(self, key: str = "") -> Iterator[Entry]:
        """All keys of a folder, also those further below, sorted by key within each folder. A folder that vanishes meanwhile has none."""
        for entry in self.list(key):
            if entry.is_folder:
                yield from self.walk(entry.key)
            else:
                yield entry


class Store(ReadableStore):
    """A store whose contents may be written.

    **Durability.** A write that returned survives the end of the process, also by a signal. Whether it survives a power cut is a matter of
    the storage.
    """

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write a content, or replace it. Of concurrent writers, the last one stays, which may be the one that began first."""

    @abstractmethod
    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        """Write a content if the key still has the one with this tag, or if there is no such key (None).

        Of concurrent writers with one condition exactly one succeeds, and no other write comes between its comparison and its effect. A
        local store promises that only among this function and `append`: a key that is updated by tag is not written otherwise.
        An object store that gets no answer, and then finds the very content that it was to write, takes it for its own: who must know
        that writes something unique into each.

        Returns:
            The tag of what was written.

        Raises:
            WriteConflictError: The condition does not hold. Nothing was written.
            OSError: As for every operation; EBUSY, which is transient: another writer of the key is at work, or was stopped while it was.
        """

    @abstractmethod
    def append(self, key: str, line: bytes) -> None:
        """Write a line at the end of a content, or as the first.

        Lines of concurrent writers are all there, in any order. A line of which a part was written (the disk was full) is damage, which the
        reader of the lines finds. An object store updates by tag, and recognizes its own line like the content of `put_if`.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete a key; nothing if there is none."""

    @abstractmethod
    def delete_folder(self, key: str) -> None:
        """Delete all keys of a folder; nothing if there are none.

        A local store deletes all at once: after an interruption the folder is whole or gone. An object store deletes one key after the
        other, and an interruption leaves some: the next call deletes them.
        """

    @abstractmethod
    def make_folder(self, key: str) -> None:
        """Make a folder without keys, for a program that expects one, or as a sign that something begins; nothing if it exists.

        Only such a folder is sure to be listed. An object store writes an empty object into it, which is never listed, and which
        makes the folder exist for every other program, too.
        """

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Give a key, or a folder with its keys, another one, which must be free. The source must exist.

        A local store renames. An object store copies all keys, then deletes them: an interruption leaves some at each of the two.

        Raises:
            ValueError: One of the two is in the other.
            OSError: As for every operation.
        """

    def check(self) -> None:  # most stores have nothing to see
        """See whether the storage keeps the promise of `put_if`, where that is a matter of who made it; once in a process.

        Raises:
            SetupError: It does not. Nothing that several processes write may be there.
        """


def folder_status(entries: Collection[Entry]) -> Status:
    """That of a folder, by what it has, where the storage knows no folders."""
    files = [each for each in entries if not each.is_folder]
    newest = max((each.modified_ns for each in files), default=0)
    return Status(0, newest, frozenset((each.key, None if each.is_folder else each.revision) for each in entries))


def checked(key: str, *, of_folder: bool = False) -> str:
    """A key; raises ValueError for a text that is none.

    Args:
        key: The text.
        of_folder: Whether it may be empty.
    """
    if (key or not of_folder) and any(name in ("", ".", "..") or "\0" in name for name in key.split("/")):
        raise ValueError(f"{key!r} is not a key: it has one or more names with '/' between them")
    return key


def checked_move(source: str, target: str) -> None:
    """Raise ValueError unless a key, or a folder, can get the other one."""
    if f"{checked(target)}/".startswith(f"{checked(source)}/") or source.startswith(f"{target}/"):
        raise ValueError(f"{source!r} cannot be moved to {target!r}: one of the two is in the other")


def below(folder: str, name: str) -> str:
    """The key of a name in a folder."""
    return f"{folder}/{name}" if folder else name


def missing(uri: str) -> FileNotFoundError:
    """The error for a key that does not exist."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), uri)


def conflict(uri: str, tag: str | None) -> WriteConflictError:
    """The error for a condition that does not hold."""
    problem = "exists already" if tag is None else "is not what was read: another process has changed or deleted it"
    return WriteConflictError(f"{uri} {problem}. Nothing was written.", OutsideAct("try again"))
