"""Which rows of its sources a row is made of, and which rows of a target a source row belongs to: as conditions of delta-rs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegate import hidden
from tidegate.probes import delta_table
from tidegate.spec.table import WINDOW_START
from tidegate.trace import conditions

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from tidegate.project.resolution import ResolvedFlow
    from tidegate.spec import ChangeFeed, TimeWindows

NOTHING = "false"
"""No row."""


def source_rows(flow: ResolvedFlow, source: DeltaTable, row: Mapping[str, Any]) -> str:
    """The rows of the flow's first source of which a row of its target is made.

    Of a group that depends on a whole scope, such as a session, these are the rows of the scope. Of a result of state it is the
    row that it is about, if the transform kept its ``_row_id``.
    """
    assert flow.writer is not None
    name, target = flow.writer.target.name, flow.flow.target
    if flow.flow.kind.has_groups:
        equal = {key: row[key] for key in target.scope if not (target.windows and key == WINDOW_START)}
        parts = [conditions.where(source, name, equal), alive(source)]
        if target.windows is not None:
            start = row[WINDOW_START]
            parts.append(_between(source, name, target.windows.time, start, _moved(start, _rest(target.windows))))
        return " AND ".join(parts)
    if flow.flow.kind.stateful:
        return conditions.where(source, name, {hidden.ROW_ID: row[hidden.ROW_ID]}) if hidden.ROW_ID in row else NOTHING
    if flow.landing is not None:
        return conditions.where(source, name, {hidden.ROW_ID: row[hidden.ROW_ID]})
    return conditions.of_change(source, name, row[hidden.ROW_ID], flow.source_keys)


def target_rows(flow: ResolvedFlow, target: DeltaTable, first: DeltaTable, source: Mapping[str, Any]) -> str:
    """The rows of the flow's target that a row of its first source belongs to."""
    table = flow.flow.target
    if flow.flow.kind.has_groups:
        windows = table.windows
        equal = {key: source[key] for key in table.scope if not (windows and key == WINDOW_START)}
        where = conditions.where(target, table.name, equal)
        if windows is None:
            return where
        time = source[windows.time]
        return f"{where} AND {_between(target, table.name, WINDOW_START, _moved(time, -_rest(windows)), time)}"
    if flow.flow.kind.stateful and hidden.ROW_ID not in delta_table.column_names(target):
        return NOTHING
    if flow.flow.kind.stateful or flow.landing is not None:
        return conditions.where(target, table.name, {hidden.ROW_ID: source[hidden.ROW_ID]})
    return conditions.of_key(first, source, flow.source_keys)


def joined_rows(feed: ChangeFeed, table: DeltaTable, rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows of a source after the first that belong to these rows of the first."""
    equal = [{theirs: row[ours] for ours, theirs in feed.on.items()} for row in rows]
    return f"({any_of(table, feed.table, equal)}) AND {alive(table)}"


def driving_rows(feed: ChangeFeed, first: DeltaTable, name: str, row: Mapping[str, Any]) -> str:
    """The rows of the first source that belong to a row of another.

    Args:
        name: Of the first source.
    """
    return (
        f"{conditions.where(first, name, {ours: row[theirs] for ours, theirs in feed.on.items()})} AND {alive(first)}"
    )


def any_of(table: DeltaTable, name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows of a table that have the values of any of these; no row if there is none."""
    distinct = dict.fromkeys(conditions.where(table, name, row) for row in rows)
    return " OR ".join(f"({where})" for where in distinct) or NOTHING


def alive(table: DeltaTable) -> str:
    """The rows of a table that are no tombstones; all, if it has none."""
    return f"NOT coalesce({hidden.DELETED}, false)" if hidden.DELETED in delta_table.column_names(table) else "true"


def _between(table: DeltaTable, name: str, column: str, first: Any, last: Any) -> str:
    """From one instant to another, both included; NULL for NULL."""
    if first is None:
        return conditions.where(table, name, {column: None})
    bounds = ((first, ">="), (last, "<="))
    return " AND ".join(conditions.where(table, name, {column: bound}, comparison) for bound, comparison in bounds)


def _rest(windows: TimeWindows) -> timedelta:
    """From the first to the last instant of a window, in the precision of instants."""
    return timedelta(seconds=windows.length_seconds) - timedelta(microseconds=1)


def _moved(instant: datetime | None, by: timedelta) -> datetime | None:
    """An instant moved, but not out of the calendar of Python, which is that of types: years 1 to 9999."""
    if instant is None:
        return None
    try:
        return instant + by
    except OverflowError:
        if by > timedelta(0):
            return datetime.max.replace(tzinfo=instant.tzinfo)
        return datetime.min.replace(tzinfo=instant.tzinfo)
