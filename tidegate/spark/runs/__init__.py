"""What each kind of run (`tidegate.requests.runs`) does to one flow; `tidegate.spark.application` calls them by the request's mode."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.planning import rewrites
from tidegate.requests.runs import RUNS
from tidegate.spark.flow import refresh_once, renew_damaged, run_flow
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import backfill as backfills
from tidegate.spark.reprocessing import recovery, swap
from tidegate.spark.reprocessing import reingest as reingests
from tidegate.spark.reprocessing.replay import replay_entries
from tidegate.spark.reprocessing.undo import undo_run

if TYPE_CHECKING:
    from tidegate.requests.request import RunRequest
    from tidegate.spark.job import Job
    from tidegate.spec import Flow


def load(request: RunRequest, flow: Flow) -> Callable[[Job], None]:
    """What the request does to this flow: an increment where its mode applies to other flows only; or what its dry run does."""
    kind = RUNS[request.mode if request.applies_to(flow) else "incremental"]
    run: Callable[[Job], None] = pkgutil.resolve_name(kind.dry_run if request.dry_run else kind.code)
    return run


def increment(job: Job) -> None:
    """Read what is new."""
    run_flow(job)


def full_refresh(job: Job) -> None:
    """Derive the whole table again, in the next refresh of the checkpoint."""
    run_flow(job, before=refresh_once)


def backfill(job: Job) -> None:
    """Read what is new, then derive the window again."""
    window = job.run.request.window
    assert window is not None
    run_flow(job, after=lambda flow: backfills.backfill(flow, window))


def reingest(job: Job) -> None:
    """Read the whole source again, in the next refresh; or read what is new, then the window or the gaps again."""
    if job.run.request.window is None and not job.run.request.gaps:
        run_flow(job, before=refresh_once)
    else:
        run_flow(job, after=lambda flow: reingests.reingest(flow, job.run.request.window))


def recover(job: Job) -> None:
    """Derive the table again in the next refresh if the flow is damaged; else read what is new."""
    run_flow(job, before=renew_damaged, after=recovery.finish)


def judge_nothing(job: Job) -> None:
    """The dry run of a mode that replaces no row."""
    job.run.report.dry_run = True
    job.run.report.notes.append("dry run: nothing to judge, because no row of the table is replaced")


def judge_new_version(job: Job) -> None:
    """The dry run of an increment: judge the table that it would swap in, if the flow has a new version."""
    if not rewrites.derives_again(job.place, job.flow):
        judge_nothing(job)
    elif (job.flow.kind.stateful or not job.flow.target.keys) and not tables.exists(swap.staging(job)):
        _judge_later(job)
    elif tables.exists(swap.staging(job)):
        swap.dry_run(job)
    else:
        backfills.dry_run(job, None)


def judge_backfill(job: Job) -> None:
    """The dry run of a backfill; of a flow with a new version, of the swap that comes before it."""
    if rewrites.derives_again(job.place, job.flow):
        job.run.report.notes.append(
            "dry run: the new version would be swapped in before the backfill, and is judged here"
        )
        judge_new_version(job)
    else:
        backfills.dry_run(job, job.run.request.window)


def judge_full_refresh(job: Job) -> None:
    """The dry run of a full refresh."""
    if job.flow.kind.stateful or not job.flow.target.keys:
        _judge_later(job)
    else:
        backfills.dry_run(job, None)


def _judge_later(job: Job) -> None:
    """Of a flow whose table only its stream can derive: say that its limits apply at the swap."""
    job.run.report.dry_run = True
    job.run.report.notes.append(
        "dry run: only a run can derive the table in staging, in the order of its source; it is judged before it is swapped in"
    )


def replay(job: Job) -> None:
    """Send quarantine entries through the flow again, without an increment."""
    request = job.run.request
    assert request.selection is not None
    replay_entries(job, request.selection, limit=request.limit, dry_run=request.dry_run)


def undo(job: Job) -> None:
    """Put back what another run changed, without an increment."""
    undo_run(job)
