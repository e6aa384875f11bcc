"""A temporary Delta table of files of another one, which it reaches by symbolic links, so that delta-rs reads just these. Starts no JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate.probes import delta_log, delta_table
from tidegate.store import Address

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True, kw_only=True)
class LinkedFile:
    """A file of the temporary table."""

    name: str
    """Unique in the table."""
    content: Path
    values: Mapping[str, str | None] = field(default_factory=dict)
    """Of the partition columns, which are those that the file does not have itself."""


@contextmanager
def linked(
    fields: Sequence[Mapping[str, Any]],
    partition_columns: Sequence[str],
    files: Sequence[LinkedFile],
    configuration: Mapping[str, str] | None = None,
) -> Iterator[DeltaTable]:
    """Make the table, and delete it afterwards.

    Args:
        fields: Of its schema, as the log of a Delta table has them. A column that a file lacks is NULL.
        partition_columns: Those of the fields that are partition columns.
        configuration: Of the table.

    Raises:
        FileNotFoundError: A file does not exist.
    """
    table = {
        "id": "linked",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": list(fields)}),
        "partitionColumns": list(partition_columns),
        "configuration": dict(configuration or {}),
    }
    # Versions with which a table may have mapped columns.
    actions: list[dict[str, Any]] = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": table}]
    with TemporaryDirectory(prefix="tidegate-links-") as folder:
        for file in files:
            link = Path(folder, file.name)
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(file.content.absolute())
            added = {
                "path": quote(file.name),
                "partitionValues": dict(file.values),
                "size": file.content.stat().st_size,
            }
            actions.append({"add": {**added, "modificationTime": 0, "dataChange": True}})
        links = Address.local(Path(folder))
        delta_log.entry(links, 0).put("".join(f"{json.dumps(action)}\n" for action in actions).encode())
        yield delta_table.open_table(links)
