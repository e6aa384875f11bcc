"""The history of a flow: its newest batches in one small file, the older ones on pages that are written once.

The file has 50 to 99 entries. At 100, the older 50 are moved to a page, so the cost of adding a batch does not grow with the
number of batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tidegate import json_codec
from tidegate.pages.batch import Entry

PER_PAGE = 50
"""Batches on a page of earlier batches."""

FORMAT = 1
_FILE = "history.json"


@dataclass(kw_only=True)
class History:
    """The newest batches of a flow."""

    closed: int = 0
    """Number of pages of earlier batches; ``batches-1.html`` is the oldest."""
    entries: list[Entry] = field(default_factory=list)
    """The newest batches, the newest last."""
    format: int = FORMAT

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The history in a flow's folder; an empty one if the file does not exist or cannot be read.

        A file of a newer version or a damaged file is replaced: `tidegate.pages.rebuild` restores everything from ledger and
        verdicts.
        """
        history = json_codec.read(folder / _FILE, cls)
        return cls() if history is None or history.format != FORMAT else history

    def write(self, folder: Path) -> None:
        """Write it to a flow's folder."""
        json_codec.write(folder / _FILE, self)

    def find(self, entry: Entry) -> Entry | None:
        """An earlier entry of the same batch, for example from when it was refused."""
        return next((other for other in reversed(self.entries) if other.identity == entry.identity), None)

    def add(self, entry: Entry) -> list[Entry] | None:
        """Add a batch and remove its earlier entry.

        Returns:
            The fifty batches to write to the page number ``closed`` when the file was full; else None.
        """
        self.entries = [other for other in self.entries if other.identity != entry.identity]
        self.entries.append(entry)
        if len(self.entries) < 2 * PER_PAGE:
            return None
        moved, self.entries = self.entries[:PER_PAGE], self.entries[PER_PAGE:]
        self.closed += 1
        return moved
