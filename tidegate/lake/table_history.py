"""The history of a Delta table: positions that name commits, and what someone else's commit means for those who stand on the table.

A version number says nothing about the history before it: after a lost entry of the log, an older copy or a RESTORE, the same number
is another commit. So a position has the hash of the bytes of its entry. Pure; `tidegate.probes.delta_history` reads logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tidegate.times import dates

STANDS_ON = "stands_on"
"""The key of the positions that a batch stands on in the ``userMetadata`` of its commits."""

Meaning = Literal["own", "harmless", "append", "change", "break"]
"""``own``: of the flow that writes the table. ``harmless``: no row changes. ``append``: rows were added. ``change``: rows were changed
or deleted, one by one, as the change feed says. ``break``: a version, or all rows, or the columns were replaced."""

_CHANGES = ("DELETE", "UPDATE", "MERGE")
_APPENDS = ("WRITE", "STREAMING UPDATE", "COPY INTO")


@dataclass(frozen=True, kw_only=True)
class Position:
    """A commit of a table."""

    version: int
    digest: str
    """SHA-256 of the bytes of its log entry; empty if the log had none."""
    app_id: str = ""
    """The last transaction of Tidegate up to there, which the table still has after Delta has cleaned the entry; empty if none is known."""
    batch_id: int = -1


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """An entry of a log."""

    version: int
    digest: str
    operation: str = ""
    overwrites: bool = False
    at_ms: int | None = None
    app_id: str = ""
    """The transaction id of Tidegate; empty for commits of others."""
    batch_id: int = -1
    adds: bool = False
    """Whether rows may have been added."""
    removes: bool = False
    """Whether rows may have been removed or changed."""
    metadata: bool = False
    """Whether it sets schema or properties of the table."""
    stands_on: Mapping[str, Position] = field(default_factory=dict)
    """Of a batch: the positions that it stands on, by the folder of the table in the lake."""

    @property
    def position(self) -> Position:
        """The position behind it."""
        return Position(version=self.version, digest=self.digest, app_id=self.app_id, batch_id=self.batch_id)

    def meaning(self, owner: str, *, same_columns: bool) -> Meaning:
        """What it means for those who stand on the table.

        Args:
            owner: What the transaction ids of the writer begin with.
            same_columns: Whether the columns from before it are still there, under their names and with their types, and the table
                has the same id and a change feed.
        """
        if self.app_id and self.app_id.startswith(owner):
            return "own"
        if self.metadata and not same_columns:
            return "break"
        if not (self.adds or self.removes):
            return "harmless"
        operation = self.operation.upper()
        if operation in _APPENDS and not (self.overwrites or self.removes):
            return "append"
        return "change" if operation in _CHANGES else "break"


@dataclass(frozen=True, kw_only=True)
class ForeignCommit:
    """A commit of someone else that changed rows of a table."""

    table: str
    version: int
    operation: str
    at_ms: int | None

    def summary(self) -> str:
        """``DELETE of silver.orders by another writer (version 7, 2026-11-25 10:12:33 UTC)``."""
        at = dates.moment(self.at_ms)
        when = "" if at is None else f", {at:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.operation or 'a commit'} of {self.table} by another writer (version {self.version}{when})"


Reason = Literal["lost", "replaced", "rewritten", "not followed", "no proof"]
"""``lost``: the log ends before a version that was written or read. ``replaced``: a version is another commit than it was.
``rewritten``: someone restored or replaced rows or columns. ``not followed``: someone
changed rows, and the flow that reads them cannot take them back. ``no proof``: the log was cleaned, and the table lacks the transaction."""


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """Why the history of a table is not proven."""

    table: str
    reason: Reason
    what: str
    """What happened, as a sentence without a full stop."""
    version: int
    """The first version that is not proven."""
    operation: str = ""
    at_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The history of a table is proven up to a version."""

    position: Position
    foreign: tuple[ForeignCommit, ...] = ()
    """Commits of others that changed rows, since the position that was proven before."""
