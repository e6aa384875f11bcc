"""The balances of a ledger line: what was read, listed, computed or decided, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate import identity


@dataclass(frozen=True)
class Balance:
    """One equation over the counts of a ledger line: the total is the sum of the parts."""

    unit: str
    """What is counted: ``row``, ``file``, ``group`` or ``entry``."""
    total: str
    """The name of a count."""
    parts: tuple[str, ...]
    """Names of counts; a count by rule is the sum over its rules."""

    def amount(self, counts: object) -> int:
        """The total, of a record with these counts."""
        return count(counts, self.total)

    def imbalance(self, counts: object) -> int:
        """How many have no part in the total, or more than one; 0 when they balance."""
        return abs(self.amount(counts) - sum(count(counts, part) for part in self.parts))

    def lines(self, counts: object) -> Iterator[tuple[str, int]]:
        """The parts that are not 0, with their names for people."""
        for part in self.parts:
            if number := count(counts, part):
                yield part.removeprefix("files_").replace("_", " "), number


ROWS = Balance("row", "read", ("written", "quarantined", "filtered", "deduplicated", "superseded", "already_read"))
GROUPS = Balance("group", "groups", ("upserted", "deleted", "unchanged"))
FILES = Balance("file", "files_listed", ("files_opened", "files_quarantined", "files_already_read"))
DECISION = Balance("entry", "read", ("closed",))


def balances_of(kind: str) -> tuple[Balance, ...]:
    """What a ledger line of this kind must balance; the first is what it is about."""
    if identity.is_decision(kind):
        return (DECISION,)
    return (GROUPS,) if kind in ("recompute", "swap") else (ROWS, FILES, GROUPS)


def count(counts: object, name: str) -> int:
    """One count of a record."""
    value = getattr(counts, name)
    return sum(value.values()) if isinstance(value, Mapping) else int(value)
