"""Derives a whole table again in a new refresh; the dry run judges the swap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.runs.incremental.dry_run import judge_later
from tidegate.spark.flow import refresh_once, run_flow
from tidegate.spark.reprocessing import backfill
from tidegate.spark.runs import RunCode

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def _run(job: Job) -> None:
    """Derive the whole table again, in the next refresh of the checkpoint."""
    run_flow(job, before=refresh_once)


def _judge(job: Job) -> None:
    """The dry run of a full refresh."""
    if job.flow.kind.stateful or not job.flow.target.keys:
        judge_later(job)
    else:
        backfill.dry_run(job, None)


RUN = RunCode(run=_run, dry_run=_judge)
