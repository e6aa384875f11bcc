"""Acts of failing disks, of backups, and of people with a shell."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.acts.effects import HARMLESS, WHOLE, WRITERS, Effect, damaged
from tests.acts.lake import Lake
from tests.acts.project import FLOWS
from tests.acts.tables import entries, now_ms


def lose_entries(lake: Lake, table: str, number: int) -> Effect | None:
    """The last listed of a log are gone, with or without the files beside them."""
    path = lake.table(table)
    listed = entries(path)
    lost = listed[-(1 + number % 2) :]
    if not lost:
        return None
    for entry in lost:
        for file in path.glob(f"_delta_log/{entry.stem}.*"):
            if file == entry or number % 4 < 2:
                file.unlink()
    return damaged(table)


def lose_middle_entry(lake: Lake, table: str, number: int) -> Effect | None:
    """An entry below the newest one is gone."""
    listed = entries(lake.table(table))
    if len(listed) < 2:
        return None
    listed[:-1][number % (len(listed) - 1)].unlink()
    return damaged(table)


def tear_entry(lake: Lake, table: str, number: int) -> Effect | None:
    """One of the last listed is empty, or ends in the middle."""
    listed = entries(lake.table(table))
    if not listed:
        return None
    torn = listed[-1 - number // 3 % len(listed)]
    content = torn.read_bytes()
    torn.write_bytes((b"", content[: len(content) // 2], content[: len(content) - 10])[number % 3])
    return damaged(table)


def rewrite_entry(lake: Lake, table: str, number: int) -> Effect | None:
    """An entry is another one than it was: of the same actions, at another time."""
    listed = entries(lake.table(table))
    if not listed:
        return None
    entry = listed[-1 - number % len(listed)]
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"] |= {"timestamp": now_ms() + number}
    entry.write_text("\n".join(map(json.dumps, lines)))
    return damaged(table)


def lose_side_files(lake: Lake, table: str, number: int) -> Effect | None:
    """Checksums, checkpoints of the log or ``_last_checkpoint`` are gone or torn.

    delta-rs cannot open a table whose ``_last_checkpoint`` names a checkpoint that is gone or torn; Spark can, with all entries.
    """
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
    listed = entries(path)
    has_all_entries = listed and int(listed[0].stem) == 0
    return HARMLESS if has_all_entries and not pattern.endswith(".parquet") else damaged(table)


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
    if lake.folder.exists():
        shutil.rmtree(lake.folder)
    if snapshot is not None:
        shutil.copytree(lake.older(snapshot), lake.folder)
    lake.put_back(snapshot)
    return WHOLE


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
