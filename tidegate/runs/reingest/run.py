"""Reads a source again: as a whole in a new refresh, or a window or the gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.flow import refresh_once, run_flow
from tidegate.spark.reprocessing import reingest
from tidegate.spark.runs import RunCode

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def _run(job: Job) -> None:
    """Read the whole source again, in the next refresh; or read what is new, then the window or the gaps again."""
    if job.run.request.window is None and not job.run.request.gaps:
        run_flow(job, before=refresh_once)
    else:
        run_flow(job, after=lambda flow: reingest.reingest(flow, job.run.request.window))


RUN = RunCode(run=_run)
