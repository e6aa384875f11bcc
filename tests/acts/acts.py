"""Foreign acts: what administrators, other writers, backups and failing disks do to the tables, checkpoints and notes of a lake."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.acts.lake import Lake, rows
from tests.acts.oracle import Event, Record, World, record_of
from tests.acts.project import FLOWS, READERS, TARGETS

if TYPE_CHECKING:
    from deltalake import DeltaTable

TABLES = tuple(TARGETS.values())
WRITERS = {table: flow for flow, table in TARGETS.items()}
ROW_BY_ROW = ("gold", "sink", "silver")
_fresh = itertools.count(1)


@dataclass(frozen=True)
class Effect:
    """What an act means for the flows."""

    may_refuse: frozenset[str] = frozenset()
    """The flows that may refuse to go on."""
    taints: bool = False
    """Whether rows or the history of them may be lost, so that a flow that goes on must have healed them."""
    names: str = ""
    """The table of which a change of rows by another writer must be named."""


HARMLESS = Effect()


@dataclass(frozen=True)
class Act:
    """One act: its kind, the table or part that it is done to, and a number that chooses among its variants."""

    kind: str
    table: str
    number: int

    def do(self, lake: Lake) -> Effect | None:
        """Do it to a lake; None if it cannot be done to it as it is, and nothing was done."""
        return ACTS[self.kind](lake, self.table, self.number)

    def __str__(self) -> str:
        return f"{self.kind}({self.table}, {self.number})"


def standing_on(table: str) -> frozenset[str]:
    """The flow that writes a table, and those that read it."""
    return frozenset((WRITERS[table], *READERS[table]))


def damaged(table: str) -> Effect:
    """The effect of an act that loses or replaces history."""
    return Effect(may_refuse=standing_on(table), taints=True)


# Other writers.


def append(lake: Lake, table: str, number: int) -> Effect | None:
    """A row with a key that nobody else has."""
    import pyarrow as pa
    from deltalake import write_deltalake

    path, chosen = lake.table(table), _chosen(lake, table, number)
    if chosen is None:
        return None
    fresh = next(_fresh)
    row = dict(chosen)
    if table in ("gold.acts",):
        row["day"] = 1000 + fresh
        lake.edited(_set_group(row["day"], (row["orders"], row["amount"])))
    elif table == "gold.firsts":
        row |= {"id": 1000 + fresh, "_row_id": f"foreign#{fresh}"}
        lake.edited(lambda world: world.firsts.append(row["id"]))
    else:
        old = _record(table, row)
        record = old._replace(id=1000 + fresh, at=old.at + timedelta(seconds=fresh))
        row |= {"_row_id": f"foreign#{fresh}", **_values(table, record)}
        lake.edited(_add(table, record))
    schema = pa.schema(_open(path).schema().to_arrow())
    write_deltalake(str(path), pa.Table.from_pylist([row], schema=schema), mode="append")
    return Effect(names=table)


def update(lake: Lake, table: str, number: int) -> Effect | None:
    """One row changes."""
    path, chosen = lake.table(table), _chosen(lake, table, number)
    if chosen is None:
        return None
    where, changed = _condition(table, chosen), _changed(table, chosen)
    _open(path).update(new_values=changed, predicate=where)
    lake.edited(_replace(table, chosen, chosen | changed))
    return Effect(may_refuse=_readers_of_appends(table), names=table)


def merge(lake: Lake, table: str, number: int) -> Effect | None:
    """One row changes, by a MERGE."""
    import pyarrow as pa

    path, chosen = lake.table(table), _chosen(lake, table, number)
    if chosen is None:
        return None
    opened, changed = _open(path), _changed(table, chosen)
    schema = pa.schema(opened.schema().to_arrow())
    source = pa.Table.from_pylist([chosen | changed], schema=schema)
    key = _key(table)
    merger = opened.merge(source, predicate=f"t.{key} = s.{key}", source_alias="s", target_alias="t")
    merger.when_matched_update(updates={name: f"s.{name}" for name in changed}).execute()
    lake.edited(_replace(table, chosen, chosen | changed))
    return Effect(may_refuse=_readers_of_appends(table), names=table)


def delete(lake: Lake, table: str, number: int) -> Effect | None:
    """One row goes."""
    path, chosen = lake.table(table), _chosen(lake, table, number)
    if chosen is None:
        return None
    _open(path).delete(_condition(table, chosen))
    lake.edited(_replace(table, chosen, None))
    return Effect(may_refuse=_readers_of_appends(table), names=table)


def restore(lake: Lake, table: str, number: int) -> Effect | None:
    """RESTORE to an earlier version."""
    opened = _open(lake.table(table))
    if opened.version() == 0:
        return None
    opened.restore(number % opened.version())
    return damaged(table)


def overwrite(lake: Lake, table: str, number: int) -> Effect | None:
    """The table is overwritten with some of its rows."""
    import pyarrow as pa
    from deltalake import write_deltalake

    path = lake.table(table)
    if _chosen(lake, table, number) is None:
        return None
    schema = pa.schema(_open(path).schema().to_arrow())
    kept = rows(path)[: 1 + number % 3]
    write_deltalake(str(path), pa.Table.from_pylist(kept, schema=schema), mode="overwrite")
    return damaged(table)


def recreate(lake: Lake, table: str, number: int) -> Effect | None:
    """The table is made again with the same rows: another table, with versions of its own."""
    import pyarrow as pa
    from deltalake import write_deltalake

    path = lake.table(table)
    if _chosen(lake, table, number) is None:
        return None
    opened = _open(path)
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

    _set_metadata(lake, table, "RENAME COLUMN", renamed)
    return damaged(table)


def drop_feed(lake: Lake, table: str, number: int) -> Effect | None:
    """The change feed of the table is switched off."""

    def off(metadata: dict[str, Any]) -> None:
        metadata["configuration"] |= {"delta.enableChangeDataFeed": "false"}

    _set_metadata(lake, table, "SET TBLPROPERTIES", off)
    return damaged(table)


def add_column(lake: Lake, table: str, number: int) -> Effect | None:
    """A column is added. The flow that writes the table may refuse it: its transform does not return the column."""

    def added(metadata: dict[str, Any]) -> None:
        schema = json.loads(metadata["schemaString"])
        schema["fields"].append({"name": f"note_{next(_fresh)}", "type": "string", "nullable": True, "metadata": {}})
        metadata["schemaString"] = json.dumps(schema)

    _set_metadata(lake, table, "ADD COLUMNS", added)
    return Effect(may_refuse=frozenset({WRITERS[table]}))


# Maintenance.


def optimize(lake: Lake, table: str, number: int) -> Effect | None:
    """Files are compacted, or sorted."""
    optimizer = _open(lake.table(table)).optimize
    if number % 2:
        optimizer.z_order(["amount" if table == "gold.acts" else "_row_id"])
    else:
        optimizer.compact()
    return HARMLESS


def vacuum(lake: Lake, table: str, number: int) -> Effect | None:
    """Files that the table no longer has are removed at once. Who has not read their changes may lack them."""
    _open(lake.table(table)).vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False, full=bool(number % 2)
    )
    return Effect(may_refuse=frozenset(READERS[table]))


def set_properties(lake: Lake, table: str, number: int) -> Effect | None:
    """Properties or the description change."""
    alter = _open(lake.table(table)).alter
    if number % 2:
        alter.set_table_description(f"note {number}")
    else:
        alter.set_table_properties({"delta.logRetentionDuration": f"interval {31 + number} days"})
    return HARMLESS


def analyze(lake: Lake, table: str, number: int) -> Effect | None:
    """Statistics are computed: files are added again with them, without change of data."""
    path = lake.table(table)
    version = _open(path).version()
    adds = [
        action
        for entry in _entries(path)
        for action in map(json.loads, entry.read_text().splitlines())
        if "add" in action
    ]
    live = {Path(file).name for file in _open(path).file_uris()}
    chosen = [each for each in adds if Path(each["add"]["path"]).name in live]
    again = [{"add": each["add"] | {"dataChange": False}} for each in chosen[:1]]
    info = {"commitInfo": {"timestamp": _now_ms(), "operation": "COMPUTE STATS", "operationParameters": {}}}
    _write_entry(path, version + 1, [info, *again])
    return HARMLESS


def checkpoint_log(lake: Lake, table: str, number: int) -> Effect | None:
    """Delta makes a checkpoint of its log."""
    _make_checkpoint(lake.table(table))
    return HARMLESS


def clean_log(lake: Lake, table: str, number: int) -> Effect | None:
    """Delta makes a checkpoint, and all entries below the newest version are cleaned. Who has not read them lacks them."""
    path = lake.table(table)
    if not _entries(path) or "app_id" not in _entries(path)[-1].read_text():
        # Retention is longer than the time until the next plan, which sees what others have done.
        return None
    _make_checkpoint(path)
    for entry in _entries(path)[:-1]:
        for file in path.glob(f"_delta_log/{entry.stem}.*"):
            if "checkpoint" not in file.name:
                file.unlink()
    return Effect(may_refuse=frozenset(READERS[table]))


# Disks, backups and people with a shell.


def lose_entries(lake: Lake, table: str, number: int) -> Effect | None:
    """The last entries of a log are gone, with or without the files beside them."""
    path = lake.table(table)
    entries = _entries(path)
    lost = entries[-(1 + number % 2) :]
    if not lost:
        return None
    for entry in lost:
        for file in path.glob(f"_delta_log/{entry.stem}.*"):
            if file == entry or number % 4 < 2:
                file.unlink()
    return damaged(table)


def lose_middle_entry(lake: Lake, table: str, number: int) -> Effect | None:
    """An entry below the newest one is gone."""
    entries = _entries(lake.table(table))
    if len(entries) < 2:
        return None
    entries[:-1][number % (len(entries) - 1)].unlink()
    return damaged(table)


def tear_entry(lake: Lake, table: str, number: int) -> Effect | None:
    """One of the last entries is empty, or ends in the middle."""
    entries = _entries(lake.table(table))
    if not entries:
        return None
    torn = entries[-1 - number // 3 % len(entries)]
    content = torn.read_bytes()
    torn.write_bytes((b"", content[: len(content) // 2], content[: len(content) - 10])[number % 3])
    return damaged(table)


def rewrite_entry(lake: Lake, table: str, number: int) -> Effect | None:
    """An entry is another one than it was: of the same actions, at another time."""
    entries = _entries(lake.table(table))
    if not entries:
        return None
    entry = entries[-1 - number % len(entries)]
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"] |= {"timestamp": _now_ms() + number}
    entry.write_text("\n".join(map(json.dumps, lines)))
    return damaged(table)


def lose_side_files(lake: Lake, table: str, number: int) -> Effect | None:
    """Checksums, checkpoints of the log or ``_last_checkpoint`` are gone or torn."""
    path = lake.table(table)
    pattern = ("*.crc", "*.checkpoint*.parquet", "_last_checkpoint")[number % 3]
    files = sorted((path / "_delta_log").glob(pattern))
    if not files:
        return None
    for file in files:
        if number % 2:
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    entries = _entries(path)
    return HARMLESS if entries and int(entries[0].stem) == 0 else damaged(table)


def put_table_back(lake: Lake, table: str, number: int) -> Effect | None:
    """The table from an older copy."""
    return damaged(table) if _put_back(lake, lake.table(table), number) else None


def remove_table(lake: Lake, table: str, number: int) -> Effect | None:
    """The table is removed, or its log only."""
    path = lake.table(table) if number % 2 else lake.table(table) / "_delta_log"
    if not path.exists():
        return None
    shutil.rmtree(path)
    return damaged(table)


def put_checkpoint_back(lake: Lake, table: str, number: int) -> Effect | None:
    """The checkpoint of the flow that writes the table from an older copy, with or without the notes beside it."""
    folder = lake.folder / "checkpoints" / "acts" / WRITERS[table]
    return damaged(table) if _put_back(lake, folder / "v1" if number % 2 else folder, number // 2) else None


def remove_checkpoint(lake: Lake, table: str, number: int) -> Effect | None:
    """The checkpoint of the flow that writes the table is gone."""
    folder = lake.folder / "checkpoints" / "acts" / WRITERS[table]
    if not folder.exists():
        return None
    shutil.rmtree(folder / "v1" if number % 2 and (folder / "v1").exists() else folder)
    return damaged(table)


def put_sink_checkpoint_back(lake: Lake, table: str, number: int) -> Effect | None:
    """The checkpoint of the flow of the sink is older, or gone: it sends again, or refuses."""
    folder = lake.folder / "checkpoints" / "acts" / "sink"
    if not folder.exists():
        return None
    if number % 3 == 0:
        shutil.rmtree(folder)
    elif not _put_back(lake, folder, number):
        return None
    return Effect(may_refuse=frozenset({"sink"}), taints=True)


def put_notes_back(lake: Lake, table: str, number: int) -> Effect | None:
    """The notes of positions beside all checkpoints, or that of one flow, are older or gone."""
    flow = WRITERS[table] if number % 2 else "*"
    notes = sorted((lake.folder / "checkpoints" / "acts").glob(f"{flow}/*.history.json"))
    if not notes:
        return None
    for note in notes:
        older = _older(lake, note, number // 4)
        if number % 4 < 2 or older is None or not older.exists():
            note.unlink()
        else:
            shutil.copy2(older, note)
    return HARMLESS


def put_ledger_back(lake: Lake, table: str, number: int) -> Effect | None:
    """The ledger is older or gone."""
    path = lake.folder / "_ops" / "acts" / "ledger"
    if number % 2:
        return HARMLESS if _put_back(lake, path, number // 2) else None
    if not path.exists():
        return None
    shutil.rmtree(path)
    return HARMLESS


def put_folder_back(lake: Lake, table: str, number: int) -> Effect | None:
    """All tables, all checkpoints, or what the platform writes for itself, from an older copy."""
    part = ("tables", "checkpoints", "_ops")[number % 3]
    if not _put_back(lake, lake.folder / part, number // 3):
        return None
    return HARMLESS if part == "_ops" else Effect(may_refuse=frozenset(FLOWS), taints=True)


def put_flow_back(lake: Lake, table: str, number: int) -> Effect | None:
    """The table, and its writer's checkpoint and notes, and the ledger, or some of them, from one older copy."""
    flow = WRITERS[table]
    parts = (
        lake.table(table),
        lake.folder / "checkpoints" / "acts" / flow / "v1-0.history.json",
        lake.folder / "_ops" / "acts" / "ledger",
        lake.folder / "checkpoints" / "acts" / flow / "v1",
    )
    chosen = [part for bit, part in enumerate(parts) if number >> bit & 1 or bit == 0]
    done = [_put_back(lake, part, number >> len(parts)) for part in chosen]
    return damaged(table) if any(done) else None


