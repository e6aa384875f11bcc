"""The declaration of the full snapshots of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import FieldError
from tidegate.sources.tables import ChangeFeed
from tidegate.spec.checks import fits

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class SnapshotFeed(ChangeFeed):
    """The full snapshots of a table, each an interval of the files that a landing flow reads into this bronze table.

    The newest complete snapshot is compared with the target: rows that it does not have are deleted, and of the others those are
    written that differ. The landing flow belongs to the same pipeline and declares ``intervals`` with ``marker``, ``manifest`` or
    ``files``. Into a table with ``history``, each snapshot is compared with the one before it.
    """

    valid_from: str | None = field(default=None, kw_only=True)
    """Of a history: the column (a date or a timestamp) with the time from which a row is valid. None for the time of the first snapshot
    that has it; that time counts too where the column cannot be right: it is NULL, not after the record before, or after the interval
    of the snapshot."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.valid_from is not None and not fits(_COLUMN, self.valid_from):
            raise FieldError("SnapshotFeed", "valid_from", self.valid_from, "one column's name")
        bounds = (self.max_files_per_trigger, self.max_bytes_per_trigger)
        if bounds != (ChangeFeed.max_files_per_trigger, ChangeFeed.max_bytes_per_trigger):
            raise FieldError("SnapshotFeed", "max_files_per_trigger", bounds, "none: a snapshot is compared as a whole")

    def identity(self) -> dict[str, Any]:
        """The fields that the checkpoint's sidecar stores."""
        begins = {} if self.valid_from is None else {"valid_from": self.valid_from}
        return {"kind": "snapshots", "table": self.table, **begins}

    def summary(self) -> str:
        """For pages."""
        return f"snapshots of {self.table}"

    def describe(self) -> str:
        """For the documentation of DAGs, as Markdown."""
        return f"complete snapshots of `{self.table}`"
