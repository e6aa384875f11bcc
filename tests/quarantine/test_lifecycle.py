"""Counts, thresholds and selections of quarantine entries, on real Delta tables and without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime

from tidegate.quarantine import lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.store import Address


def test_open_entries_are_counted_with_the_oldest(table: Address) -> None:
    counts = lifecycle.entry_counts(table)
    assert (counts.open, counts.claimed, dict(counts.states)) == (6, 0, {"open": 6})
    assert counts.oldest_ms == int(datetime(2026, 1, 5, 10, tzinfo=UTC).timestamp() * 1000)
    assert counts.oldest == datetime(2026, 1, 5, 10, tzinfo=UTC)


def test_without_a_quarantine_table_all_counts_are_zero(folder: Address) -> None:
    missing = folder / "missing"
    assert lifecycle.entry_counts(missing).open == 0
    assert lifecycle.entry_counts(missing).oldest is None
    assert lifecycle.count_unclaimed(missing, Selection()) == 0
    assert lifecycle.unclaimed_entries(missing, Selection(), 10) == []
    assert lifecycle.waived_ids(missing, "true") == {}
    assert not missing.exists()


def test_days_select_from_the_first_to_the_last(table: Address) -> None:
    assert lifecycle.count_unclaimed(table, Selection.check(since="2026-01-06")) == 3
    assert lifecycle.count_unclaimed(table, Selection.check(until="2026-01-05")) == 3
    assert lifecycle.count_unclaimed(table, Selection.check(since="2026-01-06", until="2026-01-06")) == 2
