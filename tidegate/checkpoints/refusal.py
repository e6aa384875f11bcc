"""Refused batches, and the decision of a person to quarantine one as a whole, or to let one pass that a statistic holds.

A batch that its gate or a statistic refused, or on whose rows its transform raises, stays pending. Two small files next to the
checkpoint, which `plan` reads without a JVM, record which batch was refused, by which suite and code, and the decision about
it, with who and why. A decision applies to one batch and is deleted when that batch is recorded in the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from tidegate import json_codec
from tidegate.advice import Command, Edit, Either
from tidegate.checkpoints import progress
from tidegate.checkpoints.note import Note
from tidegate.errors import RequestError
from tidegate.errors.refusals import ContractRefusal, GateRefusal, HeldBatch, Refusal, TransformRefusal
from tidegate.lake.place import Place
from tidegate.reports.report import now
from tidegate.spec import Flow

RULE = "refused_batch"
"""The rule that every row of such a batch carries in quarantine, in addition to the rules that the row broke."""


Action = Literal["take", "accept"]
"""``take``: quarantine the batch as a whole. ``accept``: let it pass, whatever its statistics are."""


@dataclass(frozen=True, kw_only=True)
class BatchDecision:
    """A person's decision about a refused batch."""

    batch_id: int
    by: str
    reason: str
    at: str
    """The instant, in UTC, as ISO 8601."""
    action: Action = "take"


REFUSAL: Note[Refusal, Place] = Note(
    name="refusal",
    file="v{version}-{refresh}.refused.json",
    content=json_codec.union(Refusal),
    says="the batch that a gate, a statistic, a transform or a contract refused last, and what has to change before it is tried again",
    absent="no batch was refused; so it is also if the refused batch is no longer the pending one",
    written="a run of the flow, when its pending batch is refused",
    cleared="a batch that compares another snapshot than the refused one",
)
DECISION: Note[BatchDecision, Place] = Note(
    name="decision",
    file="v{version}-{refresh}.decision.json",
    content=BatchDecision,
    says="that the refused batch goes to quarantine as a whole, or passes although a statistic holds it; with who and why",
    absent="nobody has decided: the batch is judged",
    written="a command or a page, for a person, with the lease of the flow",
    cleared="the batch, once it is in the ledger",
)


def record(place: Place, refusal: Refusal) -> None:
    """Record the refusal of the pending batch. The batch is not tried again until one of the fingerprints changes.

    Args:
        place: The flow's checkpoint; the caller holds its lease.
    """
    if progress.read(place.checkpoint).pending_batch == refusal.batch_id:
        REFUSAL.write(place, refusal)


def waiting_batch(place: Place) -> int | None:
    """The pending batch, if its gate or its transform refused it; None when no batch is pending or its contract refused it.

    Raises:
        CheckpointCorruptError: A file of the checkpoint cannot be read.
    """
    match waiting(place):
        case None | ContractRefusal():
            return None
        case GateRefusal(batch_id=batch_id) | HeldBatch(batch_id=batch_id) | TransformRefusal(batch_id=batch_id):
            return batch_id
        case other:
            assert_never(other)


def waiting(place: Place) -> Refusal | None:
    """The refusal of the pending batch; None when no batch is pending that was refused. Raises as `waiting_batch`."""
    refusal = REFUSAL.read(place)
    pending = progress.read(place.checkpoint).pending_batch
    return refusal if refusal is not None and refusal.batch_id == pending else None


def decide(place: Place, flow: Flow, *, by: str, reason: str, action: Action = "take") -> int:
    """Decide what the flow's next run does with the refused batch, and return the batch's id.

    Args:
        place: The flow's checkpoint; the caller holds its lease.
        reason: Why; it is stored with every row that goes to quarantine, or with the verdict.

    Raises:
        RequestError: No batch is pending that was refused, or that a statistic holds; the reason is empty; or it shall go
            to quarantine, which groups, results of state and snapshots cannot.
        CheckpointCorruptError: A file of the checkpoint cannot be read.
    """
    if action in flow.kind.refuses:
        raise flow.kind.refuses[action](flow)
    if not reason.strip():
        raise RequestError(
            "the reason is empty", Edit("say why the batch passes, or goes to quarantine as a whole", "request")
        )
    batch_id = waiting_batch(place)
    if batch_id is None:
        raise RequestError(
            f"flow {place.flow!r} has no refused batch",
            Command.tidegate("status", place.pipeline, says="`{}` shows what each flow waits for"),
        )
    if action == "accept" and not isinstance(REFUSAL.read(place), HeldBatch):
        raise RequestError(
            f"batch {batch_id} of flow {place.flow!r} is not held by a statistic, so it cannot be accepted",
            Either(
                Edit("correct its suite or its transform", "suite"),
                Command.tidegate(
                    "quarantine",
                    "take",
                    place.pipeline,
                    place.flow,
                    "--reason",
                    "…",
                    says="send it to quarantine as a whole: {}",
                ),
            ),
        )
    stored = BatchDecision(batch_id=batch_id, by=by, reason=reason.strip(), at=now(), action=action)
    DECISION.write(place, stored)
    return batch_id


def decision(place: Place, batch_id: int, action: Action | None = None) -> BatchDecision | None:
    """The decision about this batch, or only one for this action; None when there is none."""
    stored = DECISION.read(place)
    applies = stored is not None and stored.batch_id == batch_id and action in (None, stored.action)
    return stored if applies else None


def clear_decision(place: Place, batch_id: int) -> None:
    """Delete the decision about a batch, once the batch is recorded in the ledger."""
    if decision(place, batch_id) is not None:
        DECISION.clear(place)
