"""The changes of a table that a flow sends to a sink, as functions of the project get them (`tidegate.spec.FunctionSink`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of a row."""

    id: str
    """``<table>/<version>/<hash of key and row>``: the same when the change is sent again, and another for another change."""
    type: Literal["insert", "update", "delete"]
    """What the commit did to the row of the table. A row whose tombstone the table has is written by an update, and a table that is
    sent again has inserts of rows that the sink has: insert or update the row in both cases."""
    version: int
    """The version of the table's commit: of two changes of a key the later one has the higher version."""
    key: Mapping[str, Any]
    """The values of the table's keys, by column."""
    row: Mapping[str, Any] | None
    """The values of all columns but those of the platform; None for a delete or a tombstone. Times have a zone, UTC."""


class WriteChanges(Protocol):
    """A function that writes to a sink."""

    def __call__(self, changes: Iterator[Change]) -> None:
        """Store all changes, and return when they are stored.

        A batch whose end was not recorded is sent again, so storing a change twice must be the same as storing it once.

        Args:
            changes: Those of one batch, the changes of a key in the order of their commits. Rows are fetched as they are taken.

        Raises:
            Exception: Any. Nothing counts as sent, and the next run sends the same changes again.
        """
