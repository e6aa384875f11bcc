"""The life of what was set aside, on real Delta tables and without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tests.cli.project import append, quarantined
from tidegate.quarantine import lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.spec.thresholds import Thresholds

EVERYTHING = Selection()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Five open rows of three days, two of which break `between(amount)`, and a file."""
    path = tmp_path / "quarantine" / "orders" / "silver"
    rows = [
        quarantined(f"a#{number}", ["between(amount)"] if number < 2 else ["malformed_line"], {"line": number}, "x")
        | {"quarantined_at": datetime(2026, 1, 5 + number // 2, 10, tzinfo=UTC)}
        for number in range(5)
    ]
    append(path, [*rows, quarantined("b.gz@1", ["corrupt_compression"], {"path": "b.gz"}, "", level="file")])
    return path


def entries(path: Path) -> dict[str, dict[str, Any]]:
    from deltalake import DeltaTable

    return {row["_row_id"]: row for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist()}


def versions(path: Path) -> int:
    return len(list((path / "_delta_log").glob("*.json")))


def ids(*names: str) -> pyarrow.Table:
    return pyarrow.table({"_row_id": pyarrow.array(names, pyarrow.string())})


def test_open_entries_are_counted_with_the_oldest(table: Path) -> None:
    held = lifecycle.held(table)
    assert (held.open, held.in_hand, dict(held.states)) == (6, 0, {"open": 6})
    assert held.oldest_ms == int(datetime(2026, 1, 5, 10, tzinfo=UTC).timestamp() * 1000)
    assert held.oldest == datetime(2026, 1, 5, 10, tzinfo=UTC)


def test_a_flow_that_never_held_anything_back_holds_nothing(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert lifecycle.held(nowhere).open == 0
    assert lifecycle.held(nowhere).oldest is None
    assert lifecycle.claim(nowhere, EVERYTHING, number=0, first=0, limit=10, by="ada") is None
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


def test_a_claim_is_bounded_takes_the_oldest_and_none_twice(table: Path) -> None:
    rows = Selection.check(rule="malformed_line")
    assert lifecycle.claim(table, rows, number=3, first=3, limit=2, by="ada") == lifecycle.Claim(number=3, entries=2)
    assert {name for name, row in entries(table).items() if row["_in_hand"]} == {"a#2", "a#3"}
    assert lifecycle.in_hand(table) == lifecycle.Claim(number=3, entries=2)
    assert lifecycle.count_free(table, rows) == 1, "what is in hand is left alone"
    assert lifecycle.claim(table, rows, number=4, first=3, limit=9, by="ada") == lifecycle.Claim(number=4, entries=1)
    assert lifecycle.claim(table, rows, number=5, first=3, limit=9, by="ada") is None


def test_a_claim_is_settled_in_one_commit_and_what_came_back_stays_the_same_entry(table: Path) -> None:
    from deltalake import DeltaTable

    lifecycle.claim(table, EVERYTHING, number=7, first=7, limit=100, by="ada")
    refused = ids("a#2").append_column("rules", pyarrow.array([["required(order_id)"]]))
    lifecycle.send_back(table, 7, refused, suite_fingerprint="feed", app_id="orders/silver/replay", told="{}")
    assert DeltaTable(str(table)).transaction_version("orders/silver/replay") == 7
    before = versions(table)
    lifecycle.settle(table, 7)
    assert versions(table) == before + 1

    held = lifecycle.held(table)
    assert (held.states, held.in_hand) == ({"open": 1, "replayed": 5}, 0)
    back, gone = entries(table)["a#2"], entries(table)["a#3"]
    assert (back["state"], back["rules"], back["attempts"]) == ("open", ["required(order_id)"], 1)
    assert (gone["state"], gone["changed_by"], gone["attempts"]) == ("replayed", "ada", 0)
    assert lifecycle.claim(table, EVERYTHING, number=8, first=7, limit=9, by="ada") is None, "not in the same replay"
    assert lifecycle.claim(table, EVERYTHING, number=9, first=9, limit=9, by="ada") is not None


def test_what_is_gone_is_let_go_with_its_rule(table: Path) -> None:
    lifecycle.claim(table, EVERYTHING, number=0, first=0, limit=100, by="ada")
    for _ in range(2):
        lifecycle.let_go(table, 0, ids("a#0", "a#1"))
    assert lifecycle.in_hand(table) == lifecycle.Claim(number=0, entries=4)
    row = entries(table)["a#0"]
    assert (row["state"], row["rules"], row["attempts"]) == ("open", ["between(amount)", "source_gone"], 1)
