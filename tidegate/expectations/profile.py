"""The profile of a table: queries of column statistics, and their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

Kind = Literal["text", "number", "day", "instant", "other"]

MAX_CHOICES = 20
"""A column with more distinct texts is not a set of choices."""
_ROWS_PER_CHOICE = 20
"""With fewer rows per distinct text, later batches are likely to contain new texts."""


@dataclass(frozen=True, kw_only=True)
class ProfiledColumn:
    """One column of a Delta table."""

    name: str
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Statistics of a column."""

    column: ProfiledColumn
    rows: int
    nulls: int
    distinct: int
    """Distinct values, estimated."""
    minimum: float | date | datetime | None = None
    """Of a text column the shortest length. None without a value, or for another type."""
    maximum: float | date | datetime | None = None
    choices: tuple[str, ...] = ()
    """All distinct texts of a column that `is_choice`."""

    def is_choice(self) -> bool:
        """Whether the column's texts look like a set of choices."""
        enough = self.distinct * _ROWS_PER_CHOICE <= self.rows - self.nulls
        return self.column.kind == "text" and 0 < self.distinct <= MAX_CHOICES and enough


def columns(schema: str) -> tuple[ProfiledColumn, ...]:
    """The columns of a Delta schema in JSON, without the platform's own, whose names begin with ``_``."""
    fields = json.loads(schema)["fields"]
    return tuple(
        ProfiledColumn(name=field["name"], kind=_kind(field["type"]))
        for field in fields
        if not field["name"].startswith("_")
    )


def statistics_query(columns: Sequence[ProfiledColumn]) -> str:
    """DuckDB SQL: statistics of columns of the table ``delta_table``, in one row."""
    return f"SELECT count(*) AS rows, {', '.join(part for column in columns for part in _measures(column))} FROM delta_table"


def choices_query(profiles: Sequence[Profile]) -> str:
    """DuckDB SQL: the distinct texts of columns of the table ``delta_table``, in one row."""
    return (
        "SELECT "
        + ", ".join(
            f'list_sort(array_agg(DISTINCT "{profile.column.name}")'
            f' FILTER (WHERE "{profile.column.name}" IS NOT NULL)) AS "{profile.column.name}"'
            for profile in profiles
        )
        + " FROM delta_table"
    )


def profiles(columns: Sequence[ProfiledColumn], statistics: Mapping[str, Any]) -> tuple[Profile, ...]:
    """The profiles of columns from the row of `statistics_query`."""
    return tuple(
        Profile(
            column=column,
            rows=statistics["rows"],
            nulls=statistics["rows"] - statistics[f"{column.name}.count"],
            distinct=statistics[f"{column.name}.distinct"],
            minimum=_plain(statistics.get(f"{column.name}.minimum")),
            maximum=_plain(statistics.get(f"{column.name}.maximum")),
        )
        for column in columns
    )


def _measures(column: ProfiledColumn) -> list[str]:
    quoted = f'"{column.name}"'
    parts = [
        f'count({quoted}) AS "{column.name}.count"',
        f'approx_count_distinct({quoted}) AS "{column.name}.distinct"',
    ]
    if column.kind != "other":
        value = f"length({quoted})" if column.kind == "text" else quoted
        parts += [f'min({value}) AS "{column.name}.minimum"', f'max({value}) AS "{column.name}.maximum"']
    return parts


def _kind(delta_type: Any) -> Kind:
    if not isinstance(delta_type, str):
        return "other"
    if delta_type in ("byte", "short", "integer", "long", "float", "double") or delta_type.startswith("decimal"):
        return "number"
    kinds: dict[str, Kind] = {"string": "text", "date": "day", "timestamp": "instant", "timestamp_ntz": "instant"}
    return kinds.get(delta_type, "other")


def _plain(value: Any) -> float | date | datetime | None:
    return value if value is None or isinstance(value, date | datetime) else float(value)
