"""Everything that lies in a lake, in a form in which two lakes of one history are equal: without times, ids and sizes."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tidegate.checkpoints.lease import holder
from tidegate.layout import Layout

IDS = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # of files and queries
    r"|[a-z]+\d{8}T\d{6}-[0-9a-f]{8}(-[0-9a-f]{8})?"  # of requests, runs and attempts
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"
    r"|\b\d{13}\b"  # milliseconds since 1970
    r"|\b\d+\.\d+\b"  # seconds that something took
)
DATA_BEFORE = 2020
"""Instants of the sample are older; what is newer was noted while the test ran."""


def without_ids(text: str) -> str:
    return IDS.sub("<id>", text)


def everything_in(layout: Layout) -> dict[str, Any]:
    """All names of files; of tables their rows and commits, of checkpoints and notes their content; who holds what."""
    files = sorted(path for path in layout.lake.rglob("*") if path.is_file())
    tables = sorted(path.parent for path in layout.lake.rglob("_delta_log"))
    return {
        "names": Counter(without_ids(str(path.relative_to(layout.lake))) for path in files),
        "rows": {str(table.relative_to(layout.lake)): rows(table) for table in tables},
        "commits": {str(table.relative_to(layout.lake)): commits(table) for table in tables},
        "checkpoints": {
            str(path): without_ids(path.read_text()) for path in files if is_text_of_checkpoint(layout, path)
        },
        "leases": [(path.stem, holder(layout, resource_of(path))) for path in files if path.suffix == ".lock"],
        "owners": [json.loads(path.read_text())["what"][:8] for path in files if path.name.endswith(".owner.json")],
        "reports": sorted(states(path) for path in files if path.name == "report.json"),
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What of two lakes differs, each side's."""
    return {name: (one.get(name), other.get(name)) for name in one | other if one.get(name) != other.get(name)}


def is_text_of_checkpoint(layout: Layout, path: Path) -> bool:
    return path.is_relative_to(layout.lake / "checkpoints") and path.suffix != ".crc"


def resource_of(lock: Path) -> str:
    from urllib.parse import unquote

    return unquote(lock.stem)


def rows(table: Path) -> list[str]:
    """The rows of a table as delta-rs reads them."""
    found = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted(without_ids(repr({name: plain(value) for name, value in row.items()})) for row in found)


def plain(value: Any) -> Any:
    return "<now>" if isinstance(value, datetime) and value.year >= DATA_BEFORE else value


def commits(table: Path) -> list[list[str]]:
    """What each commit did: operation, transaction ids, what it says of itself, and how many files and rows it added."""
    return [
        sorted(action for line in path.read_text().splitlines() for action in told_by(json.loads(line)))
        for path in sorted((table / "_delta_log").glob("*.json"))
    ]


def told_by(entry: dict[str, Any]) -> list[str]:
    ((kind, action),) = entry.items()
    if kind == "commitInfo":
        told = {
            name: action.get(name) for name in ("operation", "operationParameters", "userMetadata", "isBlindAppend")
        }
    elif kind == "txn":
        told = {"appId": action["appId"], "version": action["version"]}
    elif kind in ("add", "remove", "cdc"):
        stats = json.loads(action.get("stats") or "{}")
        told = {"rows": stats.get("numRecords"), "dataChange": action.get("dataChange")}
    else:
        told = {}
    return [without_ids(f"{kind} {told}")]


def states(report: Path) -> str:
    told = json.loads(report.read_text())
    return (
        f"{[(flow['flow'], flow['state'], len(flow['batches'])) for flow in told['flows']]} {told['ended_at'] is None}"
    )
