"""Step 0, and the checks of a batch: against what earlier attempts have written, of its balance, and of its commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate import json_codec
from tidegate.advice import Edit, Either, OutsideAct, Then, new_version, recover_command
from tidegate.errors import CheckpointCorruptError, LedgerImbalanceError
from tidegate.formatting import count
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch.split import Decision, Split, changed_rows
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def decide(job: Job, batch_id: int) -> Decision:
    """Step 0 of a micro-batch: read which batch quarantine, late table and target have last.

    Late rows are written after the refused ones, so if the late table has the batch, no row outside of quarantine was refused.

    Raises:
        CheckpointCorruptError: One of them has a later batch: the checkpoint is older than the tables, and Delta would
            silently skip every write.
    """
    written = last_batches(job)
    check_not_ahead(job, written, batch_id)
    late = written["late table"] == batch_id
    return Decision(
        quarantined=late or written["quarantine"] == batch_id, late=late, written=written["target"] == batch_id
    )


def last_batches(job: Job) -> dict[str, int]:
    """The last batch of each table that a batch is written to, in the order of the writes; -1 for none."""
    paths = {"quarantine": job.place.quarantine, "late table": job.place.late, "target": job.target}
    return {name: tables.transactions(job.spark, path).get(job.app_id, -1) for name, path in paths.items()}


def check_not_ahead(job: Job, written: dict[str, int], planned: int) -> None:
    """Check that no table has a later batch than the checkpoint.

    Args:
        written: Last batch by table.
        planned: The last batch that the checkpoint planned.

    Raises:
        CheckpointCorruptError: A table has a later batch.
    """
    for name, batch in written.items():
        if batch > planned:
            raise CheckpointCorruptError(
                f"flow {job.flow.name!r}: its {name} has batch {batch} of {job.app_id}, but the "
                f"checkpoint at {job.place.checkpoint} ends with batch {planned}: it was restored from an older "
                "copy, or files of it are missing.",
                Either(OutsideAct("restore the newer checkpoint"), recover_command(*job.flow.recovered_by)),
                path=str(job.place.checkpoint),
            )


def check_balance(job: Job, record: LedgerLine) -> None:
    """Check that every row read has exactly one disposition.

    Raises:
        LedgerImbalanceError: Some have none, or several; nothing was written for this batch.
    """
    if record.imbalance():
        raise LedgerImbalanceError(
            job.flow.name,
            record.batch_id,
            json_codec.to_plain(record),
            f"{count(record.imbalance(), 'row')} without a disposition, or with several ({_describe_counts(record)}); nothing was written.",
            Edit(f"check transform {job.flow.transform!r}", "transform"),
        )


def check_commit(job: Job, split: Split, commit: tables.Commit) -> None:
    """Check that the target's commit has as many rows as the split expects.

    Raises:
        LedgerImbalanceError: It reports another number of rows.
    """
    merged = split.settled and "numSourceRows" in commit.metrics
    reported = commit.metrics["numSourceRows"] if merged else changed_rows(commit)
    if reported != split.expected_rows or (merged and changed_rows(commit) > split.expected_rows):
        raise LedgerImbalanceError(
            job.flow.name,
            split.prepared.batch_id,
            json_codec.to_plain(split.prepared),
            f"{count(split.expected_rows, 'row')} to be written to {job.target}, but its commit {commit.version} reports {reported:,}.",
            Then(
                OutsideAct("report it with the run's report"),
                new_version(job.place.version, "set {} to derive the table again"),
            ),
        )


def _describe_counts(record: LedgerLine) -> str:
    counted = [
        [(balance.total.replace("_", " "), balance.amount(record)), *balance.lines(record)]
        for balance in record.balances
        if balance.amount(record) or balance.imbalance(record)
    ]
    return "; ".join(", ".join(f"{name} {number}" for name, number in counts) for counts in counted)
