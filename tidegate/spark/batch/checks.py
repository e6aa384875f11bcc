"""Step 0, and the checks of a batch: against what earlier attempts have written, of its balance, and of its commit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate import json_codec
from tidegate.advice import Edit, Either, OutsideAct, Then, new_version, recover_command
from tidegate.checkpoints import history
from tidegate.checkpoints.history import RecordedSplit
from tidegate.errors import CheckpointCorruptError, LedgerImbalanceError
from tidegate.formatting import count
from tidegate.reports.ledger_line import LedgerLine
from tidegate.spark.batch.split import Decision, Split, changed_rows
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from tidegate.checkpoints.history import History
    from tidegate.checkpoints.note import Written
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


def follow(job: Job, decision: Decision, begun: Written[History], batch_id: int) -> Decision:
    """Follow the split that another attempt has recorded: it may be stopped, and write what it has judged at any time.

    Args:
        decision: What the tables have.
        begun: What `proofs.begin` returns.
    """
    recorded = begun.value.splits.get(job.app_id)
    if recorded is None or recorded.batch_id != batch_id or not splits(job):
        return decision
    # What it has written since.
    decision = decide(job, batch_id)
    is_final = decision.quarantined or not recorded.refused
    return replace(
        decision,
        recorded=is_final,
        quarantined=is_final,
        late=decision.late or (is_final and not recorded.late),
        expects_refused=not is_final,
        expects_late=recorded.late and not decision.late,
    )


def splits(job: Job) -> bool:
    """Whether suite and transform decide which of several tables a row is written to."""
    return job.work.judges and job.flow.kind.quarantines and not job.flow.kind.sends


def record_split(job: Job, begun: Written[History], split: Split, decision: Decision) -> None:
    """Record how this attempt splits the batch, unless that is decided.

    From then on every attempt writes what is recorded: which tables have rows besides the target. So an attempt that refuses
    nothing needs no commit to the quarantine, and no other one may write there later.

    Raises:
        WriteConflictError: Another attempt has begun the batch, or another one, since this one has. Transient.
    """
    if decision.recorded or not splits(job):
        return
    refused = split.refused is not None or decision.expects_refused
    late = split.prepared.late > 0 or decision.expects_late
    recorded = RecordedSplit(
        batch_id=split.prepared.batch_id, attempt=job.run.place.attempt, refused=refused, late=late
    )
    history.record_split(job.place, begun, job.app_id, recorded)


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
