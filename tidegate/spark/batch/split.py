"""The split of a batch: decided, counted and balanced before the first write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tidegate import json_codec
from tidegate.advice import Edit, Either, OutsideAct, Then, new_version, recover_command
from tidegate.errors import LedgerImbalanceError
from tidegate.formatting import count
from tidegate.report import BatchRecord
from tidegate.spark.lake import tables
from tidegate.spark.lake.writes import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext
    from tidegate.table_history import Position


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What earlier attempts at the batch have written."""

    quarantined: bool
    """The refused rows are in quarantine, none if it does not have the batch: the split is final and nothing is judged again."""
    late: bool = False
    """The late rows are in the late table: no other row of the batch is late."""
    written: bool
    """The target has the batch: at most its ledger line is missing."""


Settled = Literal["", "rows", "groups", "results"]
"""The counts that only the MERGE can provide: of rows superseded by an equal or newer one, or of unchanged groups or results."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """The disposition of every row of a batch, and the write of the target."""

    prepared: BatchRecord
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

    def transaction(self, app_id: str, stands_on: Mapping[str, Position] | None = None) -> Transaction:
        """The transaction of the batch's writes, with the prepared ledger line and the positions that it stands on."""
        line = {**json_codec.to_plain(self.prepared), "settled": self.settled}
        return Transaction(
            app_id=app_id,
            batch_id=self.prepared.batch_id,
            prepared=line,
            stands_on={} if stands_on is None else stands_on,
        )


def decide(context: FlowContext, batch_id: int) -> Decision:
    """Step 0 of a micro-batch: read which batch quarantine, late table and target have last.

    Late rows are written after the refused ones, so if the late table has the batch, no row outside of quarantine was refused.

    Raises:
        CheckpointCorruptError: One of them has a later batch: the checkpoint is older than the tables, and Delta would
            silently skip every write.
    """
    written = last_batches(context)
    check_not_ahead(context, written, batch_id)
    late = written["late table"] == batch_id
    return Decision(
        quarantined=late or written["quarantine"] == batch_id, late=late, written=written["target"] == batch_id
    )


def last_batches(context: FlowContext) -> dict[str, int]:
    """The last batch of each table that a batch is written to, in the order of the writes; -1 for none."""
    paths = {"quarantine": context.quarantine, "late table": context.late, "target": context.target}
    return {name: tables.transactions(context.spark, path).get(context.app_id, -1) for name, path in paths.items()}


def check_not_ahead(context: FlowContext, written: dict[str, int], planned: int) -> None:
    """Check that no table has a later batch than the checkpoint.

    Args:
        written: Last batch by table.
        planned: The last batch that the checkpoint planned.

    Raises:
        CheckpointCorruptError: A table has a later batch.
    """
    from tidegate.errors import CheckpointCorruptError

    for name, batch in written.items():
        if batch > planned:
            raise CheckpointCorruptError(
                f"flow {context.flow.name!r}: its {name} has batch {batch} of {context.app_id}, but the "
                f"checkpoint at {context.checkpoint} ends with batch {planned}: it was restored from an older "
                "copy, or files of it are missing.",
                Either(OutsideAct("restore the newer checkpoint"), recover_command(*context.flow.recovered_by)),
                path=str(context.checkpoint),
            )


def check_balance(context: FlowContext, record: BatchRecord) -> None:
    """Check that every row read has exactly one disposition.

    Raises:
        LedgerImbalanceError: Some have none, or several; nothing was written for this batch.
    """
    if record.imbalance():
        raise LedgerImbalanceError(
            context.flow.name,
            record.batch_id,
            json_codec.to_plain(record),
            f"{count(record.imbalance(), 'row')} without a disposition, or with several ({_describe_counts(record)}); nothing was written.",
            Edit(f"check transform {context.flow.transform!r}", "transform"),
        )


def check_commit(context: FlowContext, split: Split, commit: tables.Commit) -> None:
    """Check that the target's commit has as many rows as the split expects.

    Raises:
        LedgerImbalanceError: It reports another number of rows.
    """
    merged = split.settled and "numSourceRows" in commit.metrics
    reported = commit.metrics["numSourceRows"] if merged else changed_rows(commit)
    if reported != split.expected_rows or (merged and changed_rows(commit) > split.expected_rows):
        raise LedgerImbalanceError(
            context.flow.name,
            split.prepared.batch_id,
            json_codec.to_plain(split.prepared),
            f"{count(split.expected_rows, 'row')} to be written to {context.target}, but its commit {commit.version} reports {reported:,}.",
            Then(
                OutsideAct("report it with the run's report"),
                new_version(context.place.version, "set {} to derive the table again"),
            ),
        )


def settle(prepared: BatchRecord, commit: tables.Commit, settled: Settled) -> BatchRecord:
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


def _describe_counts(record: BatchRecord) -> str:
    counted = [
        [(balance.total.replace("_", " "), balance.amount(record)), *balance.lines(record)]
        for balance in record.balances
        if balance.amount(record) or balance.imbalance(record)
    ]
    return "; ".join(", ".join(f"{name} {number}" for name, number in counts) for counts in counted)
