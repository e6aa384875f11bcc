"""Conditions on columns as SQL of delta-rs, from texts of users and from values of rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.ops.query import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ARROW = {
    **{"byte": "Int8", "short": "Int16", "integer": "Int32", "long": "Int64", "float": "Float32", "double": "Float64"},
    **{"boolean": "Boolean", "date": "Date32", "string": "Utf8"},
    "timestamp": 'Timestamp(Microsecond, Some("UTC"))',
    "timestamp_ntz": "Timestamp(Microsecond, None)",
}
"""DataFusion's names of Delta's primitive types."""
_NULL = r"\N"
"""NULL in the id of a change of a table with several keys."""


def where(table: DeltaTable, name: str, values: Mapping[str, Any], comparison: str = "=") -> str:
    """The condition that these columns have these values; None is NULL.

    Args:
        name: The table's name, for error messages.
        values: By column: texts as a user writes them, or values of a row.
        comparison: ``=``, or another operator of SQL.

    Raises:
        RequestError: The table has no such column, or its type cannot be compared.
    """
    types = {field.name: field.type for field in table.schema().fields}
    parts = []
    for column, value in values.items():
        if column not in types:
            raise RequestError(
                f"table {name!r} has no column {column!r}",
                Edit(f"it has: {', '.join(types)}", "request"),
            )
        parts.append(
            f"{quoted(column)} IS NULL"
            if value is None
            else f"{quoted(column)} {comparison} {_typed(name, column, str(types[column].type), value)}"
        )
    return " AND ".join(parts) or "true"


def _typed(name: str, column: str, kind: str, value: Any) -> str:
    """The value as a literal of the column's type."""
    decimal = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind)
    arrow = f"Decimal128({decimal[1]}, {decimal[2]})" if decimal else _ARROW.get(kind)
    if arrow is None:
        raise RequestError(
            f"column {column!r} of {name!r} is of type {kind}, which cannot be part of a key",
            Edit("name another column", "request"),
        )
    return f"arrow_cast({literal(text(value))}, '{arrow}')"


def of_change(table: DeltaTable, row_id: str, keys: Sequence[str]) -> str:
    """The condition for the row of a keyed table of whose change a row is made.

    Args:
        row_id: The id of the change: the key's values, the version and the kind (`tidegate.spark.intake.parse.change_id`).
    """
    types = {field.name: str(field.type.type) for field in table.schema().fields if field.name in keys}
    texts = [_spark_text(name, types[name]) for name in keys]
    if len(keys) > 1:
        texts = [rf"coalesce(replace(replace({each}, '\', '\\'), '|', '\|'), '{_NULL}')" for each in texts]
    return f"concat_ws('|', {', '.join(texts)}) = {literal(row_id.rsplit('|', 2)[0])}"


def of_key(key: Sequence[Any]) -> str:
    """The condition for rows that are made of a change of the key with these values."""
    texts = [text(value) for value in key if value is not None]
    if len(key) > 1:
        texts = [_NULL if each is None else text(each).replace("\\", r"\\").replace("|", r"\|") for each in key]
    prefix = literal("|".join(texts) + "|")
    return (
        f"starts_with(_row_id, {prefix}) AND regexp_like(substr(_row_id, length({prefix}) + 1), '^[0-9]+[|][a-z_]+$')"
    )


def _spark_text(column: str, kind: str) -> str:
    """Spark's cast of a column to text."""
    plain = f"CAST({quoted(column)} AS VARCHAR)"
    if not kind.startswith("timestamp"):
        return plain
    instant = f"replace(replace({plain}, 'T', ' '), 'Z', '')"
    return f"CASE WHEN strpos({instant}, '.') > 0 THEN rtrim({instant}, '0') ELSE {instant} END"


def text(value: Any) -> str:
    """A value of a row as text, as Spark casts it; instants are in UTC."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        whole, point, fraction = value.replace(tzinfo=None).isoformat(sep=" ").partition(".")
        return whole + point + fraction.rstrip("0")
    return str(value)


def literal(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"
