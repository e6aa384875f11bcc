"""Records batches and verdicts with the columns of their run: request, attempt and checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.ops import ledger
from tidegate.report import BatchRecord, Verdict

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext


def record_batch(context: FlowContext, record: BatchRecord) -> None:
    """Add the ledger line of a batch; a second call for the same batch adds nothing. ``record`` must balance."""
    ledger.record(context.place.of_pipeline, record, _run_columns(context))


def record_verdict(context: FlowContext, verdict: Verdict) -> None:
    """Add a verdict; every attempt at a batch adds its own. A dry run adds none."""
    if context.request.dry_run:
        return
    ledger.record_verdict(context.place.of_pipeline, verdict, _run_columns(context))


def _run_columns(context: FlowContext) -> dict[str, Any]:
    return {
        "run_key": context.run_key,
        "mode": context.request.mode,
        "requested_by": context.request.requested_by or None,
        "attempt": context.attempt,
        "checkpoint_version": context.place.version,
        "refresh": context.place.refresh,
    }
