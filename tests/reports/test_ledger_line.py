"""Each kind of ledger line has balances of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest

from tidegate.reports.ledger_line import DECISION, FILES, GROUPS, ROWS, SWAPPED, Balance, LedgerLine


def record(kind: Any, **counts: Any) -> LedgerLine:
    return LedgerLine(flow="silver", batch_id=0, app_id="orders/silver/v1/0", kind=kind, **counts)


@pytest.mark.parametrize("kind", get_args(get_type_hints(LedgerLine)["kind"]))
def test_every_count_of_a_balance_is_a_count_of_the_ledger_line(kind: Any) -> None:
    for balance in record(kind).balances:
        assert balance.amount(record(kind)) == 0
        assert list(balance.lines(record(kind))) == []


@pytest.mark.parametrize(
    ("kind", "about"),
    [("append", ROWS), ("backfill", ROWS), ("recompute", GROUPS), ("swap", SWAPPED), ("waive", DECISION)],
)
def test_a_line_is_about_what_its_kind_counts(kind: Any, about: Balance) -> None:
    assert record(kind).balances[0] is about


def test_groups_are_not_compared_with_the_rows_that_name_them() -> None:
    assert record("recompute", read=7, groups=2, upserted=1, unchanged=1).imbalance() == 0
    assert record("recompute", read=7, groups=2, upserted=1).imbalance() == 1


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        (record("append", read=5, written=4, quarantined=1), 4),
        (record("recompute", read=7, groups=4, upserted=1, deleted=2, unchanged=1), 3),
        (record("snapshot", read=10, written=10, groups=10, upserted=2, unchanged=8), 2),
        (record("backfill", read=3, written=3, groups=3, upserted=1, deleted=1, unchanged=1), 2),
        (record("replay", read=2, written=1, quarantined=1), 1),
    ],
    ids=lambda value: value.kind if isinstance(value, LedgerLine) else "",
)
def test_a_changed_row_counts_once_also_where_source_rows_and_groups_are_counted(
    line: LedgerLine, changed: int
) -> None:
    assert line.imbalance() == 0
    assert line.changed_rows == changed


def test_a_backfill_must_balance_its_rows_and_its_groups() -> None:
    assert record("backfill", read=3, written=2, groups=1, upserted=1).imbalance() == 1
    assert record("backfill", read=3, written=3, groups=2, upserted=1).imbalance() == 1


def test_the_lines_of_a_balance_name_its_parts_without_zeros() -> None:
    counts = SimpleNamespace(files_listed=3, files_opened=2, files_quarantined=0, files_already_read=1)

    assert (FILES.amount(counts), list(FILES.lines(counts))) == (3, [("opened", 2), ("already read", 1)])
    assert FILES.sentence(counts) == "3 files listed: 2 opened, 1 already read"
    assert list(ROWS.lines(record("upsert", filtered={"a": 1, "b": 2}))) == [("filtered", 3)]
