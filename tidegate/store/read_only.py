"""A store that can only be read: of what belongs to another environment."""

from __future__ import annotations

from typing import BinaryIO

from tidegate.store.store import Content, Entry
from tidegate.store.wrapper import ReadableWrapper


class ReadOnlyStore(ReadableWrapper):
    """What another store has. It has no operation that writes, and neither has what it is typed as: an `Address` in it refuses to write.

    Args:
        store: The other store.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReadOnlyStore) and self.store == other.store

    def __hash__(self) -> int:
        return hash((ReadOnlyStore, self.store))

    def __repr__(self) -> str:
        return f"ReadOnlyStore({self.store!r})"

    def read(self, key: str) -> Content:
        """That of the other store."""
        return self.store.read(key)

    def open(self, key: str) -> BinaryIO:
        """That of the other store."""
        return self.store.open(key)

    def stat(self, key: str) -> Entry:
        """That of the other store."""
        return self.store.stat(key)

    def list(self, key: str = "") -> list[Entry]:
        """That of the other store."""
        return self.store.list(key)
