"""Conditions on columns as SQL of delta-rs, from texts of users and from values of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.errors import RequestError
from tidegate.probes.delta_table import quoted

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
_CHANGE = "^[0-9]+[|][a-z_]+$"
"""What follows the key in the id of a change: version and kind."""


def where(
    table: DeltaTable, name: str, values: Mapping[str, Any], comparison: str = "=", *, cast: str = "arrow_cast"
) -> str:
    """The condition that these columns have these values; None is NULL.

    Args:
        name: The table's name, for error messages.
        values: By column: texts as a user writes them, or values of a row.
        comparison: ``=``, or another operator of SQL.
        cast: ``arrow_try_cast`` if a value may be of another type; it selects no row then.

    Raises:
        RequestError: The table has no such column, or its type cannot be compared.
    """
    types = {field.name: field.type for field in table.schema().fields}
    parts = []
    for column, value in values.items():
        if column not in types:
            raise RequestError(
                f"table {name!r} has no column {column!r}", Edit(f"it has: {', '.join(types)}", "request")
            )
        if value is None:
            parts.append(f"{quoted(column)} IS NULL")
            continue
        written, arrow = text(value), _arrow_type(name, column, str(types[column].type))
        special = _special(quoted(column), written) if arrow.startswith("Float") and comparison == "=" else None
        parts.append(special or f"{quoted(column)} {comparison} {cast}({literal(written)}, '{arrow}')")
    return " AND ".join(parts) or "true"


def _special(column: str, value: str) -> str | None:
    """The condition for NaN and zero, which are one key each for Spark; None for other numbers.

    Statistics do not count NaN, so that delta-rs skips files that have it; and it tells the zeros apart.
    """
    try:
        number = float(value)
    except ValueError:
        return None
    return f"isnan({column})" if math.isnan(number) else f"abs({column}) = 0" if number == 0 else None


def _arrow_type(name: str, column: str, kind: str) -> str:
    """DataFusion's name of the column's type."""
    decimal = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind)
    arrow = f"Decimal128({decimal[1]}, {decimal[2]})" if decimal else _ARROW.get(kind)
    if arrow is None:
        raise RequestError(
            f"column {column!r} of {name!r} is of type {kind}, which cannot be part of a key",
            Edit("name another column", "request"),
        )
    return arrow


def of_change(table: DeltaTable, name: str, row_id: str, keys: Sequence[str]) -> str:
    """The condition for the row of a keyed table of whose change a row is made.

    Args:
        name: The table's name, for error messages.
        row_id: The id of the change: the key's values, the version and the kind (`tidegate.spark.intake.parse.change_id`).
    """
    texts: list[str | None] = [row_id.rsplit("|", 2)[0]]
    if len(keys) > 1:
        parts = re.findall(r"((?:[^|\\]|\\.)*)\|", f"{texts[0]}|", re.DOTALL)
        texts = [None if part == _NULL else re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts]
    if len(texts) != len(keys):
        return "false"
    # Values are compared, not texts, because each engine writes another text for some values.
    return where(table, name, dict(zip(keys, texts, strict=True)), cast="arrow_try_cast")


def of_key(source: DeltaTable, row: Mapping[str, Any], keys: Sequence[str]) -> str:
    """The condition for rows that are made of a change of the key of this row of a source.

    A FLOAT or DOUBLE is compared as a number: Java, Python and DuckDB write other texts for some of them.
    """
    values = [row[key] for key in keys]
    texts = [text(value) for value in values if value is not None]
    if len(values) > 1:
        texts = [_NULL if each is None else text(each).replace("\\", r"\\").replace("|", r"\|") for each in values]
    numbers = [key for key, value in zip(keys, values, strict=True) if isinstance(value, float)]
    if not numbers:
        prefix = literal("|".join(texts) + "|")
        return f"starts_with({hidden.ROW_ID}, {prefix}) AND regexp_like(substr({hidden.ROW_ID}, length({prefix}) + 1), '{_CHANGE}')"
    parts = ["([^|]*)" if key in numbers else re.escape(each) for key, each in zip(keys, texts, strict=True)]
    pattern = literal(f"(?s)^{'[|]'.join(parts)}[|]{_CHANGE.removeprefix('^')}")
    types = {field.name: str(field.type.type) for field in source.schema().fields}
    equal = []
    for number, key in enumerate(numbers, 1):
        arrow, written = _ARROW[types[key]], text(row[key])
        stored = f"arrow_try_cast(regexp_replace({hidden.ROW_ID}, {pattern}, '\\{number}'), '{arrow}')"
        equal.append(_special(stored, written) or f"{stored} = arrow_cast({literal(written)}, '{arrow}')")
    return " AND ".join([f"regexp_like({hidden.ROW_ID}, {pattern})", *equal])


def text(value: Any) -> str:
    """A value of a row as text, as Spark casts it, but for FLOAT and DOUBLE; instants are in UTC."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        whole, point, fraction = value.replace(tzinfo=None).isoformat(sep=" ").partition(".")
        return whole + point + fraction.rstrip("0")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def literal(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"
