"""Counts, thresholds and selections of quarantine entries, on real Delta tables and without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidegate.quarantine import lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.spec.thresholds import Thresholds
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


def test_exceeded_thresholds_of_a_flow_produce_warnings(table: Address) -> None:
    counts = lifecycle.entry_counts(table)
    assert counts.oldest is not None
    now = counts.oldest + timedelta(days=3)
    for rows, hours, warnings in ((None, None, 0), (6, 72, 0), (5, 72, 1), (5, 48, 2), (None, 71, 1)):
        limits = Thresholds(quarantine_rows=rows, quarantine_hours=hours)
        assert len(lifecycle.warnings(limits, counts, now)) == warnings
    empty = lifecycle.EntryCounts(states={}, claimed=0, oldest_ms=None)
    assert lifecycle.warnings(Thresholds(quarantine_rows=0, quarantine_hours=1), empty, now) == ()


def test_days_select_from_the_first_to_the_last(table: Address) -> None:
    assert lifecycle.count_unclaimed(table, Selection.check(since="2026-01-06")) == 3
    assert lifecycle.count_unclaimed(table, Selection.check(until="2026-01-05")) == 3
    assert lifecycle.count_unclaimed(table, Selection.check(since="2026-01-06", until="2026-01-06")) == 2
