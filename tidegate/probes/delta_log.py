"""The files of a Delta table's log: commits and checksum files. Read without a JVM; `tidegate.probes.delta` interprets them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_VERSION = re.compile(r"(\d{20})\.(?:json|checkpoint(?:\.[0-9a-f.-]+)?\.(?:parquet|json))")


def entry(path: Path, version: int) -> Path:
    """The file of a commit."""
    return path / "_delta_log" / f"{version:020d}.json"


def versions(path: Path) -> list[int]:
    """The versions of which the log has a commit or a checkpoint, in no order; none without a table."""
    try:
        names = [each.name for each in (path / "_delta_log").iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [int(match[1]) for name in names if (match := _VERSION.fullmatch(name))]


def oldest_version(path: Path) -> int:
    """The oldest version whose snapshot can be reconstructed; Delta needs it to read changes from there on."""
    names = [each.name for each in (path / "_delta_log").iterdir()]
    commits = {
        int(name[:20]) for name in names if _VERSION.fullmatch(name) and name.endswith(".json") and len(name) == 25
    }
    checkpoints = {int(name[:20]) for name in names if _VERSION.fullmatch(name) and ".checkpoint" in name}
    oldest = max(commits, default=0)
    while oldest - 1 in commits:
        oldest -= 1
    return oldest if oldest == 0 else min((version for version in checkpoints if version >= oldest), default=oldest)


def actions(path: Path, version: int) -> list[tuple[str, dict[str, Any]]] | None:
    """Kind and content of the actions of a commit; None if the log does not have it."""
    try:
        lines = entry(path, version).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    return [next(iter(json.loads(line).items())) for line in lines if line.strip()]


def commit_info(path: Path, version: int) -> dict[str, Any] | None:
    """The action ``commitInfo`` of a commit, empty if it has none; None if the log does not have the commit."""
    try:
        with entry(path, version).open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith('{"commitInfo"'):
                    info: dict[str, Any] = json.loads(line)["commitInfo"]
                    return info
    except FileNotFoundError:
        return None
    return {}


def transactions(path: Path, version: int) -> dict[str, int] | None:
    """The last ``txnVersion`` of every ``txnAppId``, from the checksum file of a version (Delta protocol, "Version Checksum File").

    None if the file does not have them, cannot be read, or does not exist, as after a commit of delta-rs.
    """
    try:
        checksum = json.loads((path / "_delta_log" / f"{version:020d}.crc").read_bytes())
    except (OSError, ValueError):
        return None
    listed = checksum.get("setTransactions")
    return None if listed is None else {str(each["appId"]): int(each["version"]) for each in listed}
