"""Any store, with faults, latency and counts."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from tidegate.store.store import Content, Entry, Store
from tidegate.store.wrapper import StoreWrapper

T = TypeVar("T")


@dataclass
class Fault:
    """One operation of a store that fails."""

    operation: str
    """The name of the method, for example ``put``."""
    error: BaseException
    call: int = 1
    """Which call fails, of those of this operation from now on that are of `key`."""
    key: str | None = None
    """Which key; None for any."""
    after: bool = False
    """Whether the operation has had its effect: only the answer is lost."""
    fired: bool = False


class InstrumentedStore(StoreWrapper):
    """Does what another store does, counts the requests, delays them, and lets some fail.

    Args:
        store: The other store.
        latency: How many seconds each request takes longer.
    """

    def __init__(self, store: Store, latency: float = 0.0) -> None:
        super().__init__(store)
        self.latency = latency
        self.requests: Counter[str] = Counter()
        """How often each operation was called, by the name of the method. An `exists` is a ``stat``, a `walk` a ``list`` of each folder."""
        self.keys: Counter[tuple[str, str]] = Counter()
        """Likewise, by method and key."""
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def fail(self, fault: Fault) -> Fault:
        """Let an operation fail; `Fault.fired` says afterwards whether it has."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def read(self, key: str) -> Content:
        """A request."""
        return self._request("read", key, lambda: self.store.read(key))

    def open(self, key: str) -> BinaryIO:
        """A request; the parts that are read are none."""
        return self._request("open", key, lambda: self.store.open(key))

    def put(self, key: str, data: bytes) -> None:
        """A request."""
        self._request("put", key, lambda: self.store.put(key, data))

    def put_if(self, key: str, data: bytes, tag: str | None) -> str:
        """A request."""
        return self._request("put_if", key, lambda: self.store.put_if(key, data, tag))

    def append(self, key: str, line: bytes) -> None:
        """A request."""
        self._request("append", key, lambda: self.store.append(key, line))

    def delete(self, key: str) -> None:
        """A request."""
        self._request("delete", key, lambda: self.store.delete(key))

    def delete_folder(self, key: str) -> None:
        """A request."""
        self._request("delete_folder", key, lambda: self.store.delete_folder(key))

    def make_folder(self, key: str) -> None:
        """A request."""
        self._request("make_folder", key, lambda: self.store.make_folder(key))

    def move(self, source: str, target: str) -> None:
        """A request, of the source."""
        self._request("move", source, lambda: self.store.move(source, target))

    def list(self, key: str = "") -> list[Entry]:
        """A request."""
        return self._request("list", key, lambda: self.store.list(key))

    def list_tree(self, key: str, *, whole: bool = False) -> Mapping[str, Sequence[Entry]]:
        """A request."""
        return self._request("list_tree", key, lambda: self.store.list_tree(key, whole=whole))

    def stat(self, key: str) -> Entry:
        """A request."""
        return self._request("stat", key, lambda: self.store.stat(key))

    def _request(self, operation: str, key: str, act: Callable[[], T]) -> T:
        with self._lock:
            self.requests[operation] += 1
            self.keys[operation, key] += 1
            fault = self._next_fault(operation, key)
        time.sleep(self.latency)
        if fault is not None and not fault.after:
            raise fault.error
        result = act()
        if fault is not None:
            raise fault.error
        return result

    def _next_fault(self, operation: str, key: str) -> Fault | None:
        of_this_call = None
        for fault in self._faults:
            if not fault.fired and fault.operation == operation and fault.key in (None, key):
                fault.call -= 1
                if not fault.call and of_this_call is None:
                    of_this_call = fault
                    fault.fired = True
        return of_this_call
