"""`RunCode`: what a kind of run (`tidegate.requests.runs`) does to one flow."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.requests.runs import RUNS

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
