"""The history that plain Python makes of snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Record = tuple[int | None, int | str, int]
"""A key, or None for a record whose key cannot be read; an amount, where a text goes to quarantine; an untracked number."""
Version = tuple[int, int, int | None, int, int]
"""Key, first day, day of the end, amount, untracked number."""


def folded(snapshots: Mapping[int, Sequence[Record]]) -> list[Version]:
    """What plain Python makes of all snapshots at once."""
    versions: list[Version] = []
    present: dict[int, Version] = {}

    def end(key: int, day: int) -> None:
        first, _, amount, at = present.pop(key)[1:]
        versions.append((key, first, day, amount, at))

    for day in sorted(snapshots):
        rows = {key: (amount, at) for key, amount, at in snapshots[day] if key is not None and isinstance(amount, int)}
        refused = {key for key, amount, _ in snapshots[day] if isinstance(amount, str)} - rows.keys()
        if any(key is None for key, *_ in snapshots[day]):
            refused |= present.keys()
        for key in present.keys() - rows.keys() - refused:
            end(key, day)
        for key, (amount, at) in rows.items():
            if key in present and present[key][3] != amount:
                end(key, day)
            present.setdefault(key, (key, day, None, amount, at))
    return sorted([*versions, *present.values()], key=lambda each: each[:2])
