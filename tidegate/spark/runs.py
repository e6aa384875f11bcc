"""`RunCode`: what a kind of run (`tidegate.requests.runs`) does to one flow."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.planning import rewrites
from tidegate.requests.runs import RUNS
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import swap

if TYPE_CHECKING:
    from tidegate.requests.request import RunRequest
    from tidegate.spark.job import Job
    from tidegate.spec import Flow


def judge_nothing(job: Job) -> None:
    """The dry run of a mode that replaces no row."""
    job.run.report.dry_run = True
    job.run.report.notes.append("dry run: nothing to judge, because no row of the table is replaced")


@dataclass(frozen=True, kw_only=True)
class RunCode:
    """The code of one kind of run."""

    run: Callable[[Job], None]
    """What it does to one flow."""
    dry_run: Callable[[Job], None] = judge_nothing
    """What a dry run of it does to one flow. It writes nothing."""


def load(request: RunRequest, flow: Flow) -> Callable[[Job], None]:
    """What the request does to this flow: an increment where its mode applies to other flows only; or what its dry run does."""
    kind = RUNS[request.mode if request.applies_to(flow) else "incremental"]
    code: RunCode = importlib.import_module(kind.code).RUN
    return code.dry_run if request.dry_run else code.run


def judge_new_version(job: Job) -> None:
    """The dry run of an increment: judge the table that it would swap in, if the flow has a new version."""
    if not rewrites.derives_again(job.place, job.flow):
        judge_nothing(job)
    elif (job.flow.kind.stateful or not job.flow.target.keys) and not tables.exists(swap.staging(job)):
        judge_later(job)
    elif tables.exists(swap.staging(job)):
        swap.dry_run(job)
    else:
        from tidegate.spark.reprocessing import backfill

        backfill.dry_run(job, None)


def judge_later(job: Job) -> None:
    """Of a flow whose table only its stream can derive: say that its limits apply at the swap."""
    job.run.report.dry_run = True
    job.run.report.notes.append(
        "dry run: only a run can derive the table in staging, in the order of its source; it is judged before it is swapped in"
    )
