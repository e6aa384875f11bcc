"""Lists folders. One that cannot be read is never an empty one, as it is for `Path.glob`, which leaves out what it may not read."""

from __future__ import annotations

import fnmatch
from pathlib import Path

from tidegate.store import Address


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


def numbers(folder: Address, suffix: str = "") -> list[int]:
    """The numbers that name what a folder has, with a suffix, ascending; none if it does not exist. Raises as `Address.list`."""
    names = (entry.name.removesuffix(suffix) for entry in folder.list() if entry.name.endswith(suffix))
    return sorted(int(name) for name in names if name.isdigit())
