"""The types that columns of a Delta table may have, and the table features that they need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, types

from tidegate.advice import Edit
from tidegate.errors import SpecError
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from tidegate.store import Address

_STORED = (
    types.NumericType,
    types.BooleanType,
    types.StringType,
    types.BinaryType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
    types.VariantType,
    types.UserDefinedType,
)
_FEATURES: dict[type[types.DataType], str] = {types.TimestampNTZType: "timestampNtz"}
"""The features that Delta enables for a table that it creates, but not for a column that is added to an existing one."""


def admit(rows: DataFrame, address: Address) -> None:
    """Prepare a table for rows that are written next: enable the features that the types of their columns need.

    That is a commit without rows, before the one that adds the column. Readers without a JVM (delta-rs) have these features, too.

    Raises:
        SpecError: No table can have the type of a column.
    """
    needed = set()
    for column in rows.schema:
        for part in _parts(column.dataType):
            # Delta has a column of the type of NULL, but no part of one.
            if not _is_stored(part) and not isinstance(column.dataType, types.NullType):
                raise SpecError(
                    f"column {column.name!r} is {column.dataType.simpleString()}, which the table at {address} cannot have",
                    Edit(f"cast {part.simpleString()} to another type, for example to STRING", "transform"),
                )
            needed |= {name for kind, name in _FEATURES.items() if isinstance(part, kind)}
    if not needed or not tables.exists(address):
        return
    table = DeltaTable.forPath(rows.sparkSession, address.written_uri)
    [[enabled]] = table.detail().select("tableFeatures").collect()
    for name in sorted(needed.difference(enabled)):
        table.addFeatureSupport(name)


def _is_stored(kind: types.DataType) -> bool:
    return isinstance(kind, _STORED) and (not isinstance(kind, types.StringType) or kind.isUTF8BinaryCollation())


def _parts(kind: types.DataType) -> Iterator[types.DataType]:
    """The types of the values in a type; a struct without fields is a part."""
    match kind:
        case types.StructType() if kind.fields:
            inside = [field.dataType for field in kind.fields]
        case types.ArrayType():
            inside = [kind.elementType]
        case types.MapType():
            inside = [kind.keyType, kind.valueType]
        case _:
            yield kind
            return
    for each in inside:
        yield from _parts(each)
