"""A store that asks another one only once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, BinaryIO, TypeVar

from tidegate.store.store import Content, Entry, Store
from tidegate.store.wrapper import StoreWrapper

T = TypeVar("T")


class ReadOnceStore(StoreWrapper):
    """What another store has, as it was when it was first asked for: a reading that many functions make together reads each key once.

    Contents, listings and statuses stay as they were first, also that a key is missing; any other error is raised again when it occurs
    again. `open` is not for contents that are read as a whole: it asks the other store each time. A write forgets everything. Threads may
    share it: of several that ask for one thing at the same time, one asks, and the others wait.

    Args:
        store: The other store.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._answers: dict[tuple[str, str], Future[Any]] = {}
        self._lock = threading.Lock()

    def read(self, key: str) -> Content:
        """Asks once."""
        return self._once("read", key, self.store.read)

    def list(self, key: str = "") -> list[Entry]:
        """Asks once."""
        return [*self._once("list", key, self.store.list)]

    def stat(self, key: str) -> Entry:
        """Asks once."""
        return self._once("stat", key, self.store.stat)

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

    def _write(self, act: Callable[[], T]) -> T:
        try:
            return act()
        finally:
            self.forget()

    def forget(self) -> None:
        """Ask for everything again."""
        with self._lock:
            self._answers.clear()
