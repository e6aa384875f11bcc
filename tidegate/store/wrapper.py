"""A store around another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tidegate.store.store import Entry, Store


class StoreWrapper(Store):
    """Has the addresses and locks of another store.

    Args:
        store: The other store.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def uri(self, key: str) -> str:
        """That of the other store."""
        return self.store.uri(key)

    def path(self, key: str) -> Path:
        """That of the other store."""
        return self.store.path(key)

    def list_tree(self, key: str) -> Mapping[str, Sequence[Entry]]:
        """That of the other store."""
        return self.store.list_tree(key)

    def forget(self, key: str = "") -> None:
        """That of the other store."""
        self.store.forget(key)

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

    def check(self) -> None:
        """That of the other store."""
        self.store.check()
