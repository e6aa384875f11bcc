"""What each kind of run (`tidegate.runs`) does to one flow; `tidegate.spark.job` calls them by the request's mode."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.planning import rewrites
from tidegate.runs import RUNS
from tidegate.spark.flow import refresh_once, renew_damaged, run_flow
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import backfill as backfills
from tidegate.spark.reprocessing import recovery, swap
from tidegate.spark.reprocessing import reingest as reingests
from tidegate.spark.reprocessing.replay import replay_entries
from tidegate.spark.reprocessing.undo import undo_run

if TYPE_CHECKING:
    from tidegate.request import RunRequest
    from tidegate.spark.context import FlowContext
    from tidegate.spec import Flow


def load(request: RunRequest, flow: Flow) -> Callable[[FlowContext], None]:
    """What the request does to this flow: an increment where its mode applies to other flows only; or what its dry run does."""
    kind = RUNS[request.mode if request.applies_to(flow) else "incremental"]
    run: Callable[[FlowContext], None] = pkgutil.resolve_name(kind.dry_run if request.dry_run else kind.code)
    return run


def increment(context: FlowContext) -> None:
    """Read what is new."""
    run_flow(context)


def full_refresh(context: FlowContext) -> None:
    """Derive the whole table again, in the next refresh of the checkpoint."""
    run_flow(context, before=refresh_once)


def backfill(context: FlowContext) -> None:
    """Read what is new, then derive the window again."""
    window = context.request.window
    assert window is not None
    run_flow(context, after=lambda flow: backfills.backfill(flow, window))


def reingest(context: FlowContext) -> None:
    """Read the whole source again, in the next refresh; or read what is new, then the window or the gaps again."""
    if context.request.window is None and not context.request.gaps:
        run_flow(context, before=refresh_once)
    else:
        run_flow(context, after=lambda flow: reingests.reingest(flow, context.request.window))


def recover(context: FlowContext) -> None:
    """Derive the table again in the next refresh if the flow is damaged; else read what is new."""
    run_flow(context, before=renew_damaged, after=recovery.finish)


def judge_nothing(context: FlowContext) -> None:
    """The dry run of a mode that replaces no row."""
    context.report.dry_run = True
    context.report.notes.append("dry run: nothing to judge, because no row of the table is replaced")


def judge_new_version(context: FlowContext) -> None:
    """The dry run of an increment: judge the table that it would swap in, if the flow has a new version."""
    if not rewrites.derives_again(context.layout, context.pipeline, context.flow):
        judge_nothing(context)
    elif (context.flow.kind.stateful or not context.flow.target.keys) and not tables.exists(swap.staging(context)):
        _judge_later(context)
    elif tables.exists(swap.staging(context)):
        swap.dry_run(context)
    else:
        backfills.dry_run(context, None)


def judge_backfill(context: FlowContext) -> None:
    """The dry run of a backfill; of a flow with a new version, of the swap that comes before it."""
    if rewrites.derives_again(context.layout, context.pipeline, context.flow):
        context.report.notes.append(
            "dry run: the new version would be swapped in before the backfill, and is judged here"
        )
        judge_new_version(context)
    else:
        backfills.dry_run(context, context.request.window)


def judge_full_refresh(context: FlowContext) -> None:
    """The dry run of a full refresh."""
    if context.flow.kind.stateful or not context.flow.target.keys:
        _judge_later(context)
    else:
        backfills.dry_run(context, None)


def _judge_later(context: FlowContext) -> None:
    """Of a flow whose table only its stream can derive: say that its limits apply at the swap."""
    context.report.dry_run = True
    context.report.notes.append(
        "dry run: only a run can derive the table in staging, in the order of its source; it is judged before it is swapped in"
    )


def replay(context: FlowContext) -> None:
    """Send quarantine entries through the flow again, without an increment."""
    request = context.request
    assert request.selection is not None
    replay_entries(context, request.selection, limit=request.limit, dry_run=request.dry_run)


def undo(context: FlowContext) -> None:
    """Put back what another run changed, without an increment."""
    undo_run(context)
