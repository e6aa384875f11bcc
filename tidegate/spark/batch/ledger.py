"""Records batches and verdicts with the columns of their run: request, attempt and checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.ops import ledger
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.verdict import Verdict

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def record_batch(job: Job, record: LedgerLine) -> None:
    """Add the ledger line of a batch; a second call for the same batch adds nothing. ``record`` must balance."""
    ledger.record(job.place.of_pipeline, record, _origin(job))


def record_verdict(job: Job, verdict: Verdict) -> None:
    """Add a verdict; every attempt at a batch adds its own. A dry run adds none."""
    if job.run.request.dry_run:
        return
    ledger.record_verdict(job.place.of_pipeline, verdict, _origin(job))


def _origin(job: Job) -> ledger.RunOrigin:
    return ledger.RunOrigin(
        run_key=job.run.request.run_key,
        mode=job.run.request.mode,
        requested_by=job.run.request.requested_by or None,
        attempt=job.run.place.attempt,
        checkpoint_version=job.place.version,
        refresh=job.place.refresh,
    )
