"""Formats numbers, sizes, ages and durations for people."""

from __future__ import annotations

import time
from datetime import timedelta

_UNITS = ("kB", "MB", "GB", "TB", "PB")


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 file``, ``1,204 files``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: int) -> str:
    """Bytes in powers of 1000: ``512 B``, ``12.3 MB``."""
    if number < 1000:
        return f"{number} B"
    value = float(number)
    for unit in _UNITS:
        value /= 1000
        if value < 999.95 or unit == _UNITS[-1]:
            return f"{value:.1f} {unit}"
    raise AssertionError("unreachable: the last unit has no upper limit")


def approximate(number: str, exact: bool) -> str:
    """A formatted number, with a ``~`` before it if it is an estimate."""
    return number if exact else f"~{number}"


def age(milliseconds: int) -> str:
    """How long ago an instant was, in its largest unit: ``3 min ago``.

    Args:
        milliseconds: The instant, in milliseconds since 1970.
    """
    seconds = max(int(time.time() - milliseconds / 1000), 0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def request_label(mode: str | None, by: str | None) -> str:
    """The mode of a request and who made it, as ``full refresh by ada``; empty for an ordinary increment.

    Args:
        by: The ledger's column ``requested_by``; may be None or empty.
    """
    if mode is None or mode == "incremental":
        return ""
    label = mode.replace("_", " ")
    return f"{label} by {by}" if by else label


def span(length: timedelta) -> str:
    """A duration in its two largest units: ``3 d 4 h``."""
    seconds = max(int(length.total_seconds()), 0)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])
