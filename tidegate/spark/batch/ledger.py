"""What a job records of a batch and of a judgement: who asked for it, in which attempt, at which checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.ops import ledger
from tidegate.report import BatchRecord, Verdict

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext


def record_batch(context: FlowContext, record: BatchRecord) -> None:
    """Add a batch's line to the ledger once, however often it is recorded.

    Args:
        context: The flow.
        record: A line that balances.
    """
    ledger.record(context.layout, context.pipeline.name, record, _asked(context))


def record_verdict(context: FlowContext, verdict: Verdict) -> None:
    """Add a judgement; every attempt at a batch has its own."""
    ledger.judged(context.layout, context.pipeline.name, verdict, _asked(context))


def _asked(context: FlowContext) -> dict[str, Any]:
    return {
        "run_key": context.run_key,
        "mode": context.request.mode,
        "requested_by": context.request.requested_by or None,
        "attempt": context.attempt,
        "checkpoint_version": context.ref.version,
        "refresh": context.ref.refresh,
    }
