"""Conditions on the tables of a group flow: the rows that a group is computed from, and the groups that a row belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidegate.ops import query
from tidegate.spec.time_windows import WINDOW_START
from tidegate.trace import conditions

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from tidegate.spec import ChangeFeed, Table

_MICROSECOND = timedelta(microseconds=1)


def of_group(target: Table, source: DeltaTable, name: str, group: Mapping[str, Any]) -> str:
    """The condition for the rows of a source table that a group is computed from; with ``replace_by``, its whole scope.

    Args:
        name: The name of the source table.
        group: The row of the target.

    Raises:
        RequestError: As `conditions.where`.
    """
    windows = target.windows
    parts = [_alive(source)]
    parts.append(conditions.where(source, name, {key: group[key] for key in _columns(target)}))
    if windows is not None and group[WINDOW_START] is None:
        parts.append(conditions.where(source, name, {windows.time: None}))
    elif windows is not None:
        start = group[WINDOW_START]
        end = start + timedelta(seconds=windows.length_seconds)
        parts.append(conditions.within(source, name, windows.time, start, end))
    return " AND ".join(parts)


def of_row(target: Table, table: DeltaTable, row: Mapping[str, Any]) -> str:
    """The condition for the groups that a row of the source table belongs to; with ``replace_by``, for its whole scope.

    Args:
        table: The target's.
        row: The row of the source.
    """
    windows = target.windows
    parts = [conditions.where(table, target.name, {key: row[key] for key in _columns(target)})]
    if windows is not None and row[windows.time] is None:
        parts.append(conditions.where(table, target.name, {WINDOW_START: None}))
    elif windows is not None:
        last = row[windows.time] + _MICROSECOND
        first = last - timedelta(seconds=windows.length_seconds)
        parts.append(conditions.within(table, target.name, WINDOW_START, first, last))
    return " AND ".join(parts)


def of_joined(feed: ChangeFeed, table: DeltaTable, row: Mapping[str, Any]) -> str | None:
    """The condition for the rows of another source that are joined with a row of the first one; None if it has a NULL there."""
    values = {theirs: row[ours] for ours, theirs in feed.on.items()}
    return None if None in values.values() else f"{conditions.where(table, feed.table, values)} AND {_alive(table)}"


def of_first(feed: ChangeFeed, first: DeltaTable, name: str, row: Mapping[str, Any]) -> str:
    """The condition for the rows of the first source that a row of another source belongs to.

    Args:
        name: The name of the first source.
    """
    values = {ours: row[theirs] for ours, theirs in feed.on.items()}
    return f"{conditions.where(first, name, values)} AND {_alive(first)}"


def _columns(target: Table) -> list[str]:
    """The keys that name a group, or its scope, and are columns of the source."""
    return [key for key in target.scope if target.windows is None or key != WINDOW_START]


def _alive(table: DeltaTable) -> str:
    return "NOT coalesce(_deleted, false)" if "_deleted" in query.column_names(table) else "true"
