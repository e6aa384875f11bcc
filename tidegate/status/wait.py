"""What a flow waits for: a person, because another attempt would be refused for the same reason, or a flow above it. Starts no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, assert_never

from tidegate.checkpoints import refusal
from tidegate.checkpoints.refusal import REFUSAL
from tidegate.errors.refusals import ContractRefusal, GateRefusal, HeldBatch, TransformRefusal
from tidegate.ops import evolution
from tidegate.project import fingerprints

if TYPE_CHECKING:
    from tidegate.checkpoints.rewrite import JudgedRewrite
    from tidegate.status.checkpoint_reading import CheckpointReading

RefusedBy = Literal["gate", "statistic", "contract", "limits"]
"""``gate``: or a transform that raises. ``limits``: those of a swap (`tidegate.spec.RewriteLimits`)."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """What a person has to do for a flow."""

    by: RefusedBy
    reason: str
    """One sentence without a full stop."""


@dataclass(frozen=True, kw_only=True)
class BlockingFlow:
    """A flow that others wait for in the end, and its state."""

    pipeline: str
    flow: str
    state: str
    """A name of `tidegate.states.STATES`."""
    needs_person: bool
    """Whether the state does."""
    text: str
    """What is said about the state, with the next step."""

    @property
    def label(self) -> str:
        """``<pipeline>/<flow>``, or only the pipeline if its declaration does not load."""
        return f"{self.pipeline}/{self.flow}" if self.flow else self.pipeline


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """A flow that writes a source of a flow."""

    pipeline: str
    blocks: bool
    """Whether flows that read its table wait for it."""
    cause: BlockingFlow
    """The flow that it waits for in the end; itself if it does not wait."""


def of_batch(reading: CheckpointReading, batch_id: int) -> Wait | None:
    """The wait of the pending batch, if neither a decision nor what refused it has changed since."""
    resolved, place = reading.resolved, reading.place
    decision = refusal.decision(place, batch_id)
    if decision is not None and decision.action == "take":
        return None
    refused = REFUSAL.read(place)
    if refused is None or refused.batch_id != batch_id:
        return None
    flow, waits = resolved.flow, f"waits: batch {batch_id}"
    by: RefusedBy = "gate"
    try:
        match refused:
            case ContractRefusal():
                schema_change_id = evolution.open_schema_change(place.layout, resolved)
                reason = f"{waits} was refused by its frozen contract; schema change {schema_change_id} needs an answer"
                return Wait(by="contract", reason=reason) if schema_change_id is not None else None
            case HeldBatch():
                by = "statistic"
                same = decision is None and refused.statistics_fingerprint == resolved.statistics_fingerprint()
                take = "send it to quarantine" if flow.kind.takes_batches else "correct the source"
                reason = f"{waits} is held, because a statistic of it breaks its rule; accept it, or {take}"
            case TransformRefusal():
                share = resolved.pipeline.thresholds_of(flow).transform_error_share
                same = refused.transform_error_share == share
                reason = f"{waits} was refused, because transform {flow.transform} raises; correct the transform"
            case GateRefusal():
                if flow.gate is None or resolved.suite is None:
                    return None
                same = refused.suite_fingerprint == fingerprints.suite_fingerprint(resolved.suite)
                reason = f"{waits} was refused by {flow.gate.suite}; fix the suite, the transform or the data"
            case other:
                assert_never(other)
        same = same and refused.code_fingerprint == resolved.code_fingerprint()
    except (FileNotFoundError, ValueError):
        # A file changed after the flow was resolved: the next plan has the error.
        return None
    return Wait(by=by, reason=reason) if same else None


def of_limits(
    reading: CheckpointReading, batch: int | None, *, judged: JudgedRewrite | None, swaps: bool
) -> Wait | None:
    """The wait of a swap, or of a batch that a newer one may supersede, whose numbers exceed the limits.

    Args:
        batch: The pending batch.
        judged: A backfill or a swap whose numbers exceed the limits.
        swaps: Whether a full refresh is staged and not swapped in.
    """
    resolved = reading.resolved
    if judged is None or judged.app_id != reading.place.app_id:
        return None
    # Raised limits count from the next plan on.
    if not resolved.pipeline.rewrite_limits_of(resolved.flow).exceeded(judged.impact):
        return None
    if not swaps and (batch is None or not resolved.flow.kind.superseded_by):
        return None
    otherwise = "derive the table again with mode full_refresh" if swaps else f"land {resolved.flow.kind.superseded_by}"
    return Wait(by="limits", reason=f"waits: {judged.summary()}; accept the numbers, or {otherwise}")
