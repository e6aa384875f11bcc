"""The changes of rows from the change feed of a table, also of one that was replaced."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import write_deltalake

from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace
from tidegate.store import Address
from tidegate.trace.changes import Ledger, history

pytestmark = pytest.mark.slow


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.local(tmp_path / "lake", tmp_path / "landing")


def write(path: Path | Address, **more: Any) -> None:
    columns = more.pop("columns")
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(path), pyarrow.table(columns), configuration=feed, **more)


def test_changes_are_those_of_the_rows_that_match_oldest_first(layout: Layout) -> None:
    path = layout.table("silver.orders")
    write(path, columns={"id": ["a", "b"], "n": [1, 2]})
    write(path, columns={"id": ["a"], "n": [3]}, mode="append")
    past = history(path, "id = 'a'", ("n", "missing"), Ledger(FlowPlace(layout, "orders", "silver")))
    assert [(change.version, change.kind, change.row, change.batch) for change in past.changes] == [
        (0, "insert", {"n": 1}, None),
        (1, "insert", {"n": 3}, None),
    ]
    assert past.complete
    later = history(path, "id = 'a'", ("n",), Ledger(FlowPlace(layout, "orders", "silver")), since=1)
    assert [change.version for change in later.changes] == [1]


def test_versions_before_the_table_was_replaced_with_other_types_are_missing_and_that_is_reported(
    layout: Layout,
) -> None:
    path = layout.table("silver.orders")
    write(path, columns={"day": [[1]]})
    write(path, columns={"day": [date(2026, 1, 1)]}, mode="overwrite", schema_mode="overwrite")
    write(path, columns={"day": [date(2026, 1, 1)]}, mode="append")
    past = history(
        path, "day = arrow_cast('2026-01-01', 'Date32')", ("day",), Ledger(FlowPlace(layout, "orders", "silver"))
    )
    assert [change.version for change in past.changes] == [2]
    assert not past.complete


def test_versions_whose_files_were_removed_are_missing_and_that_is_reported(layout: Layout) -> None:
    path = layout.table("silver.orders")
    write(path, columns={"id": ["a"]})
    (file,) = Path(path).glob("*.parquet")
    write(path, columns={"id": ["a"]}, mode="append")
    file.unlink()
    past = history(path, "id = 'a'", ("id",), Ledger(FlowPlace(layout, "orders", "silver")))
    assert ([change.version for change in past.changes], past.complete) == ([1], False)


def test_a_table_that_does_not_exist_has_no_changes(layout: Layout) -> None:
    past = history(layout.table("silver.orders"), "true", (), Ledger(FlowPlace(layout, "orders", "silver")))
    assert (past.changes, past.complete) == ((), True)
