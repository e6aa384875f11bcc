"""Derives a damaged flow's table again in a new refresh; other flows read what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.flow import renew_damaged, run_flow
from tidegate.spark.reprocessing import recovery
from tidegate.spark.runs import RunCode

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def _run(job: Job) -> None:
    """Derive the table again in the next refresh if the flow is damaged; else read what is new."""
    run_flow(job, before=renew_damaged, after=recovery.finish)


RUN = RunCode(run=_run)
