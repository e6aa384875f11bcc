"""Conditions select the rows with the values of a key, of every type, and those of a change's id."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from tidegate.errors import RequestError
from tidegate.ops import query
from tidegate.store import Address
from tidegate.trace import conditions

pytestmark = pytest.mark.slow

INSTANT = datetime(2026, 3, 1, 23, 30, 0, 250_000, tzinfo=UTC)
ROWS: dict[str, list[Any]] = {
    "id": ["a", "o'b", "a|b"],
    "number": [1, None, 3],
    "day": [date(2026, 1, 31), None, date(2026, 2, 1)],
    "at": [INSTANT, INSTANT.replace(microsecond=0), None],
    "amount": [Decimal("1.50"), Decimal("2.00"), None],
    "open": [True, False, None],
    "tags": [["x"], None, None],
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    path = tmp_path_factory.mktemp("orders")
    write_deltalake(str(path), pyarrow.table(ROWS))
    return DeltaTable(str(path))


def ids(table: DeltaTable, where: str) -> list[str]:
    return sorted(
        row["id"]
        for row in query.query(
            Address.local(Path(table.table_uri.removeprefix("file://"))), ["id"], "FROM delta_table", where=where
        )
    )


def test_texts_and_values_of_rows_select_the_same_row(table: DeltaTable) -> None:
    texts = {"number": "1", "day": "2026-01-31", "at": "2026-03-01T23:30:00.25Z", "amount": "1.5", "open": "true"}
    for column, text in texts.items():
        assert ids(table, conditions.where(table, "orders", {column: text})) == ["a"], column
        assert ids(table, conditions.where(table, "orders", {column: ROWS[column][0]})) == ["a"], column
    assert ids(table, conditions.where(table, "orders", {"id": "o'b", "number": None})) == ["o'b"]


def test_nan_and_both_zeros_are_one_key_each(tmp_path: Path) -> None:
    numbers = {"nan": math.nan, "-nan": -math.nan, "0": 0.0, "-0": -0.0, "1": 1.0}
    write_deltalake(str(tmp_path), pyarrow.table({"id": list(numbers), "x": list(numbers.values())}))
    table = DeltaTable(str(tmp_path))
    for value, expected in ((math.nan, ["-nan", "nan"]), (0.0, ["-0", "0"]), (-0.0, ["-0", "0"]), (1.0, ["1"])):
        assert ids(table, conditions.where(table, "numbers", {"x": value})) == expected
        assert ids(table, conditions.where(table, "numbers", {"x": conditions.text(value)})) == expected
        assert (
            ids(table, conditions.of_change(table, "numbers", f"{conditions.text(value)}|7|insert", ("x",))) == expected
        )


def test_a_column_that_does_not_exist_or_cannot_be_compared_is_an_error(table: DeltaTable) -> None:
    with pytest.raises(RequestError, match="has no column 'name'; it has: id, number"):
        conditions.where(table, "orders", {"name": "x"})
    with pytest.raises(RequestError, match="column 'tags' of 'orders' is of type"):
        conditions.where(table, "orders", {"tags": "x"})


@pytest.mark.parametrize(
    ("row_id", "keys", "expected"),
    [
        ("a|7|insert", ("id",), ["a"]),
        ("a|b|7|update_postimage", ("id",), ["a|b"]),
        ("a|1|7|insert", ("id", "number"), ["a"]),
        (r"o'b|\N|7|insert", ("id", "number"), ["o'b"]),
        (r"\N|o'b|7|insert", ("id", "number"), []),
        (r"a\|b|3|7|insert", ("id", "number"), ["a|b"]),
        ("2026-03-01 23:30:00.25|7|insert", ("at",), ["a"]),
        ("2026-03-01 23:30:00|7|insert", ("at",), ["o'b"]),
        ("true|1.50|7|delete", ("open", "amount"), ["a"]),
        ("2026-01-31|7|insert", ("day",), ["a"]),
        (r"\N|a|7|insert", ("number", "id"), []),
        (r"a\||3|7|insert", ("id", "number"), []),
        (r"|1|7|insert", ("id", "number"), []),
        (r"a|7|insert", ("id", "number"), []),
    ],
)
def test_the_key_in_a_changes_id_selects_its_row(
    table: DeltaTable, row_id: str, keys: tuple[str, ...], expected: list[str]
) -> None:
    assert ids(table, conditions.of_change(table, "orders", row_id, keys)) == expected


def test_rows_made_of_a_key_are_selected_by_their_ids(tmp_path: Path) -> None:
    made = ["a|7|insert", "a|b|7|insert", "a|12|update_postimage", "ab|7|insert"]
    write_deltalake(str(tmp_path), pyarrow.table({"id": made, "_row_id": made}))
    table = DeltaTable(str(tmp_path))

    def of_key(*values: Any) -> str:
        row = {f"k{number}": value for number, value in enumerate(values)}
        return conditions.of_key(table, row, list(row))

    assert ids(table, of_key("a")) == ["a|12|update_postimage", "a|7|insert"]
    assert r"'2026-03-01 23:30:00.25|1|\N|'" in of_key(INSTANT, 1, None)
    assert r"'0.00000010|a\|b|c\\d|'" in of_key(Decimal("1.0e-7"), "a|b", r"c\d")
