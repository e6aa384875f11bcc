"""`Split`: the disposition of every row of a batch, counted and balanced before the first write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tidegate import json_codec
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.lake import tables
from tidegate.spark.lake.writes import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.lake.table_history import Position


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What earlier attempts at the batch have written."""

    quarantined: bool
    """The refused rows are in quarantine, none if it does not have the batch: the split is final and nothing is judged again."""
    late: bool = False
    """The late rows are in the late table: no other row of the batch is late."""
    written: bool
    """The target has the batch: at most its ledger line is missing."""
    recorded: bool = False
    """An attempt has recorded this split, and no table lacks what it may change."""
    expects_refused: bool = False
    """An attempt has recorded that it refuses rows, and may still write them: quarantine gets the batch first, also without rows."""
    expects_late: bool = False
    """The same, of the late table."""


Settled = Literal["", "rows", "groups", "results"]
"""The counts that only the MERGE can provide: of rows superseded by an equal or newer one, or of unchanged groups or results."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """The disposition of every row of a batch, and the write of the target."""

    prepared: LedgerLine
    """The prepared ledger line; it must balance before the first write."""
    refused: DataFrame | None
    """Rows for the quarantine (`tidegate.spark.batch.quarantine.REFUSED`); None when there is nothing to write."""
    late: DataFrame | None = None
    """Rows for the late table (`tidegate.spark.batch.late_rows`); None when there is nothing to write."""
    write: Callable[[Transaction], tables.Commit]
    """Writes the target in one DML."""
    passed: DataFrame | None = None
    """``_row_id`` of all rows of a backfill that were not refused; None for a batch of the stream."""
    changes: DataFrame | None = None
    """The source of the MERGE that replaces the rows of keys: their new rows, with ``_op``; None where rows are added."""
    expected_rows: int
    """Rows that the target's commit must report as inserted, updated or deleted; with ``settled``, as read by the MERGE."""
    settled: Settled = ""
    """Which counts of ``prepared`` come from the target's commit: the MERGE compares, so the target is not read before."""

    def transaction(
        self, app_id: str, stands_on: Mapping[str, Position] | None = None, *, attempt: str = ""
    ) -> Transaction:
        """The transaction of the batch's writes, with the prepared ledger line and the positions that it stands on."""
        line = {**json_codec.to_plain(self.prepared), "settled": self.settled}
        return Transaction(
            app_id=app_id,
            batch_id=self.prepared.batch_id,
            attempt=attempt,
            prepared=line,
            stands_on={} if stands_on is None else stands_on,
        )


def settle(prepared: LedgerLine, commit: tables.Commit, settled: Settled) -> LedgerLine:
    """The ledger line of a written batch: the prepared line with the counts of its MERGE.

    Args:
        prepared: The line before the write: it counts every row to be compared as written, and every group as changed.
        settled: Which counts to take from the commit.
    """
    line = replace(prepared, target_version=commit.version)
    if settled == "rows":
        written = changed_rows(commit)
        return replace(line, written=written, superseded=prepared.superseded + prepared.written - written)
    if settled == "groups":
        deleted = commit.metrics.get("numTargetRowsDeleted", 0)
        upserted = changed_rows(commit) - deleted
        return replace(line, upserted=upserted, deleted=deleted, unchanged=prepared.groups - upserted - deleted)
    if settled == "results":
        written = changed_rows(commit)
        return replace(line, written=written, unchanged=prepared.results - written)
    return line


def changed_rows(commit: tables.Commit) -> int:
    """Rows inserted, updated and deleted, from ``operationMetrics`` (``numOutputRows`` of a MERGE counts copies too)."""
    metrics = commit.metrics
    if "numTargetRowsInserted" in metrics:
        return metrics["numTargetRowsInserted"] + metrics["numTargetRowsUpdated"] + metrics["numTargetRowsDeleted"]
    return metrics.get("numOutputRows", 0)
