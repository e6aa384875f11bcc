"""What a batch was decided to be, before anything of it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tidegate.errors import LedgerImbalanceError
from tidegate.report import BatchRecord
from tidegate.spark.lake import tables
from tidegate.spark.lake.sinks import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spark.context import FlowContext


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What earlier attempts at a batch already wrote."""

    quarantined: bool
    """The refused rows are in quarantine: the split stands, nothing is judged again."""
    written: bool
    """The target holds the batch: only its record may be missing."""


Settled = Literal["", "rows", "groups"]
"""What only the MERGE itself can say: which rows an equal or newer one supersedes, or which groups come out the same."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """The fate of every row of a batch, and how it gets into the target."""

    planned: BatchRecord
    """The ledger line; it must balance before the first write."""
    refused: DataFrame | None
    """Rows for the quarantine (`tidegate.spark.batch.quarantine.ARRIVED`); None when there is nothing to write."""
    write: Callable[[Transaction], tables.Commit]
    """Writes the target in one DML."""
    passed: DataFrame | None = None
    """``_row_id`` of all rows that a replay of a window let pass; None for a batch of the stream."""
    arriving: int
    """Rows that the target's commit must report as inserted, updated or deleted; with ``settled``, as read."""
    settled: Settled = ""
    """What of ``planned`` is counted by the target's commit: the MERGE compares, so that nobody reads the target before."""

    def transaction(self, app_id: str) -> Transaction:
        """Under which the batch is written; its commit remembers what was planned."""
        planned = {**self.planned.to_json(), "settled": self.settled}
        return Transaction(app_id=app_id, batch_id=self.planned.batch_id, planned=planned)


def decide(context: FlowContext, batch_id: int) -> Decision:
    """Step 0 of a micro-batch: what do quarantine and target already hold?

    Raises:
        CheckpointCorruptError: They hold a later batch, so the checkpoint is older than the tables and Delta would
            skip every write in silence.
    """
    spark = context.spark
    held = {
        name: tables.transactions(spark, path).get(context.app_id, -1)
        for name, path in (("quarantine", context.quarantine), ("target", context.target))
    }
    check_not_ahead(context, held, batch_id)
    return Decision(quarantined=held["quarantine"] == batch_id, written=held["target"] == batch_id)


def check_not_ahead(context: FlowContext, held: dict[str, int], planned: int) -> None:
    """Refuse a checkpoint that knows less than the tables it fed.

    Args:
        context: The flow.
        held: Last batch by table.
        planned: The last batch that the checkpoint planned.

    Raises:
        CheckpointCorruptError: A table is ahead.
    """
    from tidegate.errors import CheckpointCorruptError

    for name, batch in held.items():
        if batch > planned:
            raise CheckpointCorruptError(
                f"flow {context.flow.name!r}: its {name} holds batch {batch} of {context.app_id}, but the checkpoint at "
                f"{context.checkpoint} only knows batches up to {planned}: it was restored from an older copy or lost files. "
                f"Put the newer checkpoint back, or set checkpoint_version={context.ref.version + 1}.",
                path=str(context.checkpoint),
            )


def check_balance(context: FlowContext, record: BatchRecord) -> None:
    """Every row that went in has exactly one fate.

    Raises:
        LedgerImbalanceError: Not so; nothing was written for this batch.
    """
    if record.imbalance():
        raise LedgerImbalanceError(
            context.flow.name,
            record.batch_id,
            record.to_json(),
            f"{record.imbalance()} rows have no fate, or two ({_told(record)}); nothing was written. "
            f"Look at transform {context.flow.transform!r}.",
        )


def check_arrived(context: FlowContext, split: Split, commit: tables.Commit) -> None:
    """Refuse a commit of the target that did not take what was planned.

    Raises:
        LedgerImbalanceError: Another number of rows arrived.
    """
    merged = split.settled and "numSourceRows" in commit.metrics
    arrived = commit.metrics["numSourceRows"] if merged else arrived_rows(commit)
    if arrived != split.arriving or (merged and arrived_rows(commit) > split.arriving):
        raise LedgerImbalanceError(
            context.flow.name,
            split.planned.batch_id,
            split.planned.to_json(),
            f"{split.arriving} rows were to arrive in {context.target}, its commit {commit.version} reports {arrived}",
        )


def settle(planned: BatchRecord, commit: tables.Commit, settled: Settled) -> BatchRecord:
    """The ledger line of a written batch: what was planned, with what its MERGE counted.

    Args:
        planned: The line as it was before the write: every row that is compared counts as written, every group as changed.
        commit: The target's.
        settled: What the MERGE compared.
    """
    line = replace(planned, target_version=commit.version)
    if settled == "rows":
        written = arrived_rows(commit)
        return replace(line, written=written, superseded=planned.superseded + planned.written - written)
    if settled == "groups":
        deleted = commit.metrics.get("numTargetRowsDeleted", 0)
        upserted = arrived_rows(commit) - deleted
        return replace(line, upserted=upserted, deleted=deleted, unchanged=planned.groups - upserted - deleted)
    return line


def arrived_rows(commit: tables.Commit) -> int:
    """Rows inserted, updated and deleted, from ``operationMetrics`` (``numOutputRows`` of a MERGE counts copies too)."""
    metrics = commit.metrics
    if "numTargetRowsInserted" in metrics:
        return metrics["numTargetRowsInserted"] + metrics["numTargetRowsUpdated"] + metrics["numTargetRowsDeleted"]
    return metrics.get("numOutputRows", 0)


def _told(record: BatchRecord) -> str:
    counts = {name: value for name, value in record.to_json().items() if isinstance(value, int) and value}
    return ", ".join(f"{name} {value}" for name, value in counts.items() if name not in ("batch_id", "target_version"))