def put_lake_back(lake: Lake, table: str, number: int) -> Effect | None:
    """The whole lake from an older copy, or a new lake: the usual recovery. The landing zone and the sink stay."""
    snapshot = None if number % 4 == 0 else _snapshot(lake, number)
    shutil.rmtree(lake.folder)
    if snapshot is not None:
        shutil.copytree(lake.older(snapshot), lake.folder)
    lake.put_back(snapshot)
    return WHOLE


WHOLE = Effect()
"""The effect of an act after which nothing of earlier acts is left."""
Do = Callable[[Lake, str, int], Effect | None]
ACTS: dict[str, Do] = {
    each.__name__: each
    for each in (
        append, update, merge, delete, restore, overwrite, recreate, rename_column, drop_feed, add_column,
        optimize, vacuum, set_properties, analyze, checkpoint_log, clean_log,
        lose_entries, lose_middle_entry, tear_entry, rewrite_entry, lose_side_files,
        put_table_back, remove_table, put_checkpoint_back, remove_checkpoint, put_sink_checkpoint_back,
        put_notes_back, put_ledger_back, put_folder_back, put_flow_back, put_lake_back,
    )
}  # fmt: skip


@dataclass
class Acts:
    """What acts together mean, as they are done one after the other."""

    may_refuse: set[str] = field(default_factory=set)
    tainted: bool = False
    names: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    """What was put back of the stateful flow: ``table``, ``note``, ``ledger``."""
    done: list[Act] = field(default_factory=list)

    def do(self, lake: Lake, act: Act) -> None:
        """Do an act, if it can be done."""
        from deltalake.exceptions import DeltaError

        events = list(lake.events)
        try:
            effect = act.do(lake)
        except (NoTableError, DeltaError, KeyError, ValueError) as error:
            # There is no table; or after an earlier act delta-rs does not write it, a column has another name, or an entry is torn.
            if isinstance(error, (KeyError, ValueError)) and not self.tainted:
                raise
            lake.events[:] = events
            return
        if effect is None:
            return
        self.done.append(act)
        if effect is WHOLE:
            self.may_refuse, self.tainted, self.names, self.lost = set(), False, set(), set()
        self.lost |= _lost(act)
        self.may_refuse |= effect.may_refuse
        self.tainted |= effect.taints
        if effect.names:
            self.names.add(effect.names)

    @property
    def unproven(self) -> set[str]:
        """Known and open: the stateful flow, if its table, its note *and* the ledger are older than its checkpoint.

        The offsets of a stateful flow do not say whether a batch had results, so its checkpoint does not prove that its table lacks some.
        """
        return {"firsts"} if self.lost >= {"table", "note", "ledger"} else set()


