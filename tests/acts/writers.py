"""Acts of other writers, and maintenance."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.acts.effects import FRESH, HARMLESS, WRITERS, Effect, damaged
from tests.acts.lake import Lake, rows
from tests.acts.project import READERS
from tests.acts.tables import (
    added,
    changed_values,
    chosen_row,
    condition_of,
    entries,
    group_set,
    key_of,
    make_checkpoint,
    now_ms,
    open_table,
    readers_of_appends,
    record_in,
    replaced,
    set_metadata,
    values_of,
    write_entry,
)


def append(lake: Lake, table: str, number: int) -> Effect | None:
    """A row with a key that nobody else has."""
    import pyarrow as pa
    from deltalake import write_deltalake

    path, chosen = lake.table(table), chosen_row(lake, table, number)
    if chosen is None:
        return None
    fresh = next(FRESH)
    row = dict(chosen)
    if table in ("gold.acts",):
        row["day"] = 1000 + fresh
        lake.edited(group_set(row["day"], (row["orders"], row["amount"])))
    elif table == "gold.firsts":
        row |= {"id": 1000 + fresh, "_row_id": f"foreign#{fresh}"}
        lake.edited(lambda world: world.firsts.append(row["id"]))
    else:
        old = record_in(table, row)
        record = old._replace(id=1000 + fresh, at=old.at + timedelta(seconds=fresh))
        row |= {"_row_id": f"foreign#{fresh}", **values_of(table, record)}
        lake.edited(added(table, record))
    schema = pa.schema(open_table(path).schema().to_arrow())
    write_deltalake(str(path), pa.Table.from_pylist([row], schema=schema), mode="append")
    return Effect(names=table)


def update(lake: Lake, table: str, number: int) -> Effect | None:
    """One row changes."""
    path, chosen = lake.table(table), chosen_row(lake, table, number)
    if chosen is None:
        return None
    where, changed = condition_of(table, chosen), changed_values(table, chosen)
    open_table(path).update(new_values=changed, predicate=where)
    lake.edited(replaced(table, chosen, chosen | changed))
    return Effect(may_refuse=readers_of_appends(table), names=table)


def merge(lake: Lake, table: str, number: int) -> Effect | None:
    """One row changes, by a MERGE."""
    import pyarrow as pa

    path, chosen = lake.table(table), chosen_row(lake, table, number)
    if chosen is None:
        return None
    opened, changed = open_table(path), changed_values(table, chosen)
    schema = pa.schema(opened.schema().to_arrow())
    source = pa.Table.from_pylist([chosen | changed], schema=schema)
    key = key_of(table)
    merger = opened.merge(source, predicate=f"t.{key} = s.{key}", source_alias="s", target_alias="t")
    merger.when_matched_update(updates={name: f"s.{name}" for name in changed}).execute()
    lake.edited(replaced(table, chosen, chosen | changed))
    return Effect(may_refuse=readers_of_appends(table), names=table)


def delete(lake: Lake, table: str, number: int) -> Effect | None:
    """One row goes."""
    path, chosen = lake.table(table), chosen_row(lake, table, number)
    if chosen is None:
        return None
    open_table(path).delete(condition_of(table, chosen))
    lake.edited(replaced(table, chosen, None))
    return Effect(may_refuse=readers_of_appends(table), names=table)


def restore(lake: Lake, table: str, number: int) -> Effect | None:
    """RESTORE to an earlier version."""
    opened = open_table(lake.table(table))
    if opened.version() == 0:
        return None
    opened.restore(number % opened.version())
    return damaged(table)


def overwrite(lake: Lake, table: str, number: int) -> Effect | None:
    """The table is overwritten with some of its rows."""
    import pyarrow as pa
    from deltalake import write_deltalake

    path = lake.table(table)
    if chosen_row(lake, table, number) is None:
        return None
    schema = pa.schema(open_table(path).schema().to_arrow())
    kept = rows(path)[: 1 + number % 3]
    write_deltalake(str(path), pa.Table.from_pylist(kept, schema=schema), mode="overwrite")
    return damaged(table)


def recreate(lake: Lake, table: str, number: int) -> Effect | None:
    """The table is made again with the same rows: another table, with versions of its own."""
    import pyarrow as pa
    from deltalake import write_deltalake

    path = lake.table(table)
    if chosen_row(lake, table, number) is None:
        return None
    opened = open_table(path)
    schema, kept, version = pa.schema(opened.schema().to_arrow()), rows(path), opened.version()
    shutil.rmtree(path)
    configuration = {"delta.enableChangeDataFeed": "true"}
    for begin in range(version + 1 if number % 2 else 1):
        part = pa.Table.from_pylist(kept[begin :: version + 1] if number % 2 else kept, schema=schema)
        write_deltalake(str(path), part, mode="append", configuration=configuration)
    return damaged(table)


def rename_column(lake: Lake, table: str, number: int) -> Effect | None:
    """A column is renamed with column mapping: one entry with metadata, no file changes."""

    def renamed(metadata: dict[str, Any]) -> None:
        schema = json.loads(metadata["schemaString"])
        for position, each in enumerate(schema["fields"], 1):
            each["metadata"] |= {"delta.columnMapping.id": position, "delta.columnMapping.physicalName": each["name"]}
        each = schema["fields"][number % len(schema["fields"])]
        each["name"] = f"{each['name']}_renamed"
        metadata["schemaString"] = json.dumps(schema)
        metadata["configuration"] |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "40"}

    set_metadata(lake, table, "RENAME COLUMN", renamed)
    return damaged(table)


def drop_feed(lake: Lake, table: str, number: int) -> Effect | None:
    """The change feed of the table is switched off."""

    def off(metadata: dict[str, Any]) -> None:
        metadata["configuration"] |= {"delta.enableChangeDataFeed": "false"}

    set_metadata(lake, table, "SET TBLPROPERTIES", off)
    return damaged(table)


def add_column(lake: Lake, table: str, number: int) -> Effect | None:
    """A column is added. The flow that writes the table may refuse it: its transform does not return the column."""

    def added(metadata: dict[str, Any]) -> None:
        schema = json.loads(metadata["schemaString"])
        schema["fields"].append({"name": f"note_{next(FRESH)}", "type": "string", "nullable": True, "metadata": {}})
        metadata["schemaString"] = json.dumps(schema)

    set_metadata(lake, table, "ADD COLUMNS", added)
    return Effect(may_refuse=frozenset({WRITERS[table]}))


# Maintenance.


def optimize(lake: Lake, table: str, number: int) -> Effect | None:
    """Files are compacted, or sorted."""
    optimizer = open_table(lake.table(table)).optimize
    if number % 2:
        optimizer.z_order(["amount" if table == "gold.acts" else "_row_id"])
    else:
        optimizer.compact()
    return HARMLESS


def vacuum(lake: Lake, table: str, number: int) -> Effect | None:
    """Files that the table no longer has are removed at once. Who has not read their changes may lack them."""
    open_table(lake.table(table)).vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False, full=bool(number % 2)
    )
    return Effect(may_refuse=frozenset(READERS[table]))


def set_properties(lake: Lake, table: str, number: int) -> Effect | None:
    """Properties or the description change."""
    alter = open_table(lake.table(table)).alter
    if number % 2:
        alter.set_table_description(f"note {number}")
    else:
        alter.set_table_properties({"delta.logRetentionDuration": f"interval {31 + number} days"})
    return HARMLESS


def analyze(lake: Lake, table: str, number: int) -> Effect | None:
    """Statistics are computed: files are added again with them, without change of data."""
    path = lake.table(table)
    version = open_table(path).version()
    adds = [
        action
        for entry in entries(path)
        for action in map(json.loads, entry.read_text().splitlines())
        if "add" in action
    ]
    live = {Path(file).name for file in open_table(path).file_uris()}
    chosen = [each for each in adds if Path(each["add"]["path"]).name in live]
    again = [{"add": each["add"] | {"dataChange": False}} for each in chosen[:1]]
    info = {"commitInfo": {"timestamp": now_ms(), "operation": "COMPUTE STATS", "operationParameters": {}}}
    write_entry(path, version + 1, [info, *again])
    return HARMLESS


def checkpoint_log(lake: Lake, table: str, number: int) -> Effect | None:
    """Delta makes a checkpoint of its log."""
    make_checkpoint(lake.table(table))
    return HARMLESS


def clean_log(lake: Lake, table: str, number: int) -> Effect | None:
    """Delta makes a checkpoint, and all listed below the newest version are cleaned. Who has not read them lacks them."""
    path = lake.table(table)
    if not entries(path) or "app_id" not in entries(path)[-1].read_text():
        # Retention is longer than the time until the next plan, which sees what others have done.
        return None
    make_checkpoint(path)
    for entry in entries(path)[:-1]:
        for file in path.glob(f"_delta_log/{entry.stem}.*"):
            if "checkpoint" not in file.name:
                file.unlink()
    return Effect(may_refuse=frozenset(READERS[table]))
