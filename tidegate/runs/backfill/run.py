"""Reads what is new, then derives a window again; the dry run judges what would change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.planning import rewrites
from tidegate.runs.incremental.dry_run import judge_new_version
from tidegate.spark.flow import run_flow
from tidegate.spark.reprocessing import backfill
from tidegate.spark.runs import RunCode

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def _run(job: Job) -> None:
    """Read what is new, then derive the window again."""
    window = job.run.request.window
    assert window is not None
    run_flow(job, after=lambda flow: backfill.backfill(flow, window))


def _judge(job: Job) -> None:
    """The dry run of a backfill; of a flow with a new version, of the swap that comes before it."""
    if rewrites.derives_again(job.place, job.flow):
        job.run.report.notes.append(
            "dry run: the new version would be swapped in before the backfill, and is judged here"
        )
        judge_new_version(job)
    else:
        backfill.dry_run(job, job.run.request.window)


RUN = RunCode(run=_run, dry_run=_judge)
