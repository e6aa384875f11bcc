"""What was made of the contents of files, kept while these have the same revision: pages read the same tables every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tidegate.store import Address

T = TypeVar("T")

_MAX_KEPT = 10_000


class KeptByRevision(Generic[T]):
    """The results of one function of a file's content."""

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
