"""Two tables differ as their rows do: compared with a comparison of Python's rows, which knows neither DuckDB nor Delta."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark_files import address_of
from tidegate.errors import TableUnreadableError
from tidegate.ops.difference import TableDifference, compare
from tidegate.store import Address

SCHEMA = pyarrow.schema(
    {
        "id": pyarrow.int64(),
        "part": pyarrow.string(),
        "amount": pyarrow.decimal128(9, 2),
        "share": pyarrow.float64(),
        "at": pyarrow.timestamp("us", "UTC"),
        "items": pyarrow.list_(pyarrow.struct({"sku": pyarrow.string()})),
        "tags": pyarrow.map_(pyarrow.string(), pyarrow.int32()),
        "deep": pyarrow.struct({"of": pyarrow.map_(pyarrow.string(), pyarrow.int32())}),
    }
)


def few(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *values])


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": few(1, 2, 3),
            "part": few("a", "b'\"", ""),
            "amount": few(Decimal("1.00"), Decimal("1.01")),
            "share": few(0.5, math.nan),
            "at": few(datetime(2024, 1, 1, tzinfo=UTC), datetime(1600, 1, 1, microsecond=1, tzinfo=UTC)),
            "items": few([], [None], [{"sku": None}], [{"sku": "x"}]),
            "tags": few([], [("a", 1)], [("a", 1), ("b", None)], [("b", None), ("a", 1)]),
            "deep": few({"of": None}, {"of": [("a", 1), ("b", 2)]}, {"of": [("b", 2), ("a", 1)]}),
        }
    ),
    max_size=8,
)
KEYS = ("id", "part")


def plain(value: Any, kind: pyarrow.DataType) -> Any:
    """A value that is equal to every equal one, and to no other."""
    if value is None:
        return None
    if pyarrow.types.is_map(kind):
        return frozenset(value)
    if pyarrow.types.is_list(kind):
        return tuple(plain(each, kind.value_type) for each in value)
    if pyarrow.types.is_struct(kind):
        return tuple(plain(value[part.name], part.type) for part in kind)
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def of_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(row[name], SCHEMA.field(name).type) for name in SCHEMA.names}


def table(folder: Path, rows: Sequence[dict[str, Any]], schema: pyarrow.Schema = SCHEMA) -> Address:
    write_deltalake(str(folder), pyarrow.Table.from_pylist(list(rows), schema=schema))
    return address_of(folder)


def by_key(rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[key] for key in KEYS): row for row in rows}


@settings(max_examples=15)
@given(ROWS, ROWS)
def test_rows_of_keys_differ_as_those_of_python(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    here, there = by_key(ours), by_key(theirs)
    with tempfile.TemporaryDirectory() as folder:
        result = compare(
            table(Path(folder, "a"), [*here.values()]), table(Path(folder, "b"), [*there.values()]), KEYS, 100
        )
    changed = Counter[str]()
    for key in here.keys() & there.keys():
        one, other = of_row(here[key]), of_row(there[key])
        changed.update(name for name in one if one[name] != other[name])
    both = [key for key in here.keys() & there.keys() if of_row(here[key]) != of_row(there[key])]
    assert (result.keys, result.rows) == (KEYS, (len(here), len(there)))
    assert (result.only_here, result.only_there, result.changed) == (
        len(here - there.keys()),
        len(there - here.keys()),
        len(both),
    )
    assert result.changed_columns == changed
    named = {
        where: {tuple(each.row[key] for key in KEYS) for each in result.samples if each.where == where}
        for where in ("here", "there", "both")
    }
    assert named == {"here": here.keys() - there.keys(), "there": there.keys() - here.keys(), "both": {*both}}
    for each in result.samples:
        if each.where == "both":
            key = tuple(each.row[name] for name in KEYS)
            assert {name: str(value) for name, value in each.here.items()} == {
                name: str(shown(here[key], name)) for name in each.here
            }
            assert each.here.keys() == each.there.keys()
    assert result.is_equal == (
        [*map(of_row, here.values())] == [] == [*there.values()] or (not both and here.keys() == there.keys())
    )


def shown(row: dict[str, Any], name: str) -> Any:
    """A value as DuckDB gives it."""
    if name == "tags" and row[name] is not None:
        return dict(row[name])
    if name == "deep" and row[name] is not None:
        return {"of": None if row[name]["of"] is None else dict(row[name]["of"])}
    return row[name]


@settings(max_examples=15)
@given(ROWS, ROWS)
def test_rows_without_keys_differ_as_multisets(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    here, there = (Counter(tuple(of_row(row).values()) for row in rows) for rows in (ours, theirs))
    with tempfile.TemporaryDirectory() as folder:
        result = compare(table(Path(folder, "a"), ours), table(Path(folder, "b"), theirs), (), 100)
    assert (result.only_here, result.only_there) == ((here - there).total(), (there - here).total())
    assert result.is_equal == (here == there) and result.changed == 0
    named = {where: sum(each.times for each in result.samples if each.where == where) for where in ("here", "there")}
    assert named == {"here": result.only_here, "there": result.only_there}


def two(folder: Path, ours: pyarrow.Table, theirs: pyarrow.Table, keys: tuple[str, ...] = ("id",)) -> TableDifference:
    for name, rows in (("here", ours), ("there", theirs)):
        write_deltalake(str(folder / name), rows)
    return compare(address_of(folder / "here"), address_of(folder / "there"), keys, 3)


def test_columns_that_one_lacks_or_has_of_another_type_are_named_and_not_compared(tmp_path: Path) -> None:
    ours = pyarrow.table({"id": [1], "same": [1], "kind": ["1"], "new": [True]})
    theirs = pyarrow.table({"id": [1], "same": [1], "kind": [1], "old": [[1.5]]})
    result = two(tmp_path, ours, theirs)
    assert (result.columns_here, result.columns_there) == ({"new": "BOOLEAN"}, {"old": "DOUBLE[]"})
    assert result.retyped == {"kind": ("VARCHAR", "BIGINT")}
    assert (result.only_here, result.only_there, result.changed, result.is_equal) == (0, 0, 0, False)


def test_hidden_columns_are_left_out_except_unknown_fields_and_tombstones_are_no_rows(tmp_path: Path) -> None:
    ours = pyarrow.table(
        {"id": [1, 2, 3], "_row_id": ["a", "b", "c"], "_deleted": [None, False, True], "_rescued": [None, "{}", None]}
    )
    theirs = pyarrow.table({"id": [1, 2], "_row_id": ["x", "y"], "_batch_id": [1, 2], "_rescued": [None, "{1}"]})
    result = two(tmp_path, ours, theirs)
    assert (result.rows, result.only_here, result.changed_columns) == ((2, 2), 0, {"_rescued": 1})


def test_several_rows_of_one_key_are_compared_by_all_columns(tmp_path: Path) -> None:
    result = two(tmp_path, pyarrow.table({"id": [1, 1], "n": [1, 2]}), pyarrow.table({"id": [1], "n": [2]}))
    assert result.keys == () and result.note.startswith("here, several rows have one key")
    assert (result.only_here, result.only_there) == (1, 0)


def test_a_key_of_another_type_is_not_compared_by(tmp_path: Path) -> None:
    result = two(tmp_path, pyarrow.table({"id": [1], "n": [1]}), pyarrow.table({"id": ["1"], "n": [1]}))
    assert result.note.startswith("id of the key is not the same column in both") and result.retyped
    assert (result.only_here, result.only_there) == (0, 0)


def test_a_lost_file_names_the_table_that_lacks_it(tmp_path: Path) -> None:
    rows = pyarrow.table({"id": [1]})
    two(tmp_path, rows, rows)
    for file in (tmp_path / "there").glob("*.parquet"):
        file.unlink()
    with pytest.raises(TableUnreadableError, match="/there"):
        compare(address_of(tmp_path / "here"), address_of(tmp_path / "there"), ("id",), 3)


def test_samples_are_few_and_the_first_by_key(tmp_path: Path) -> None:
    numbers = [*range(5_000)]
    result = two(tmp_path, pyarrow.table({"id": numbers}), pyarrow.table({"id": numbers[10:]}))
    assert result.only_here == 10 and [each.row for each in result.samples] == [{"id": 0}, {"id": 1}, {"id": 2}]
