"""What a rewrite does to a table: a backfill, or the swap of a full refresh or a new version. It is judged before it writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tidegate.formatting import count

What = Literal["deleted", "quarantined"]
Accepted = Literal["deleted", "quarantined", "lost"]
"""``lost`` is of a recovery: what no source has any more (`tidegate.planning.losses`)."""
WHATS: tuple[What, ...] = ("deleted", "quarantined")

_ACCEPTED = re.compile(r"(?P<flow>[a-z][a-z0-9_]*):(?:deleted|quarantined|lost)=(?:0|[1-9][0-9]*)")


@dataclass(frozen=True, kw_only=True)
class Impact:
    """The rows of a rewrite. Tombstones are no rows, so a row that becomes one is deleted."""

    before: int
    """Rows that the table has: all, or those of the keys of the window."""
    after: int
    deleted: int
    """Of ``before``, those whose key has no row after. Where the keys changed, by how many rows the table shrinks."""
    changed: int
    added: int
    read: int
    """Source rows that the result is derived from."""
    quarantined: int
    """Of ``read``, those that go to quarantine and have no entry there that keeps them out of the table already."""

    def share(self, what: What) -> float:
        """Deleted rows as a share of those before; quarantined rows as a share of those read."""
        return getattr(self, what) / total if (total := self._total(what)) else 0.0

    def phrase(self, what: What) -> str:
        """``delete 355 of 355 rows (100.0%)``, to follow "it would"."""
        number, total, share = getattr(self, what), self._total(what), f"({self.share(what):.1%})"
        if what == "deleted":
            return f"delete {number:,} of {count(total, 'row')} {share}"
        return f"send {number:,} of {count(total, 'source row')} {share} to quarantine"

    def summary(self) -> str:
        """All counts in one line."""
        return (
            f"{count(self.before, 'row')} before, {self.after:,} after: {self.deleted:,} deleted, {self.changed:,} changed, "
            f"{self.added:,} added; {self.quarantined:,} of {count(self.read, 'source row')} newly in quarantine"
        )

    def _total(self, what: What) -> int:
        return self.before if what == "deleted" else self.read


def acceptance(flow: str, what: Accepted, number: int) -> str:
    """How a caller accepts a number by name: ``silver:deleted=355``."""
    return f"{flow}:{what}={number}"


def accepting_flow(text: object) -> str | None:
    """The flow that an acceptance is about; None for a text that is none."""
    match = _ACCEPTED.fullmatch(text) if isinstance(text, str) else None
    return match["flow"] if match is not None else None
