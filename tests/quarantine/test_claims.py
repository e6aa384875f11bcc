"""Claims of replays, on real Delta tables and without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable

from tidegate.quarantine import claims, lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.store import Address

pytestmark = pytest.mark.slow

EVERYTHING = Selection()


def entries(path: Address) -> dict[str, dict[str, Any]]:
    return {row["_row_id"]: row for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist()}


def versions(path: Address) -> int:
    return len(list(Path(path / "_delta_log").glob("*.json")))


def ids(*names: str) -> pyarrow.Table:
    return pyarrow.table({"_row_id": pyarrow.array(names, pyarrow.string())})


def test_without_a_quarantine_table_nothing_is_claimed(folder: Address) -> None:
    missing = folder / "missing"
    assert claims.create(missing, EVERYTHING, number=0, first=0, limit=10, by="ada") is None
    assert claims.unfinished_claim(missing) is None
    assert (claims.highest_number(missing), claims.count_entries(missing, [0, 1])) == (-1, 0)
    assert not missing.exists()


def test_a_claim_is_bounded_and_locks_the_oldest_entries_once(table: Address) -> None:
    rows = Selection.check(rule="malformed_line")
    assert claims.create(table, rows, number=3, first=3, limit=2, by="ada") == claims.Claim(number=3, entries=2)
    assert {name for name, row in entries(table).items() if row["_in_hand"]} == {"a#2", "a#3"}
    assert claims.unfinished_claim(table) == claims.Claim(number=3, entries=2)
    assert lifecycle.count_unclaimed(table, rows) == 1, "claimed entries are not counted"
    assert claims.create(table, rows, number=4, first=3, limit=9, by="ada") == claims.Claim(number=4, entries=1)
    assert claims.create(table, rows, number=5, first=3, limit=9, by="ada") is None


def test_a_claim_is_settled_in_one_commit_and_returned_entries_stay_the_same(table: Address) -> None:
    claims.create(table, EVERYTHING, number=7, first=7, limit=100, by="ada")
    refused = ids("a#2").append_column("rules", pyarrow.array([["required(order_id)"]]))
    claims.mark_returned(table, 7, refused, suite_fingerprint="feed", app_id="orders/silver/replay", user_metadata="{}")
    assert DeltaTable(str(table)).transaction_version("orders/silver/replay") == 7
    before = versions(table)
    claims.settle(table, 7)
    assert versions(table) == before + 1

    counts = lifecycle.entry_counts(table)
    assert (counts.states, counts.claimed) == ({"open": 1, "replayed": 5}, 0)
    returned, replayed = entries(table)["a#2"], entries(table)["a#3"]
    assert (returned["state"], returned["rules"], returned["attempts"]) == ("open", ["required(order_id)"], 1)
    assert (replayed["state"], replayed["changed_by"], replayed["attempts"]) == ("replayed", "ada", 0)
    assert claims.create(table, EVERYTHING, number=8, first=7, limit=9, by="ada") is None, (
        "not again in the same replay"
    )
    assert claims.create(table, EVERYTHING, number=9, first=9, limit=9, by="ada") is not None


def test_entries_without_a_source_record_are_reopened_with_a_rule_for_it(table: Address) -> None:
    claims.create(table, EVERYTHING, number=0, first=0, limit=100, by="ada")
    for _ in range(2):
        claims.reopen_missing(table, 0, ids("a#0", "a#1"))
    assert claims.unfinished_claim(table) == claims.Claim(number=0, entries=4)
    row = entries(table)["a#0"]
    assert (row["state"], row["rules"], row["attempts"]) == ("open", ["between(amount)", "source_gone"], 1)


def test_a_released_claim_leaves_its_entries_unchanged(table: Address) -> None:
    before = entries(table)
    claims.create(table, Selection.check(rule="between(amount)"), number=5, first=5, limit=9, by="ada")
    assert (claims.highest_number(table), claims.count_entries(table, [4, 5])) == (5, 2)
    assert {entry["_row_id"] for entry in claims.entries_of(table, 5)} == {"a#0", "a#1"}
    claims.release(table, 5)
    assert claims.unfinished_claim(table) is None
    assert claims.count_entries(table, [5]) == 0
    for name, row in entries(table).items():
        assert (row["state"], row["rules"], row["_replay"]) == ("open", before[name]["rules"], None)
