"""A store that asks another one only once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, BinaryIO, TypeVar

from tidegate.store.store import Content, Entry, Store, folder_status, missing
from tidegate.store.wrapper import StoreWrapper

T = TypeVar("T")

_SMALL = 32 * 1024
"""Bytes of a content up to which it is kept for the next reading."""


class ReadOnceStore(StoreWrapper):
    """What another store has, as it was when it was first asked for: a reading that many functions make together reads each key once.

    Contents, listings and statuses stay as they were first, also that a key is missing; any other error is raised again when it occurs
    again. What a folder was listed without is missing, with all below it, and no request says so again. `open` is not for contents that
    are read as a whole: it asks the other store each time. A write forgets everything. Threads may share it: of several that ask for one
    thing at the same time, one asks, and the others wait.

    A content that is known with the tag that a listing tells is not read again.

    Args:
        store: The other store.
        folders: Folders of which most of what is asked for is missing, by the first of their names: how many names each has. It is listed
            before the first thing in it is asked for.
        trees: Likewise, folders that are listed together with those in them (`Store.list_tree`).
        whole: The first names of those that are listed as a whole.
    """

    known: Mapping[str, Content] = {}
    """Contents that were read earlier, by key."""

    def __init__(
        self,
        store: Store,
        folders: Mapping[str, int] | None = None,
        trees: Mapping[str, int] | None = None,
        whole: Collection[str] = (),
    ) -> None:
        super().__init__(store)
        self._folders, self._trees, self._whole = dict(folders or {}), dict(trees or {}), frozenset(whole)
        self.contents: dict[str, Content] = {}
        """Small contents that were read, of which a listing told the tag; the next reading may know them."""
        self._answers: dict[tuple[str, str], Future[Any]] = {}
        self._listings: dict[str, dict[str, Entry]] = {}
        """By folder, what it was listed with, by name."""
        self._forgotten = 0
        """How often something was forgotten: a listing that began before answers for nothing else."""
        self._lock = threading.Lock()

    def read(self, key: str) -> Content:
        """Asks once."""
        entry = self._expect_listed(key)
        return self._once("read", key, lambda _: self._read(key, entry))

    def list(self, key: str = "") -> list[Entry]:
        """Asks once."""
        try:
            self._expect_listed(key)
        except FileNotFoundError:
            return []
        if key in self._listings:
            return [*self._listings[key].values()]
        return [*self._once("list", key, self._list)]

    def list_tree(self, key: str, *, whole: bool = False) -> Mapping[str, Sequence[Entry]]:
        """Asks once."""
        return self._once("whole tree" if whole else "tree", key, lambda key: self._list_tree(key, whole=whole))

    def stat(self, key: str) -> Entry:
        """Asks once, unless a listing of a store that has its statuses has it."""
        entry = self._expect_listed(key)
        # A folder may be listed and not exist (`tidegate.store.objects`).
        if entry is not None and entry.kind == "content" and not self.is_local:
            return entry
        if not self.is_local and self._has_content(key):
            return Entry(key, "folder", lambda: folder_status(self.list(key)))
        return self._once("stat", key, self.store.stat)

    def once(self, key: str, make: Callable[[], T]) -> T:
        """Makes it once; every call for a key makes the same."""
        return self._once("make", key, lambda _: make())

    def open(self, key: str) -> BinaryIO:
        """Asks each time."""
        return self.store.open(key)

    def put(self, key: str, data: bytes) -> None:
        """Forgets everything."""
        self._write(lambda: self.store.put(key, data))

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        """Forgets everything."""
        return self._write(lambda: self.store.put_if(key, data, tag))

    def append(self, key: str, line: bytes) -> None:
        """Forgets everything."""
        self._write(lambda: self.store.append(key, line))

    def delete(self, key: str) -> None:
        """Forgets everything."""
        self._write(lambda: self.store.delete(key))

    def delete_folder(self, key: str) -> None:
        """Forgets everything."""
        self._write(lambda: self.store.delete_folder(key))

    def make_folder(self, key: str) -> None:
        """Forgets everything."""
        self._write(lambda: self.store.make_folder(key))

    def move(self, source: str, target: str) -> None:
        """Forgets everything."""
        self._write(lambda: self.store.move(source, target))

    @property
    def keeps(self) -> bool:
        """Yes."""
        return True

    def _once(self, operation: str, key: str, ask: Callable[[str], T]) -> T:
        with self._lock:
            known = self._answers.get((operation, key))
            answer: Future[T] = known if known is not None else Future()
            self._answers[operation, key] = answer
        if known is None:
            try:
                answer.set_result(ask(key))
            except BaseException as error:
                if not isinstance(error, FileNotFoundError):
                    with self._lock:
                        self._answers.pop((operation, key), None)
                answer.set_exception(error)
        return answer.result()

    def _read(self, key: str, entry: Entry | None) -> Content:
        tag = "" if entry is None or self.is_local else entry.tag
        content = self.contents.get(key) or self.known.get(key)
        if not tag or content is None or content.tag != tag:
            content = self.store.read(key)
        if content.tag == tag and len(content.data) <= _SMALL:
            self.contents[key] = content
        return content

    def _list(self, key: str) -> Sequence[Entry]:
        before, entries = self._forgotten, self.store.list(key)
        self._keep({key: entries}, before)
        return entries

    def _list_tree(self, key: str, *, whole: bool) -> Mapping[str, Sequence[Entry]]:
        before, listings = self._forgotten, self.store.list_tree(key, whole=whole)
        self._keep(listings, before)
        return listings

    def _keep(self, listings: Mapping[str, Sequence[Entry]], before: int) -> None:
        with self._lock:
            if before == self._forgotten:
                self._listings |= {key: {each.name: each for each in listed} for key, listed in listings.items()}

    def _expect_listed(self, key: str) -> Entry | None:
        """What the key was listed as, if its folder was listed. Raises FileNotFoundError if a listing lacks it, or one of its folders."""
        names = key.split("/") if key else []
        # What cannot be listed may still be read.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            self._list_around(names)
        return self._listed(names)

    def _list_around(self, names: Sequence[str]) -> None:
        """List what is to be listed before a key is asked for."""
        first = names[0] if names else ""
        if first in self._folders and len(names) > self._folders[first]:
            self.list("/".join(names[: self._folders[first]]))
        if first in self._trees and len(names) >= self._trees[first]:
            tree = names[: self._trees[first]]
            entry = self._listed(tree)
            if entry is None or entry.is_folder:
                self.list_tree("/".join(tree), whole=first in self._whole)

    def _listed(self, names: Sequence[str]) -> Entry | None:
        for count in range(len(names) - 1, -1, -1):
            listing = self._listings.get("/".join(names[:count]))
            if listing is not None and names[count] not in listing:
                raise missing(self.uri("/".join(names)))
            if listing is not None:
                return listing[names[count]] if count == len(names) - 1 else None
        return None

    def _has_content(self, folder: str) -> bool:
        """Whether a listing shows that a folder exists."""
        with self._lock:
            listed = [each for key, each in self._listings.items() if _is_in(key, folder)]
        return any(entry.kind == "content" for listing in listed for entry in listing.values())

    def _write(self, act: Callable[[], T]) -> T:
        try:
            return act()
        finally:
            self.forget()

    def forget(self, key: str = "") -> None:
        """Ask again for a key and all below it; by default for everything."""
        with self._lock:
            self._forgotten += 1
            for request in [each for each in self._answers if _is_in(each[1], key)]:
                del self._answers[request]
            for listed in [each for each in self._listings if _is_in(each, key)]:
                del self._listings[listed]


def _is_in(key: str, folder: str) -> bool:
    return not folder or f"{key}/".startswith(f"{folder}/")