def _lost(act: Act) -> set[str]:
    if act.kind == "put_notes_back":
        return {"note"}
    if act.kind == "put_ledger_back":
        return {"ledger"}
    if act.kind == "put_folder_back":
        return ({"table"}, {"note"}, {"ledger"})[act.number % 3]
    if act.table != "gold.firsts":
        return {"ledger"} if act.kind == "put_flow_back" and act.number & 4 else set()
    if act.kind == "put_flow_back":
        return {"table"} | ({"note"} if act.number & 2 else set()) | ({"ledger"} if act.number & 4 else set())
    return {"table"}


# The rows of the tables.


class NoTableError(Exception):
    """There is no table to which an act could be done."""


def _open(path: Path) -> DeltaTable:
    from deltalake import DeltaTable

    if not _entries(path):
        raise NoTableError
    return DeltaTable(str(path))


def _chosen(lake: Lake, table: str, number: int) -> dict[str, Any] | None:
    path = lake.table(table)
    found = rows(path) if _entries(path) else []
    return found[number % len(found)] if found else None


def _record(table: str, row: dict[str, Any]) -> Record:
    return record_of(json.loads(row["line"]) if table == "bronze.acts" else row)


def _values(table: str, record: Record) -> dict[str, Any]:
    """The columns of a row with a record."""
    values = record._asdict()
    return {"line": json.dumps(values | {"at": record.at.isoformat()})} if table == "bronze.acts" else values


