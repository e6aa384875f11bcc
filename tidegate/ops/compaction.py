"""Compacts Tidegate's own small Delta tables, to which lines are only appended. Starts no JVM.

A compaction of delta-rs is committed again behind whatever came in between, also behind another compaction, whose removed files are no
conflict because no row changes (https://github.com/delta-io/delta-rs/pull/3982): then each line is there twice. So here a
compaction commits the version behind the one that it read, or nothing. This needs no lock, which a bucket does not have.
"""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.probes import delta_table
from tidegate.probes.linked_table import LinkedFile, linked

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from tidegate.store import Address

_SMALL_BYTES = 16 * 1024 * 1024
"""Larger files are not compacted again."""
_SETTINGS = {
    # The lines of a commit keep their order.
    "datafusion.execution.target_partitions": "1",
    # Otherwise the file says in which of its forms Arrow had a text, and readers give it another type than the same texts of other files.
    "datafusion.execution.parquet.skip_arrow_metadata": "true",
}


def compact(address: Address, keep_days: int, table: DeltaTable | None = None) -> None:
    """Replace the small files of a table by one, and delete files that were replaced long ago.

    Args:
        keep_days: How long replaced files stay.
        table: Its newest version, if the caller has opened it.

    Raises:
        DeltaError: Another commit came in between. Nothing has changed: a file that was written meanwhile is deleted like a replaced one.
        OSError: As for the operations of a store.
        TableUnreadableError: The log of the table is damaged.
    """
    from deltalake import CommitProperties
    from deltalake.transaction import AddAction

    table = delta_table.open_table(address) if table is None else table
    small = [(path, size) for path, size in _files(table) if size < _SMALL_BYTES]
    if len(small) > 1:
        content, rows = _parquet(address, [path for path, _ in small], table)
        name, at_ms = f"compacted-{secrets.token_hex(16)}.parquet", int(time.time() * 1000)
        (address / name).put(content)
        stats = json.dumps({"numRecords": rows})
        added = AddAction(name, len(content), {}, at_ms, data_change=False, stats=stats)
        with delta_table.writing(address):
            table.create_write_transaction(
                [added, *(_removed(path, size, at_ms) for path, size in small)],
                mode="append",
                schema=table.schema(),
                # It is not tried again behind another commit.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
            table.update_incremental()
            table.create_checkpoint()
    with delta_table.writing(address):
        table.vacuum(retention_hours=keep_days * 24, dry_run=False)


def _files(table: DeltaTable) -> list[tuple[str, int]]:
    actions = table.get_add_actions(flatten=True)
    return list(zip(actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist(), strict=True))


def _removed(path: str, size: int, at_ms: int) -> Any:
    from deltalake.transaction import RemoveAction

    return RemoveAction(path=path, data_change=False, deletion_timestamp=at_ms, partition_values={}, size=size)


def _parquet(address: Address, paths: list[str], table: DeltaTable) -> tuple[bytes, int]:
    """One file with the rows of several and the columns of the table, of which older files lack some; and the number of its rows."""
    with TemporaryDirectory(prefix="tidegate-compaction-") as folder:
        files = [LinkedFile(name=f"{n}.parquet", content=Path(folder, f"{n}.parquet")) for n in range(len(paths))]
        for path, file in zip(paths, files, strict=True):
            file.content.write_bytes((address / unquote(path)).read().data)
        made = Path(folder, "made.parquet")
        with linked(json.loads(table.schema().to_json())["fields"], (), files) as copy:
            builder = delta_table.query_builder(_SETTINGS).register("small", copy)
            sql = f"COPY (SELECT * FROM small) TO '{made}' STORED AS PARQUET"
            [rows] = builder.execute(sql).read_all().column("count").to_pylist()
        return made.read_bytes(), rows
