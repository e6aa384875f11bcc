"""A lake in memory, for tests of what reads and writes the lake through its store alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tidegate.layout import Layout
from tidegate.store import Address, InstrumentedStore, MemoryStore


@dataclass(frozen=True)
class MemoryLayout(Layout):
    """The layout of a lake whose keys are in memory; it counts the requests. Its tables and landing zone do not exist."""

    lake: Path = Path("/nowhere/lake")
    landing_root: Path = Path("/nowhere/landing")
    store: InstrumentedStore = field(default_factory=lambda: InstrumentedStore(MemoryStore()))

    @property
    def root(self) -> Address:
        return Address(self.store)
