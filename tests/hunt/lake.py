"""The tables of a lake as the judge compares them, read with delta-rs. Imports nothing of the product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.hunt.rules import Row

BALANCES = {
    "rows": ("read", ("written", "quarantined", "late", "filtered", "deduplicated", "superseded", "already_read")),
    "files": ("files_listed", ("files_opened", "files_quarantined", "files_already_read")),
    "groups": ("groups", ("upserted", "deleted", "unchanged")),
    "entries": ("read", ("closed",)),
}
BALANCES_OF = {
    "recompute": ("groups",),
    "swap": ("groups",),
    "undo": ("groups",),
    **dict.fromkeys(("waive", "expire", "retire", "retire_waived"), ("entries",)),
}
"""By kind of a ledger line; other lines balance rows, files and groups."""


@dataclass(frozen=True)
class Entry:
    """A quarantine entry."""

    row_id: str
    rules: frozenset[str]
    state: str = "open"
    level: str = "row"
    checkpoint: tuple[int, int] = (1, 0)


def ledger_differences(lines: list[dict[str, Any]], totals: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Lines that are there twice or do not balance, and transaction ids whose lines add up to something else than ``totals``."""
    differences = []
    lines_of: Counter[Any] = Counter((line["app_id"], line["kind"] == "swap", line["batch_id"]) for line in lines)
    differences += [f"ledger: {number} lines of {what}" for what, number in lines_of.items() if number > 1]
    sums: dict[str, Counter[str]] = {}
    for line in lines:
        for balance in BALANCES_OF.get(line["kind"], ("rows", "files", "groups")):
            total, parts = BALANCES[balance]
            if count(line, total) != sum(count(line, part) for part in parts):
                differences.append(
                    f"ledger: {line['app_id']} {line['batch_id']} ({line['kind']}) does not balance {balance}"
                )
        if line["kind"] != "swap":
            mine = sums.setdefault(line["app_id"], Counter())
            for name in ("read", "quarantined", "filtered", "files_listed", "files_quarantined"):
                mine[name] += count(line, name)
    for app_id, expected in totals.items():
        actual = sums.get(app_id, Counter())
        wrong = {name: (number, actual[name]) for name, number in expected.items() if actual[name] != number}
        if wrong:
            differences.append(f"ledger: {app_id} (expected, actual): {wrong}")
    return differences


def rows(table: Path) -> list[dict[str, Any]]:
    """All rows of a table; none where there is no table."""
    if not (table / "_delta_log").exists():
        return []
    rows_of_table: list[dict[str, Any]] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return rows_of_table


def expected_rows(silver: Mapping[int, Row]) -> Iterable[tuple[Any, ...]]:
    return ((key, *row.values, row.deleted, row.row_id) for key, row in silver.items())


def stored_rows(table: Path) -> Iterable[tuple[Any, ...]]:
    names = ("key", "at", "day", "amount", "ratio", "_deleted", "_row_id")
    return (tuple(row[name] for name in names) for row in rows(table))


def entry_of(entry: Entry) -> tuple[Any, ...]:
    return (entry.row_id, tuple(sorted(entry.rules)), entry.state, entry.level, entry.checkpoint)


def stored_entries(table: Path) -> Iterable[tuple[Any, ...]]:
    for row in rows(table):
        assert row["_in_hand"] is None, f"{row['_row_id']} is claimed"
        checkpoint = (row["_checkpoint_version"], row["_refresh"])
        yield (row["_row_id"], tuple(sorted(row["rules"])), row["state"], row["level"], checkpoint)


def count(line: Mapping[str, Any], name: str) -> int:
    value = line[name]
    return sum(dict(value or {}).values()) if name == "filtered" else int(value or 0)


def shown(rows: Mapping[Any, int], limit: int = 6) -> str:
    listed = sorted(rows.items(), key=repr)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return str([row if number == 1 else (number, row) for row, number in listed[:limit]]) + more
