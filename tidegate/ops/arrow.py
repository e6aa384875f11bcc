"""Makes Arrow's tables of Python's values with the library that delta-rs has: pyarrow is not everywhere, and its import takes longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tidegate.times import dates

if TYPE_CHECKING:
    from arro3.core import Array, DataType, Table


def table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows as Arrow's table.

    Args:
        columns: Their types in SQL, by name: those that `tidegate.ops.table` gives to fields.
        rows: Each with a value for every column.
    """
    from arro3.core import Table

    return Table.from_pydict({name: _array(kind, [row[name] for row in rows]) for name, kind in columns.items()})


def _array(kind: str, values: Sequence[Any]) -> Array:
    from arro3.core import Array, DataType

    match kind:
        case "TIMESTAMPTZ":
            numbers = [None if value is None else dates.micros(value) for value in values]
            return Array(numbers, DataType.int64()).cast(DataType.timestamp("us", tz="UTC"))
        case "VARCHAR[]":
            return _lists(values, Array([item for value in values for item in value or ()], DataType.string()))
        case "MAP(VARCHAR, BIGINT)":
            return _maps(values)
    types = {
        "VARCHAR": DataType.string,
        "BIGINT": DataType.int64,
        "INTEGER": DataType.int32,
        "DOUBLE": DataType.float64,
    }
    return Array(values, types[kind]())


def _lists(values: Sequence[Any], items: Array) -> Array:
    """Lists of these items; None is NULL."""
    from arro3.core import Array, DataType, Field, list_array

    ends = Array([*accumulate((len(value or ()) for value in values), initial=0)], DataType.int32())
    is_null = Array([value is None for value in values], DataType.bool())
    return list_array(ends, items, type=DataType.list(Field("element", items.type)), mask=is_null)


def _maps(values: Sequence[Mapping[str, int] | None]) -> Array:
    """Maps, which are made as lists of their entries: both have one layout in memory, and the library makes no maps of Python's values."""
    from arro3.core import Array, DataType, Field, struct_array

    entries = [entry for value in values for entry in (value or {}).items()]
    key, value = Field("key", DataType.string(), nullable=False), Field("value", DataType.int64())
    parts = [
        Array([name for name, _ in entries], DataType.string()),
        Array([number for _, number in entries], DataType.int64()),
    ]
    lists = _lists(values, struct_array(parts, fields=[key, value]))
    return Array.from_arrow(_OfType(lists, DataType.map(key, value, False)))


@dataclass(frozen=True)
class _OfType:
    """An array for Arrow's interface, as one of another type with the same layout."""

    array: Array
    type: DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.type.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]
