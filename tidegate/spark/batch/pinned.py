"""`Pinned`: the versions that a verification compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.lake.place import Place


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """The versions of a table and of its sources that belong together."""

    version: int
    """Of the flow's table."""
    batches: Mapping[Place, int]
    """The last batch that had been read when the table had this version, by checkpoint of the flow."""
    source_versions: Mapping[str, int]
    """Of each source table: what the last batch had read, the first source first; none for a landing flow."""
    entries_version: int | None
    """Of the quarantine; None where there is none."""
    planned_at_ms: int
    """When the verification began, in milliseconds since 1970."""

    @property
    def source_version(self) -> int:
        """The version of the first source table."""
        return next(iter(self.source_versions.values()))
