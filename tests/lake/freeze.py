"""Packs a project with its lake, as a version of Tidegate left them, for `test_frozen_lakes.py`.

``python -m tests.lake.freeze PROJECT NAME`` writes ``tests/lake/frozen/<NAME>.tar.xz``, once for each format of the lake: the project
that the tutorial leaves, by the commands of that version. An archive is never made again: its bytes are those of its version.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

FROZEN = Path(__file__).parent / "frozen"
_LEFT_OUT = ("leases", ".locks", "driver.log", "__pycache__")
"""Of one machine: its name, and paths of its programs."""


def pack(project: Path, name: str) -> Path:
    """Write the archive."""
    FROZEN.mkdir(exist_ok=True)
    archive = FROZEN / f"{name}.tar.xz"
    with tarfile.open(archive, "w:xz") as packed:
        for path in sorted(project.rglob("*")):
            if path.is_file() and not any(part in _LEFT_OUT for part in path.parts):
                packed.add(path, path.relative_to(project), filter=_without_owner)
    return archive


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    print(pack(Path(sys.argv[1]), sys.argv[2]))
