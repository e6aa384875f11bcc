"""What a replay has in hand, on real Delta tables and without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
from deltalake import DeltaTable

from tidegate.quarantine import claims, lifecycle
from tidegate.quarantine.selection import Selection

EVERYTHING = Selection()


def entries(path: Path) -> dict[str, dict[str, Any]]:
    return {row["_row_id"]: row for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist()}


def versions(path: Path) -> int:
    return len(list((path / "_delta_log").glob("*.json")))


def ids(*names: str) -> pyarrow.Table:
    return pyarrow.table({"_row_id": pyarrow.array(names, pyarrow.string())})


def test_of_a_flow_that_never_held_anything_back_nothing_is_taken(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert claims.take(nowhere, EVERYTHING, number=0, first=0, limit=10, by="ada") is None
    assert claims.in_hand(nowhere) is None
    assert (claims.highest(nowhere), claims.count_entries(nowhere, [0, 1])) == (-1, 0)
    assert not nowhere.exists()


def test_a_claim_is_bounded_takes_the_oldest_and_none_twice(table: Path) -> None:
    rows = Selection.check(rule="malformed_line")
    assert claims.take(table, rows, number=3, first=3, limit=2, by="ada") == claims.Claim(number=3, entries=2)
    assert {name for name, row in entries(table).items() if row["_in_hand"]} == {"a#2", "a#3"}
    assert claims.in_hand(table) == claims.Claim(number=3, entries=2)
    assert lifecycle.count_free(table, rows) == 1, "what is in hand is left alone"
    assert claims.take(table, rows, number=4, first=3, limit=9, by="ada") == claims.Claim(number=4, entries=1)
    assert claims.take(table, rows, number=5, first=3, limit=9, by="ada") is None


def test_a_claim_is_settled_in_one_commit_and_what_came_back_stays_the_same_entry(table: Path) -> None:
    claims.take(table, EVERYTHING, number=7, first=7, limit=100, by="ada")
    refused = ids("a#2").append_column("rules", pyarrow.array([["required(order_id)"]]))
    claims.send_back(table, 7, refused, suite_fingerprint="feed", app_id="orders/silver/replay", told="{}")
    assert DeltaTable(str(table)).transaction_version("orders/silver/replay") == 7
    before = versions(table)
    claims.settle(table, 7)
    assert versions(table) == before + 1

    held = lifecycle.held(table)
    assert (held.states, held.in_hand) == ({"open": 1, "replayed": 5}, 0)
    back, gone = entries(table)["a#2"], entries(table)["a#3"]
    assert (back["state"], back["rules"], back["attempts"]) == ("open", ["required(order_id)"], 1)
    assert (gone["state"], gone["changed_by"], gone["attempts"]) == ("replayed", "ada", 0)
    assert claims.take(table, EVERYTHING, number=8, first=7, limit=9, by="ada") is None, "not in the same replay"
    assert claims.take(table, EVERYTHING, number=9, first=9, limit=9, by="ada") is not None


def test_what_is_gone_is_let_go_with_its_rule(table: Path) -> None:
    claims.take(table, EVERYTHING, number=0, first=0, limit=100, by="ada")
    for _ in range(2):
        claims.let_go(table, 0, ids("a#0", "a#1"))
    assert claims.in_hand(table) == claims.Claim(number=0, entries=4)
    row = entries(table)["a#0"]
    assert (row["state"], row["rules"], row["attempts"]) == ("open", ["between(amount)", "source_gone"], 1)


def test_a_claim_that_is_undone_leaves_its_entries_as_they_were(table: Path) -> None:
    before = entries(table)
    claims.take(table, Selection.check(rule="between(amount)"), number=5, first=5, limit=9, by="ada")
    assert (claims.highest(table), claims.count_entries(table, [4, 5])) == (5, 2)
    assert {entry["_row_id"] for entry in claims.entries_of(table, 5)} == {"a#0", "a#1"}
    claims.release(table, 5)
    assert claims.in_hand(table) is None
    assert claims.count_entries(table, [5]) == 0
    for name, row in entries(table).items():
        assert (row["state"], row["rules"], row["_replay"]) == ("open", before[name]["rules"], None)
