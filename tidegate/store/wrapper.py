"""A store around another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tidegate.store.store import Entry, ReadableStore, Store

T = TypeVar("T")


class ReadableWrapper(ReadableStore):
    """Has the addresses of another store.

    Args:
        store: The other store.
    """

    def __init__(self, store: ReadableStore) -> None:
        self.store = store

    def uri(self, key: str) -> str:
        """That of the other store."""
        return self.store.uri(key)

    def path(self, key: str) -> Path:
        """That of the other store."""
        return self.store.path(key)

    def list_tree(self, key: str, *, whole: bool = False) -> Mapping[str, Sequence[Entry]]:
        """That of the other store."""
        return self.store.list_tree(key, whole=whole)

    def forget(self, key: str = "") -> None:
        """That of the other store."""
        self.store.forget(key)

    def once(self, key: str, make: Callable[[], T]) -> T:
        """That of the other store."""
        return self.store.once(key, make)

    @property
    def keeps(self) -> bool:
        """As the other store."""
        return self.store.keeps

    @property
    def may_be_cut(self) -> bool:
        """As the other store."""
        return self.store.may_be_cut

    @property
    def is_local(self) -> bool:
        """As the other store."""
        return self.store.is_local

    @property
    def options(self) -> Mapping[str, str]:
        """Those of the other store."""
        return self.store.options


class StoreWrapper(ReadableWrapper, Store):
    """Has the addresses and locks of another store, which may be written."""

    store: Store

    def __init__(self, store: Store) -> None:
        super().__init__(store)

    def check(self) -> None:
        """That of the other store."""
        self.store.check()
