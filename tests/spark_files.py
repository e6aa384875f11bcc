"""Writes checkpoints and Delta logs in the formats of Spark and Delta, for tests without a JVM.

The formats were copied from files of Spark 4.2 and Delta 4.4; tests marked ``jvm`` check the readers with real files.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import places
from tests.resolved import resolved_flow
from tidegate import json_codec
from tidegate.checkpoints import history
from tidegate.checkpoints.refusal import REFUSAL
from tidegate.lake.place import Place
from tidegate.ops import evolution
from tidegate.store import Address

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout
    from tidegate.spec import Pipeline

TABLE_ID = "2d387700-574d-43c5-aba8-d8192076f9c3"


class Checkpoint:
    """A checkpoint folder that a test fills batch by batch."""

    def __init__(self, folder: Address | Path) -> None:
        self.address = folder if isinstance(folder, Address) else address_of(folder)
        for part in ("offsets", "commits"):
            (self.address / part).make_folder()
        (self.address / "metadata").put(b'{"id":"164d8d61-967a-47c7-a6e9-87cd0a2c4a4b"}')

    @property
    def path(self) -> Path:
        """The folder, if it is local."""
        return Path(self.address)

    def plan(self, batch_id: int, *offsets: dict[str, Any] | None) -> None:
        """``offsets/N``, with a line for each source; None for one without an offset."""
        lines = ["-" if offset is None else json.dumps(offset) for offset in offsets]
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1795256131973 + batch_id, "conf": {}}
        leave_note(self.address, batch_id)
        (self.address / "offsets" / str(batch_id)).put("\n".join(["v1", json.dumps(metadata), *lines]).encode())

    def commit(self, batch_id: int) -> None:
        """``commits/N``."""
        (self.address / "commits" / str(batch_id)).put(b'v1\n{"nextBatchWatermarkMs":0}')

    def run(self, batch_id: int, *offsets: dict[str, Any] | None) -> None:
        """A batch that was planned and committed."""
        self.plan(batch_id, *offsets)
        self.commit(batch_id)

    def list_files(self, batch_id: int, files: dict[str, int]) -> None:
        """``sources/0/N``: local path to modification time in milliseconds."""
        self._log(str(batch_id), [_entry(path, modified, batch_id) for path, modified in files.items()])

    def compact(self, batch_id: int, batches: dict[int, dict[str, int]]) -> None:
        """``sources/0/N.compact``: all batches up to N."""
        entries = [_entry(path, ms, number) for number, files in batches.items() for path, ms in files.items()]
        self._log(f"{batch_id}.compact", entries)

    def _log(self, name: str, entries: list[str]) -> None:
        (self.address / "sources" / "0" / name).put("\n".join(["v1", *entries]).encode("utf-8", "surrogateescape"))


def address_of(checkpoint: Path) -> Address:
    """A checkpoint folder in the folder of its flow, where the notes about it are."""
    return Address.local(checkpoint.parents[1]) / checkpoint.parent.name / checkpoint.name


def leave_note(checkpoint: Address, batch_id: int) -> None:
    """The note of a run that began a batch of a checkpoint folder, and knows no table: the test need not write what the batch did."""
    note = history.History(batch=batch_id)
    version = checkpoint.parent
    json_codec.write(version.parent / f"{version.name}-{checkpoint.name}.history.json", note)


def write_refused_schema_change(
    layout: Layout, pipeline: Pipeline, flow: str, schema_change_id: str, *, batch_id: int = 0
) -> None:
    """Write a pending batch and the record of the frozen contract that refused it, as the job does."""
    declared_flow = pipeline.flow(flow)
    place = places.current(layout, pipeline, declared_flow)
    Checkpoint(place.checkpoint).plan(batch_id, delta_offset(1))
    source = resolved_flow(declared_flow, pipeline).landing
    assert source is not None
    refusal = {
        "batch_id": batch_id,
        "schema_change_id": schema_change_id,
        "declared": evolution.declared_fingerprint(source),
    }
    Path(REFUSAL.path(Place(layout, pipeline.name, flow, place.version, place.refresh))).write_text(json.dumps(refusal))


def delta_offset(version: int, index: int = -1, *, snapshot: bool = False, table_id: str = TABLE_ID) -> dict[str, Any]:
    """The position of a change feed."""
    return {
        "sourceVersion": 1,
        "reservoirId": table_id,
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": snapshot,
    }


class DeltaLog:
    """Writes the log of a Delta table, whose data files are empty."""

    def __init__(self, path: Address, table_id: str = TABLE_ID) -> None:
        self.path = path
        self.next = 0
        (path / "_delta_log").make_folder()
        field = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
        self.metadata = {
            "metaData": {
                "id": table_id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": [field]}),
                "partitionColumns": [],
                "configuration": {"delta.enableChangeDataFeed": "true"},
                "createdTime": 1795256525089,
            }
        }
        self.protocol = {
            "protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["changeDataFeed"]}
        }

    def commit(self, *actions: dict[str, Any], operation: str = "WRITE", metrics: dict[str, int] | None = None) -> int:
        """Write the next version and return its number; its data files are created empty."""
        for action in actions:
            for kind in ("add", "remove", "cdc"):
                if kind in action:
                    (self.path / action[kind]["path"]).put(b"")
        operation_metrics = {name: str(value) for name, value in (metrics or {}).items()}
        info = {
            "commitInfo": {"timestamp": 1795256525089, "operation": operation, "operationMetrics": operation_metrics}
        }
        first = [self.metadata, self.protocol] if self.next == 0 else []
        lines = [json.dumps(action) for action in (info, *first, *actions)]
        (self.path / "_delta_log" / f"{self.next:020d}.json").put(("\n".join(lines) + "\n").encode())
        self.next += 1
        return self.next - 1


def add(name: str, rows: int, size: int = 100, *, data_change: bool = True, hidden: int = 0) -> dict[str, Any]:
    """The action for an added file, ``hidden`` rows of which are deleted by a deletion vector."""
    action: dict[str, Any] = {
        "path": name,
        "partitionValues": {},
        "size": size,
        "modificationTime": 1795256525089,
        "dataChange": data_change,
        "stats": json.dumps({"numRecords": rows}),
    }
    if hidden:
        action["deletionVector"] = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": hidden}
    return {"add": action}


def remove(name: str, rows: int | None, size: int = 100, *, data_change: bool = True) -> dict[str, Any]:
    """The action for a removed file; an UPDATE writes no number of rows."""
    action = {"path": name, "deletionTimestamp": 1795256525089, "dataChange": data_change, "size": size}
    return {"remove": action if rows is None else {**action, "stats": json.dumps({"numRecords": rows})}}


def change(size: int = 50) -> dict[str, Any]:
    """The action for a change data file."""
    return {"cdc": {"path": "_change_data/cdc-0.parquet", "partitionValues": {}, "size": size, "dataChange": False}}


def txn(app_id: str, version: int) -> dict[str, Any]:
    """The transaction action of a batch."""
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": 1795256525089}}


def encoded(path: str) -> str:
    """A local path, or an address in a bucket, as a URI of Java's ``Path.toUri``, which quotes only what is not allowed in a URI."""
    scheme = "" if path.startswith("s3://") else "file://"
    return scheme + re.sub(r"""[\x00-\x20"#%<>?\[\\\]^`{|}\x7f]""", lambda match: f"%{ord(match[0]):02X}", path)


def _entry(path: str, modified_ms: int, batch_id: int) -> str:
    entry = {"path": encoded(path), "timestamp": modified_ms, "batchId": batch_id}
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
