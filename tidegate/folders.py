"""Lists folders. One that cannot be read is never an empty one, as it is for `Path.glob`, which leaves out what it may not read."""

from __future__ import annotations

import fnmatch
from pathlib import Path


def entries(folder: Path, pattern: str = "*") -> list[Path]:
    """What a folder has, sorted by name; nothing if it does not exist.

    Args:
        folder: The folder.
        pattern: For the names, with ``*``, ``?`` and ``[]``.

    Raises:
        OSError: It cannot be read.
    """
    try:
        return sorted(entry for entry in folder.iterdir() if fnmatch.fnmatchcase(entry.name, pattern))
    except FileNotFoundError:
        return []
