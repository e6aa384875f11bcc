"""The history of a flow: its newest batches in one small file, the older ones on pages that are written once.

The file has 50 to 99 entries. At 100, the older 50 are moved to a page, so the cost of adding a batch does not grow with the
number of batches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tidegate.atomic import write_text
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

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The history in a flow's folder; an empty one if the file does not exist or cannot be read.

        A file of a newer version or a damaged file is replaced: `tidegate.pages.rebuild` restores everything from ledger and
        verdicts.
        """
        try:
            plain = json.loads((folder / _FILE).read_text(encoding="utf-8"))
            if plain["format"] != FORMAT:
                return cls()
            return cls(closed=plain["closed"], entries=[Entry.from_json(entry) for entry in plain["entries"]])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return cls()

    def write(self, folder: Path) -> None:
        """Write it to a flow's folder."""
        entries = [entry.to_json() for entry in self.entries]
        write_text(folder / _FILE, json.dumps({"format": FORMAT, "closed": self.closed, "entries": entries}))

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
