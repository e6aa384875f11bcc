"""The content of a lake without times, ids and sizes, so that lakes after the same runs can be compared."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable

from tidegate.checkpoints.lease import holder
from tidegate.lake.layout import Layout
from tidegate.store import Address

IDS = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # ids of files and queries
    r"|\b[0-9a-f]{64}\b"  # hashes of log entries, which contain times and ids
    r"|[a-z]+\d{8}T\d{6}-[0-9a-f]{8}(-[0-9a-f]{8})?"  # ids of requests, runs and attempts
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"
    r"|\b\d{13}\b"  # milliseconds since 1970
    r"|\b\d+\.\d+\b"  # durations in seconds
    r"|part-\d{5}"
)
DATA_BEFORE = 2020
"""All times in the sample data are before this year; later ones were recorded during the test."""


def without_ids(text: str) -> str:
    return IDS.sub("<id>", text)


def content_of(layout: Layout) -> dict[str, Any]:
    """Names of files, rows and commits of tables, content of checkpoint files, and holders of leases."""
    files = sorted(path for path in Path(layout.root).rglob("*") if path.is_file())
    tables = sorted(path.parent for path in Path(layout.root).rglob("_delta_log"))
    locks = [path for path in files if path.suffix == ".lock"]
    owners = [path for path in files if path.name.endswith(".owner.json")]
    return {
        "names": sorted({without_ids(str(path.relative_to(Path(layout.root)))) for path in files}),
        **{f"rows of {table}": rows(table) for table in tables},
        **{f"commits of {table}": commits(table) for table in tables},
        **{str(path): lines(path) for path in files if is_text_of_checkpoint(layout, path)},
        "leases": {path.stem: holder(layout, unquote(path.stem)) for path in locks},
        "owners": {path.stem: without_ids(json.loads(path.read_text())["what"]) for path in owners},
        "reports": sorted(states(path) for path in files if path.name == "report.json"),
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The entries that differ, with the values of both lakes."""
    return {name: (one.get(name), other.get(name)) for name in one | other if one.get(name) != other.get(name)}


def is_text_of_checkpoint(layout: Layout, path: Path) -> bool:
    return path.is_relative_to(Path(layout.root) / "checkpoints") and path.suffix != ".crc"


def lines(path: Path) -> list[str]:
    """The sorted lines of a text file; checkpoints list files in no fixed order."""
    return sorted(without_ids(path.read_text()).splitlines())


def rows(table: Path | Address) -> list[str]:
    """The rows of a table, read with delta-rs."""
    records = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted(without_ids(repr({name: plain(value) for name, value in row.items()})) for row in records)


def plain(value: Any) -> Any:
    return "<now>" if isinstance(value, datetime) and value.year >= DATA_BEFORE else value


def commits(table: Path) -> list[Any]:
    """Operation, user metadata, transaction and number of added rows of each commit.

    The number of files is left out, because it depends on the scheduling of threads.
    """
    return [summary(actions) for actions in entries_of_log(table)]


def summary(actions: list[dict[str, Any]]) -> dict[str, Any]:
    commit: dict[str, Any] = {"kinds": sorted({kind for action in actions for kind in action}), "rows": Counter()}
    for (kind, action), *_ in (list(entry.items()) for entry in actions):
        if kind == "commitInfo":
            commit["operation"] = action["operation"], without_ids(str(action.get("userMetadata")))
        elif kind == "txn":
            commit["transaction"] = action["appId"], action["version"]
        elif kind == "add":
            commit["rows"][action["dataChange"]] += json.loads(action["stats"])["numRecords"]
    return commit


def entries_of_log(table: Path) -> list[list[dict[str, Any]]]:
    logs = sorted((table / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in logs]


def states(report: Path) -> str:
    """State and number of batches of each flow, and whether the report has no end time."""
    run = json.loads(report.read_text())
    return f"{[(flow['flow'], flow['state'], len(flow['batches'])) for flow in run['flows']]} {run['ended_at'] is None}"
