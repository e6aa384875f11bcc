"""A lake in memory, for tests of what reads and writes the lake through its store alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.lake.layout import Layout
from tidegate.store import Address
from tidegate.store.instrumented import InstrumentedStore
from tidegate.store.memory import MemoryStore


def _in_memory() -> Address:
    return Address(InstrumentedStore(MemoryStore()))


@dataclass(frozen=True)
class MemoryLayout(Layout):
    """The layout of a lake and a landing zone whose keys are in memory; their stores count the requests."""

    root: Address = field(default_factory=_in_memory)
    landing_root: Address = field(default_factory=_in_memory)

    @property
    def store(self) -> InstrumentedStore:
        """That of the lake."""
        assert isinstance(self.root.store, InstrumentedStore)
        return self.root.store
