"""Numbers that name files and folders."""

from __future__ import annotations

from tidegate.store import Address


def numbers(folder: Address, suffix: str = "") -> list[int]:
    """The numbers that name what a folder has, with a suffix, ascending; none if it does not exist. Raises as `Address.list`."""
    names = (entry.name.removesuffix(suffix) for entry in folder.list() if entry.name.endswith(suffix))
    return sorted(int(name) for name in names if name.isdigit())
