"""The life of what was set aside, on real Delta tables and without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate.quarantine import lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.spec.thresholds import Thresholds


def test_open_entries_are_counted_with_the_oldest(table: Path) -> None:
    held = lifecycle.held(table)
    assert (held.open, held.in_hand, dict(held.states)) == (6, 0, {"open": 6})
    assert held.oldest_ms == int(datetime(2026, 1, 5, 10, tzinfo=UTC).timestamp() * 1000)
    assert held.oldest == datetime(2026, 1, 5, 10, tzinfo=UTC)


def test_a_flow_that_never_held_anything_back_holds_nothing(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert lifecycle.held(nowhere).open == 0
    assert lifecycle.held(nowhere).oldest is None
    assert lifecycle.count_free(nowhere, Selection()) == 0
    assert lifecycle.free_entries(nowhere, Selection(), 10) == []
    assert lifecycle.waived(nowhere, "true") == {}
    assert not nowhere.exists()


def test_thresholds_that_a_flow_declares_are_told_when_they_are_passed(table: Path) -> None:
    held = lifecycle.held(table)
    assert held.oldest is not None
    now = held.oldest + timedelta(days=3)
    for rows, hours, told in ((None, None, 0), (6, 72, 0), (5, 72, 1), (5, 48, 2), (None, 71, 1)):
        limits = Thresholds(quarantine_rows=rows, quarantine_hours=hours)
        assert len(lifecycle.warnings(limits, held, now)) == told
    nothing = lifecycle.Held(states={}, in_hand=0, oldest_ms=None)
    assert lifecycle.warnings(Thresholds(quarantine_rows=0, quarantine_hours=1), nothing, now) == ()


def test_days_select_from_the_first_to_the_last(table: Path) -> None:
    assert lifecycle.count_free(table, Selection.check(since="2026-01-06")) == 3
    assert lifecycle.count_free(table, Selection.check(until="2026-01-05")) == 3
    assert lifecycle.count_free(table, Selection.check(since="2026-01-06", until="2026-01-06")) == 2
