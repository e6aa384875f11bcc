"""Sends quarantine entries through the flow again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.reprocessing.replay import replay_entries
from tidegate.spark.runs import RunCode

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def _run(job: Job) -> None:
    """Send quarantine entries through the flow again, without an increment."""
    request = job.run.request
    assert request.selection is not None
    replay_entries(job, request.selection, limit=request.limit, dry_run=request.dry_run)


RUN = RunCode(run=_run, dry_run=_run)