def _key(table: str) -> str:
    return {"silver.acts": "id", "gold.acts": "day"}.get(table, "_row_id")


def _condition(table: str, row: dict[str, Any]) -> str:
    key = _key(table)
    return f"{key} = {row[key]}" if isinstance(row[key], int) else f"{key} = '{row[key]}'"


def _changed(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """Other values for some columns of a row."""
    if table == "gold.firsts":
        return {"id": 1000 + next(_fresh)}
    if table == "bronze.acts":
        record = _record(table, row)
        return _values(table, record._replace(amount=record.amount + 1000))
    return {"amount": row["amount"] + 1000}


def _readers_of_appends(table: str) -> frozenset[str]:
    """The readers that take added rows only, and refuse changed ones."""
    return frozenset(flow for flow in READERS[table] if flow not in ("gold", "sink"))


def _add(table: str, record: Record) -> Event:
    if table == "bronze.acts":
        return lambda world: world.add_to_bronze([record])
    if table == "silver.rows":
        return lambda world: world.add_to_rows([record])
    return lambda world: world.silver.update({record.id: record})


def _set_group(day: int, group: tuple[int, int] | None) -> Event:
    def event(world: World) -> None:
        world.gold.pop(day, None)
        if group is not None:
            world.gold[day] = group

    return event


def _replace(table: str, before: dict[str, Any], after: dict[str, Any] | None) -> Event:
    """One row of a table is changed, or deleted."""
    if table == "gold.acts":
        return _set_group(before["day"], None if after is None else (after["orders"], after["amount"]))
    if table == "gold.firsts":
        return lambda world: _swap(world.firsts, before["id"], None if after is None else after["id"])
    old, new = _record(table, before), None if after is None else _record(table, after)
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


def _entries(path: Path) -> list[Path]:
    return sorted((path / "_delta_log").glob("*[0-9].json"))


def _make_checkpoint(path: Path) -> None:
    """Make a checkpoint as Spark does, which refuses to make one of a log with a gap or an empty entry; delta-rs does not."""
    versions = [int(entry.stem) for entry in _entries(path)]
    has_gap = versions != list(range(versions[-1] - len(versions) + 1, versions[-1] + 1)) if versions else True
    is_cleaned = any((path / "_delta_log").glob("*.checkpoint*.parquet"))
    if has_gap or not (versions[0] == 0 or is_cleaned) or not all(entry.stat().st_size for entry in _entries(path)):
        raise NoTableError
    _open(path).create_checkpoint()


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


def _write_entry(path: Path, version: int, actions: list[dict[str, Any]]) -> None:
    (path / "_delta_log" / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def _set_metadata(lake: Lake, table: str, operation: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Write an entry with changed metadata, as Spark does for ALTER TABLE."""
    path = lake.table(table)
    opened = _open(path)
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
        {"commitInfo": {"timestamp": _now_ms(), "operation": operation, "operationParameters": {}}},
        {"metaData": values},
    ]
    if "delta.columnMapping.mode" in values["configuration"]:
        features = ["changeDataFeed", "invariants", "appendOnly", "columnMapping"]
        actions.append({"protocol": {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": features}})
    _write_entry(path, opened.version() + 1, actions)


# Older copies.


def _snapshot(lake: Lake, number: int) -> int | None:
    return number % lake.base if lake.base else None


def _older(lake: Lake, path: Path, number: int) -> Path | None:
    snapshot = _snapshot(lake, number)
    return None if snapshot is None else lake.older(snapshot) / path.relative_to(lake.folder)


def _put_back(lake: Lake, path: Path, number: int) -> bool:
    older = _older(lake, path, number)
    if older is None or not older.exists():
        return False
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if older.is_dir():
        shutil.copytree(older, path)
    else:
        shutil.copy2(older, path)
    return True
