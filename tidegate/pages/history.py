"""The history of a flow: its newest batches in one small file, the older ones on pages that are never read again.

The file holds 50 to 99 entries. When there would be 100, the older 50 become a page of their own and leave the file, so
adding a batch costs the same after ten thousand batches as after ten.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tidegate.atomic import write_text
from tidegate.pages.batch import Entry

PER_PAGE = 50
"""Batches on a page of earlier ones."""

FORMAT = 1
_FILE = "history.json"


@dataclass(kw_only=True)
class History:
    """The newest batches of a flow."""

    closed: int = 0
    """How many pages of earlier batches there are: ``batches-1.html`` is the oldest."""
    entries: list[Entry] = field(default_factory=list)
    """The newest batches, the newest last."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The history that lies in a flow's folder; an empty one if there is none, or none that can be read.

        One that cannot be read (made by a newer version, or damaged) is begun anew: ledger and verdicts hold everything,
        and `tidegate.pages.rebuild` makes the pages from them.
        """
        try:
            plain = json.loads((folder / _FILE).read_text(encoding="utf-8"))
            if plain["format"] != FORMAT:
                return cls()
            return cls(closed=plain["closed"], entries=[Entry.from_json(entry) for entry in plain["entries"]])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return cls()

    def write(self, folder: Path) -> None:
        """Keep it in a flow's folder."""
        entries = [entry.to_json() for entry in self.entries]
        write_text(folder / _FILE, json.dumps({"format": FORMAT, "closed": self.closed, "entries": entries}))

    def find(self, entry: Entry) -> Entry | None:
        """The same batch as it was told before, for example when it was refused."""
        return next((known for known in reversed(self.entries) if known.identity == entry.identity), None)

    def add(self, entry: Entry) -> list[Entry] | None:
        """Add a batch, in the place of what was told of it before.

        Returns:
            The fifty batches that no longer fit and are to become page ``closed``; None in most cases.
        """
        self.entries = [known for known in self.entries if known.identity != entry.identity]
        self.entries.append(entry)
        if len(self.entries) < 2 * PER_PAGE:
            return None
        leaving, self.entries = self.entries[:PER_PAGE], self.entries[PER_PAGE:]
        self.closed += 1
        return leaving
