"""The declaration of the full snapshots of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.errors import FieldError
from tidegate.sources.tables import ChangeFeed


@dataclass(frozen=True)
class SnapshotFeed(ChangeFeed):
    """The full snapshots of a table, each an interval of the files that a landing flow reads into this bronze table.

    The newest complete snapshot is compared with the target: rows that it does not have are deleted, and of the others those are
    written that differ. The landing flow belongs to the same pipeline and declares ``intervals`` with ``marker``, ``manifest`` or
    ``files``.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds = (self.max_files_per_trigger, self.max_bytes_per_trigger)
        if bounds != (ChangeFeed.max_files_per_trigger, ChangeFeed.max_bytes_per_trigger):
            raise FieldError("SnapshotFeed", "max_files_per_trigger", bounds, "none: a snapshot is compared as a whole")

    def identity(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores."""
        return {"kind": "snapshots", "table": self.table}

    def summary(self) -> str:
        """For pages."""
        return f"snapshots of {self.table}"

    def describe(self) -> str:
        """For the documentation of DAGs, as Markdown."""
        return f"the newest complete snapshot of `{self.table}`"
