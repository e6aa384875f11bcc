"""The dry run of an increment: judges the table of a new version. The run itself does not import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.planning import rewrites
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import backfill, swap
from tidegate.spark.runs import judge_nothing

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def judge_new_version(job: Job) -> None:
    """The dry run of an increment: judge the table that it would swap in, if the flow has a new version."""
    if not rewrites.derives_again(job.place, job.flow):
        judge_nothing(job)
    elif (job.flow.kind.stateful or not job.flow.target.keys) and not tables.exists(job.place.staging):
        judge_later(job)
    elif tables.exists(job.place.staging):
        swap.dry_run(job)
    else:
        backfill.dry_run(job, None)


def judge_later(job: Job) -> None:
    """Of a flow whose table only its stream can derive: say that its limits apply at the swap."""
    job.run.report.dry_run = True
    job.run.report.notes.append(
        "dry run: only a run can derive the table in staging, in the order of its source; it is judged before it is swapped in"
    )
