"""Tables whose timestamps have Parquet's old type INT96, as Spark writes them by default. Without a JVM."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as pq
from deltalake import write_deltalake

from tidegate.probes import delta_log
from tidegate.store import Address

INSTANTS = tuple(
    datetime.fromisoformat(text).replace(tzinfo=UTC)
    for text in (
        "0001-01-01T00:00:00",
        "1582-10-04T23:59:59.999999",
        "1582-10-10T00:00:00",
        "1677-09-21T00:12:43.145224",
        "1677-09-21T00:12:43.145225",
        "1969-12-31T23:59:59.999999",
        "2026-03-29T01:30:00.000001",
        "2262-04-11T23:47:16.854775",
        "2262-04-11T23:47:16.854776",
        "9999-12-31T23:59:59.999999",
    )
)
"""Instants on both sides of every change of calendar, type and sign, in order."""


def append(path: Address, columns: dict[str, Any], *, old: bool, **options: Any) -> None:
    """Append rows in one commit.

    Args:
        old: Whether its timestamps are INT96; else they have microseconds, as delta-rs and Tidegate's sessions write them.
        options: Of `write_deltalake`.
    """
    before = set(Path(path).glob("*.parquet"))
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(path), pyarrow.table(columns), mode="append", configuration=feed, **options)
    if not old:
        return
    [file] = set(Path(path).glob("*.parquet")) - before
    rows = pq.read_table(file, partitioning=None)
    # As from Spark: without the schema of Arrow, which tells readers the precision.
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True, store_schema=False)
    assert "INT96" in [column.physical_type for column in map(pq.ParquetFile(file).schema.column, range(len(columns)))]
    entry = delta_log.entry(path, max(delta_log.versions(path)))
    actions = [json.loads(line) for line in entry.read().data.decode().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["size"] = file.stat().st_size
    entry.put(("".join(f"{json.dumps(action)}\n" for action in actions)).encode())
