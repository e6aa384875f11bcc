"""The balances of a ledger line: what was read, listed, computed or decided, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tidegate import formatting, identity


@dataclass(frozen=True)
class Balance:
    """One equation over the counts of a ledger line: the total is the sum of the parts."""

    unit: str
    """What is counted: ``row``, ``file``, ``group`` or ``entry``."""
    verb: str
    """What a batch does to all of them: it reads rows, and lists files."""
    total: str
    """The name of a count."""
    parts: tuple[str, ...]
    """Names of counts; a count by rule is the sum over its rules."""
    changes: tuple[str, ...]
    """The parts that changed the target."""

    @property
    def units(self) -> str:
        """The plural of the unit."""
        return "entries" if self.unit == "entry" else f"{self.unit}s"

    def amount(self, counts: object) -> int:
        """The total, of a record with these counts."""
        return count(counts, self.total)

    def changed(self, counts: object) -> int:
        """How many changed the target."""
        return sum(count(counts, part) for part in self.changes)

    def imbalance(self, counts: object) -> int:
        """How many have no part in the total, or more than one; 0 when they balance."""
        return abs(self.amount(counts) - sum(count(counts, part) for part in self.parts))

    def lines(self, counts: object) -> Iterator[tuple[str, int]]:
        """The parts that are not 0, with their names for people."""
        for part in self.parts:
            if number := count(counts, part):
                yield label(part), number

    def sentence(self, counts: object) -> str:
        """The total and its parts in one phrase."""
        parts = ", ".join(f"{number:,} {name}" for name, number in self.lines(counts))
        return f"{formatting.count(self.amount(counts), self.unit, self.units)} {self.verb}{parts and ': '}{parts}"


ROWS = Balance(
    "row",
    "read",
    "read",
    ("written", "quarantined", "late", "filtered", "deduplicated", "superseded", "already_read"),
    ("written",),
)
GROUPS = Balance("group", "recomputed", "groups", ("upserted", "deleted", "unchanged"), ("upserted", "deleted"))
SWAPPED = replace(GROUPS, unit="row", verb="compared")
COMPARED = replace(GROUPS, unit="key", verb="compared")
UNDONE = replace(GROUPS, unit="row", verb="to undo")
FILES = Balance(
    "file", "listed", "files_listed", ("files_opened", "files_quarantined", "files_already_read"), ("files_opened",)
)
RESULTS = Balance("result", "made", "results", ("written", "unchanged"), ("written",))
DECISION = Balance("entry", "decided", "read", ("closed",), ())

_BY_KIND = {
    "recompute": (GROUPS,),
    "snapshot": (ROWS, COMPARED),
    "emit": (RESULTS,),
    "swap": (SWAPPED,),
    identity.UNDO: (UNDONE,),
}


def balances_of(kind: str) -> tuple[Balance, ...]:
    """What a ledger line of this kind must balance; the first is what it is about."""
    return (DECISION,) if identity.is_decision(kind) else _BY_KIND.get(kind, (ROWS, FILES, GROUPS))


def label(part: str) -> str:
    """The name of a part for people."""
    return part.removeprefix("files_").replace("_", " ")


def count(counts: object, name: str) -> int:
    """One count of a record."""
    value = getattr(counts, name)
    return sum(value.values()) if isinstance(value, Mapping) else int(value)
