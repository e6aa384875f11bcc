"""What the columns of a table look like: the query that measures them, and what it found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal

Kind = Literal["text", "number", "day", "instant", "other"]

SET_AT_MOST = 20
"""Different texts beyond which a column is no longer a list of choices."""
_ROWS_PER_CHOICE = 20
"""Fewer rows for each text, and the next batch brings new ones."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a Delta table."""

    name: str
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What was found in a column."""

    column: Column
    rows: int
    nulls: int
    distinct: int
    """Different values, estimated."""
    least: float | date | datetime | None = None
    """Of numbers and times; of texts the shortest length. None when there is no value."""
    most: float | date | datetime | None = None
    choices: tuple[str, ...] = ()
    """All texts of a column that has few of them."""

    def is_choice(self) -> bool:
        """Whether the column's texts look like a list of choices."""
        enough = self.distinct * _ROWS_PER_CHOICE <= self.rows - self.nulls
        return self.column.kind == "text" and 0 < self.distinct <= SET_AT_MOST and enough


def columns(schema: str) -> tuple[Column, ...]:
    """The columns that a transform made, from a Delta schema's JSON; ours begin with ``_`` and are left out."""
    fields = json.loads(schema)["fields"]
    return tuple(
        Column(name=field["name"], kind=_kind(field["type"])) for field in fields if not field["name"].startswith("_")
    )


def measuring(found: Sequence[Column]) -> str:
    """DuckDB's SQL that measures columns of the table ``held`` in one row."""
    return f"SELECT count(*) AS rows, {', '.join(part for column in found for part in _measures(column))} FROM held"


def choosing(found: Sequence[Profile]) -> str:
    """DuckDB's SQL that lists the choices of columns of the table ``held`` in one row."""
    return (
        "SELECT "
        + ", ".join(
            f'list_sort(array_agg(DISTINCT "{profile.column.name}")'
            f' FILTER (WHERE "{profile.column.name}" IS NOT NULL)) AS "{profile.column.name}"'
            for profile in found
        )
        + " FROM held"
    )


def profiles(found: Sequence[Column], measured: Mapping[str, Any]) -> tuple[Profile, ...]:
    """What `measuring` found, column by column."""
    return tuple(
        Profile(
            column=column,
            rows=measured["rows"],
            nulls=measured["rows"] - measured[f"{column.name}.count"],
            distinct=measured[f"{column.name}.distinct"],
            least=_plain(measured.get(f"{column.name}.least")),
            most=_plain(measured.get(f"{column.name}.most")),
        )
        for column in found
    )


def _measures(column: Column) -> list[str]:
    quoted = f'"{column.name}"'
    parts = [
        f'count({quoted}) AS "{column.name}.count"',
        f'approx_count_distinct({quoted}) AS "{column.name}.distinct"',
    ]
    if column.kind != "other":
        value = f"length({quoted})" if column.kind == "text" else quoted
        parts += [f'min({value}) AS "{column.name}.least"', f'max({value}) AS "{column.name}.most"']
    return parts


def _kind(told: Any) -> Kind:
    if not isinstance(told, str):
        return "other"
    if told in ("byte", "short", "integer", "long", "float", "double") or told.startswith("decimal"):
        return "number"
    kinds: dict[str, Kind] = {"string": "text", "date": "day", "timestamp": "instant", "timestamp_ntz": "instant"}
    return kinds.get(told, "other")


def _plain(value: Any) -> float | date | datetime | None:
    return value if value is None or isinstance(value, date | datetime) else float(value)
