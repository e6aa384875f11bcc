"""The judge itself: small cases computed by hand, and that it notices what a lake has too much or too little of."""

from __future__ import annotations

import ast
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import write_deltalake

from tests.hunt import judge, lake, rules
from tests.hunt.judge import Judge
from tests.hunt.rules import Code, Record

CODE = Code()
NEWEST = {"id": "1", "at": "5", "day": "2026-03-20", "amount": "10", "op": None}


def record(number: int, **fields: str | None) -> Record:
    return Record(f"f#{number}", (0, "f", number), {**NEWEST, **fields})


def judged(*records: Record, code: Code = CODE) -> Judge:
    own = Judge()
    own.read_source(records, {}, 1)
    own.read_bronze(code)
    own.group()
    return own


@pytest.mark.parametrize("module", [judge, lake, rules])
def test_the_judge_imports_nothing_of_the_product(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    known = {"tests.hunt.lake", "tests.hunt.rules", "deltalake", *sys.stdlib_module_names}
    assert {name for name in names if name not in known and name.partition(".")[0] not in known} == set()


@pytest.mark.parametrize(
    ("fields", "broken"),
    [
        ({}, set()),
        ({"id": None}, {"required(id)"}),
        ({"id": "x", "at": "y"}, {"wrong_type(id)", "wrong_type(at)"}),
        ({"id": "-1", "at": None}, {"null_key(key)", "null_sequence(at)"}),
        ({"id": "6", "at": None}, set()),
        ({"amount": "501"}, {"between(amount)"}),
        ({"amount": "501", "op": "delete"}, set()),
        ({"amount": "1000", "op": "delete"}, {"transform_error(DIVIDE_BY_ZERO)"}),
        ({"amount": "1000", "day": "March"}, {"wrong_type(day)"}),
    ],
)
def test_the_rules_of_a_record(fields: dict[str, Any], broken: set[str]) -> None:
    assert rules.output(record(1, **fields), CODE).rules == broken


def test_a_message_without_value_is_refused_and_has_no_key_and_no_sequence() -> None:
    assert rules.output(Record("t/0/1", (0, 0, 1)), CODE).rules == {"no_value", "null_key(key)", "null_sequence(at)"}


def test_the_highest_order_of_a_key_wins_and_a_delete_keeps_it() -> None:
    own = judged(record(1), record(2, op="delete"), record(3, at="4", amount="7"))

    assert (own.silver[1].deleted, own.silver[1].row_id) == (True, "f#2")
    assert own.gold == {}
    own.read_source([record(9, at="4")], {}, 1)
    own.read_bronze(CODE)
    assert own.silver[1].deleted, "an older row does not revive it"


def test_a_backfill_changes_the_keys_of_its_window_and_an_undo_puts_them_back() -> None:
    own = judged(record(1), record(2, id="2", day="2026-03-29"), record(3, id="3", amount="600"))
    before = dict(own.silver), list(own.entries)

    change = own.backfill(Code(factor=2, highest=2000), date(2026, 3, 20), date(2026, 3, 21))

    assert {key: row.values[2] for key, row in own.silver.items()} == {1: 20, 2: 10, 3: 1200}
    assert [entry.state for entry in own.entries] == ["replayed"]
    undone = own.undo(change)
    assert (own.silver, own.entries) == before
    own.undo(undone)
    assert [entry.state for entry in own.entries] == ["replayed"]


def test_a_backfill_reads_a_record_on_which_the_transform_raises_by_its_key() -> None:
    own = judged(record(1), record(2, day="2026-03-29", amount="50"), code=Code(trap=50))

    own.backfill(Code(trap=50), date(2026, 3, 20), date(2026, 3, 21))

    assert own.totals["hunt/silver/v1/0/window"] == {"read": 2, "quarantined": 1}


def test_rows_that_changed_since_stay_in_an_undo_with_their_entries() -> None:
    own = judged(record(1), record(3, id="3", amount="600"))
    change = own.replay(Code(highest=2000))
    own.read_source([record(9, id="3", at="7")], {}, 1)
    own.read_bronze(CODE)

    own.undo(change)

    assert own.silver[3].row_id == "f#9"
    assert [entry.state for entry in own.entries] == ["replayed"]


def test_a_new_checkpoint_judges_all_records_and_waivers_stay() -> None:
    own = judged(record(1, id=None), record(2, amount="600"), record(3, id="2"))
    assert own.waive("required(id)") == 1

    own.derive_again(Code(highest=700), (2, 0))

    states = sorted((entry.row_id, entry.checkpoint, entry.state) for entry in own.entries)
    assert states == [("f#1", (1, 0), "expired"), ("f#1", (2, 0), "waived"), ("f#2", (1, 0), "expired")]
    assert own.silver.keys() == {1, 2}


def test_a_lake_without_a_row_with_one_too_many_or_with_another_value_differs(tmp_path: Path) -> None:
    own = judged(record(1), record(2, id="2"))
    stored = [
        {"day": date(2026, 3, 20), "orders": 2, "amount": 20},
    ]

    def differences(rows: list[dict[str, Any]]) -> str:
        write_deltalake(str(tmp_path / "tables" / "gold" / "hunt"), pyarrow.Table.from_pylist(rows), mode="overwrite")
        return next((line for line in own.differences(tmp_path) if line.startswith("gold")), "")

    assert differences(stored) == ""
    assert "+ [(datetime.date(2026, 3, 20), 1, 20)]" in differences([{**stored[0], "orders": 1}])
    assert "+ [(datetime.date(2026, 3, 21)" in differences([*stored, {**stored[0], "day": date(2026, 3, 21)}])
    assert any(line.startswith("silver: - [(1, 5") for line in own.differences(tmp_path)), "the table is missing"


def test_a_ledger_line_that_is_missing_or_twice_or_unbalanced_is_a_difference(tmp_path: Path) -> None:
    own = judged(record(1), record(2, amount="600"))
    counts = dict.fromkeys({n for total, parts in lake.BALANCES.values() for n in (total, *parts)} - {"filtered"}, 0)
    bronze = {**counts, "app_id": "hunt/bronze/v1/0", "kind": "append", "batch_id": 0, "read": 2, "written": 2}
    bronze |= {"files_listed": 1, "files_opened": 1, "filtered": None}
    silver = {**counts, "app_id": "hunt/silver/v1/0", "kind": "upsert", "batch_id": 0, "read": 2}
    silver |= {"written": 1, "quarantined": 1, "filtered": None}

    def differences(lines: list[dict[str, Any]]) -> list[str]:
        return lake.ledger_differences(lines, own.totals)

    assert differences([bronze, silver]) == []
    assert len(differences([bronze, silver, silver])) == 2
    assert len(differences([bronze])) == 1
    assert len(differences([bronze, {**silver, "deduplicated": 1}])) == 1


def test_an_entry_of_a_file_that_is_landed_after_a_reingest_has_its_refresh() -> None:
    own = Judge()
    own.read_source([], {"before": "empty_file"}, 1)
    own.read_again()
    own.read_source([], {"after": "empty_file"}, 1)
    assert [(entry.row_id, entry.checkpoint) for entry in own.files] == [("before", (1, 0)), ("after", (1, 1))]
