"""Reads what is new; the dry run judges the table of a new version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.flow import run_flow
from tidegate.spark.runs import RunCode

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def _run(job: Job) -> None:
    """Read what is new."""
    run_flow(job)


def _judge(job: Job) -> None:
    """The dry run, whose code an increment does not need."""
    from tidegate.runs.incremental import dry_run

    dry_run.judge_new_version(job)


RUN = RunCode(run=_run, dry_run=_judge)
