"""Rows and logs of the tables of the pipeline `acts`, as acts choose and change them, and what the world is told of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.acts.effects import FRESH, NoTableError
from tests.acts.lake import Lake, rows
from tests.acts.oracle import Event, Record, World, record_of
from tests.acts.project import READERS

if TYPE_CHECKING:
    from deltalake import DeltaTable


def open_table(path: Path) -> DeltaTable:
    """The table; `NoTableError` without one."""
    from deltalake import DeltaTable

    if not entries(path):
        raise NoTableError
    return DeltaTable(str(path))


def chosen_row(lake: Lake, table: str, number: int) -> dict[str, Any] | None:
    """One of its rows; None if it has none."""
    path = lake.table(table)
    present = rows(path) if entries(path) else []
    return present[number % len(present)] if present else None


def record_in(table: str, row: dict[str, Any]) -> Record:
    """The record that a row has."""
    return record_of(json.loads(row["line"]) if table == "bronze.acts" else row)


def values_of(table: str, record: Record) -> dict[str, Any]:
    """The columns of a row with a record."""
    values = record._asdict()
    return {"line": json.dumps(values | {"at": record.at.isoformat()})} if table == "bronze.acts" else values


def key_of(table: str) -> str:
    """The column that identifies a row."""
    return {"silver.acts": "id", "gold.acts": "day"}.get(table, "_row_id")


def condition_of(table: str, row: dict[str, Any]) -> str:
    """SQL that is true for one row."""
    key = key_of(table)
    return f"{key} = {row[key]}" if isinstance(row[key], int) else f"{key} = '{row[key]}'"


def changed_values(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """Other values for some columns of a row."""
    if table == "gold.firsts":
        return {"id": 1000 + next(FRESH)}
    if table == "bronze.acts":
        record = record_in(table, row)
        return values_of(table, record._replace(amount=record.amount + 1000))
    return {"amount": row["amount"] + 1000}


def readers_of_appends(table: str) -> frozenset[str]:
    """The readers that take added rows only, and refuse changed ones."""
    return frozenset(flow for flow in READERS[table] if flow not in ("gold", "sink"))


def added(table: str, record: Record) -> Event:
    """A row with a record is added to a table."""
    if table == "bronze.acts":
        return lambda world: world.add_to_bronze([record])
    if table == "silver.rows":
        return lambda world: world.add_to_rows([record])
    return lambda world: world.silver.update({record.id: record})


def group_set(day: int, group: tuple[int, int] | None) -> Event:
    """A group of gold gets other values, or goes."""

    def event(world: World) -> None:
        world.gold.pop(day, None)
        if group is not None:
            world.gold[day] = group

    return event


def replaced(table: str, before: dict[str, Any], after: dict[str, Any] | None) -> Event:
    """One row of a table is changed, or deleted."""
    if table == "gold.acts":
        return group_set(before["day"], None if after is None else (after["orders"], after["amount"]))
    if table == "gold.firsts":
        return lambda world: _swap(world.firsts, before["id"], None if after is None else after["id"])
    old, new = record_in(table, before), None if after is None else record_in(table, after)
    if table == "silver.acts":
        return lambda world: world.silver.update({new.id: new}) if new else world.silver.pop(old.id, None) and None

    def event(world: World) -> None:
        _swap(world.bronze if table == "bronze.acts" else world.rows, old, new)

    return event


def _swap(items: list[Any], old: Any, new: Any) -> None:
    if old in items:
        position = items.index(old)
        items[position : position + 1] = [] if new is None else [new]


# The log.


def entries(path: Path) -> list[Path]:
    """The entries of a log, oldest first."""
    return sorted((path / "_delta_log").glob("*[0-9].json"))


def make_checkpoint(path: Path) -> None:
    """Make a checkpoint as Spark does, which refuses to make one of a log with a gap or an empty entry; delta-rs does not."""
    versions = [int(entry.stem) for entry in entries(path)]
    has_gap = versions != list(range(versions[-1] - len(versions) + 1, versions[-1] + 1)) if versions else True
    is_cleaned = any((path / "_delta_log").glob("*.checkpoint*.parquet"))
    if has_gap or not (versions[0] == 0 or is_cleaned) or not all(entry.stat().st_size for entry in entries(path)):
        raise NoTableError
    open_table(path).create_checkpoint()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def write_entry(path: Path, version: int, actions: list[dict[str, Any]]) -> None:
    (path / "_delta_log" / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def set_metadata(lake: Lake, table: str, operation: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Write an entry with changed metadata, as Spark does for ALTER TABLE."""
    path = lake.table(table)
    opened = open_table(path)
    metadata = opened.metadata()
    values: dict[str, Any] = {
        "id": str(metadata.id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": opened.schema().to_json(),
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
        "createdTime": metadata.created_time,
    }
    change(values)
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": now_ms(), "operation": operation, "operationParameters": {}}},
        {"metaData": values},
    ]
    if "delta.columnMapping.mode" in values["configuration"]:
        features = ["changeDataFeed", "invariants", "appendOnly", "columnMapping"]
        actions.append({"protocol": {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": features}})
    write_entry(path, opened.version() + 1, actions)
