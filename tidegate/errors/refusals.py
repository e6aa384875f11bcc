"""Batches and rewrites that were refused: nothing of them was written.

The classes ``…Refusal`` and `HeldBatch` say what has to change before another attempt may pass; `tidegate.checkpoints.refusal` stores
that of a pending batch. Each has a field that no other has, which says in JSON which it is (`tidegate.json_codec.union`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then
from tidegate.errors.error import EX_DATAERR, TidegateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.reports.verdict import Verdict

_RETRY_BATCH = OutsideAct("run the flow again: it tries the same batch again")
_RETRY_BACKFILL = OutsideAct("run the backfill again: the table is unchanged")


class RefusedError(TidegateError):
    """A batch was refused: nothing of it was written, and it waits until something changes."""

    exit_code = EX_DATAERR

    def refusal(self) -> Refusal:
        """The batch, and what has to change before another attempt may pass; stored beside the checkpoint for `plan`."""
        raise NotImplementedError


class GateRefusedError(RefusedError):
    """A critical expectation refused the batch: the target is unchanged, and the next run tries the same batch again."""

    def __init__(self, verdict: Verdict) -> None:
        failed = ", ".join(result.summary() for result in verdict.refusing())
        again = _RETRY_BATCH if verdict.is_batch else _RETRY_BACKFILL
        correct = Either(
            Edit("correct the suite", "suite"), Edit("the transform", "transform"), OutsideAct("the data at its source")
        )
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.label} refused by suite {verdict.suite!r}: {failed}.",
            Then(correct, again),
        )
        self.verdict = verdict

    def refusal(self) -> GateRefusal:
        """A change of the suite, or of the transform's module."""
        return GateRefusal(
            batch_id=self.verdict.batch_id,
            suite_fingerprint=self.verdict.suite_fingerprint,
            code_fingerprint=self.verdict.code_fingerprint,
        )


class BatchHeldError(RefusedError):
    """A statistic of the batch breaks its rule: the target is unchanged, and the batch waits for a person.

    Args:
        pipeline: The pipeline's name.
        verdict: The refusal, with a result for each declared statistic.
        statistics_fingerprint: Of the declared statistics.
        takes_out: Whether the batch can be sent to quarantine.
    """

    def __init__(self, pipeline: str, verdict: Verdict, *, statistics_fingerprint: str, takes_out: bool = True) -> None:
        failed = ", ".join(result.summary() for result in verdict.refusing())
        whose = (pipeline, verdict.flow, "--reason", "…")
        accept = Command.tidegate("quarantine", "accept", *whose, says="let it pass ({})")
        take = Command.tidegate("quarantine", "take", *whose, says="send it to quarantine ({})")
        edits = (Edit("correct the statistic", "declaration"), Edit("correct the transform", "transform"))
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.label} held: {failed}.",
            Then(Either(accept, *((take,) if takes_out else ()), *edits), _RETRY_BATCH),
        )
        self.verdict = verdict
        self.statistics_fingerprint = statistics_fingerprint

    def refusal(self) -> HeldBatch:
        """A decision, or a change of the declared statistics or of the transform's module."""
        return HeldBatch(
            batch_id=self.verdict.batch_id,
            statistics_fingerprint=self.statistics_fingerprint,
            code_fingerprint=self.verdict.code_fingerprint,
        )


class TransformRefusedError(RefusedError):
    """The transform raises on rows of the batch that cannot go to quarantine, because they are too many, or make a group.

    Args:
        verdict: The refusal, with a result for each class of exception.
        transform: Its name.
        raised: The classes of the exceptions: error conditions of Spark, types of Python exceptions.
        problem: Why the rows do not go to quarantine, as the rest of a sentence.
        remedy: What a person can do.
        share: The declared `transform_error_share`.
    """

    def __init__(
        self,
        verdict: Verdict,
        *,
        transform: str,
        raised: Sequence[str],
        problem: str,
        remedy: Advice,
        share: float | None,
    ) -> None:
        again = _RETRY_BATCH if verdict.is_batch else OutsideAct("repeat it: nothing was written")
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.label} refused: transform {transform!r} raises {', '.join(raised)} {problem}.",
            Then(remedy, again),
        )
        self.verdict = verdict
        self.transform = transform
        self.raised = tuple(raised)
        self.transform_error_share = share

    def refusal(self) -> TransformRefusal:
        """A change of the transform's module, or of the declared share."""
        return TransformRefusal(
            batch_id=self.verdict.batch_id,
            code_fingerprint=self.verdict.code_fingerprint,
            transform_error_share=self.transform_error_share,
        )


class ContractRefusedError(RefusedError):
    """A frozen contract refused a batch: nothing of it was written, and it waits until a person answers.

    Args:
        pipeline: The pipeline's name.
        flow: The flow's name.
        batch_id: The refused batch, backfill or replay.
        schema_change_id: Hash over the changes: the same changes have the same id.
        changes: One phrase per change in the batch.
        declared: Fingerprint of the schema and the contract that refused it.
        breaks: ``<pipeline>/<flow>`` of the flows that read the flow's table and may depend on a changed field.
        is_replay: Whether a replay of quarantined entries was refused: then no batch waits.
        is_backfill: Whether a backfill was: then none does either.
    """

    def __init__(
        self,
        pipeline: str,
        flow: str,
        batch_id: int,
        *,
        schema_change_id: str,
        changes: Sequence[str],
        declared: str,
        breaks: Sequence[str] = (),
        is_replay: bool = False,
        is_backfill: bool = False,
    ) -> None:
        what, again = "batch", _RETRY_BATCH
        if is_replay:
            what, again = "replay", OutsideAct("replay again: its entries are still open")
        elif is_backfill:
            what, again = "backfill", _RETRY_BACKFILL
        risk = f" It may break {', '.join(breaks)}." if breaks else ""
        answer = ("contract", "answer", pipeline, schema_change_id)
        super().__init__(
            f"flow {flow!r}: {what} {batch_id} refused by its frozen contract: {'; '.join(changes)}.{risk}",
            Then(
                Either(
                    OutsideAct(f"answer the run of DAG schema_approval for schema change {schema_change_id}"),
                    Command.tidegate(*answer, "evolve", says="run: {}"),
                    Command.tidegate(*answer, "quarantine"),
                ),
                again,
            ),
        )
        self.pipeline = pipeline
        self.flow = flow
        self.batch_id = batch_id
        self.schema_change_id = schema_change_id
        self.changes = tuple(changes)
        self.declared = declared
        self.breaks = tuple(breaks)

    def refusal(self) -> ContractRefusal:
        """An answer, or a change of the declared schema or contract."""
        return ContractRefusal(batch_id=self.batch_id, schema_change_id=self.schema_change_id, declared=self.declared)


class RewriteRefusedError(TidegateError):
    """A backfill, a full refresh or a new version would delete or refuse more rows than its limits allow: the table is unchanged.

    Args:
        flow: The flow's name.
        what: What was refused, for example ``backfill 3 of 2013-01-01``.
        impact: The counts of its rows.
        reasons: One phrase per exceeded limit, to follow "it would".
        correct: What to do after a correction if the numbers are wrong.
        accept: The command that accepts the numbers.
    """

    exit_code = EX_DATAERR

    def __init__(
        self, flow: str, what: str, *, impact: dict[str, int], reasons: Sequence[str], correct: Advice, accept: Command
    ) -> None:
        super().__init__(
            f"flow {flow!r}: {what} refused before it changed a row of the table: it would {' and '.join(reasons)}.",
            Either(
                Then(
                    Either(
                        Edit("correct the transform", "transform"), Edit("the suite", "suite"), OutsideAct("the data")
                    ),
                    correct,
                ),
                replace(accept, says="accept exactly these numbers: {} (in Airflow: the field accept of the form)"),
            ),
        )
        self.flow = flow
        self.what = what
        self.impact = impact
        self.reasons = tuple(reasons)


@dataclass(frozen=True, kw_only=True)
class GateRefusal:
    """A suite refused the batch: it is tried again with another suite or transform."""

    batch_id: int
    suite_fingerprint: str | None
    code_fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True)
class HeldBatch:
    """A statistic holds the batch: it is tried again with other statistics or another transform, or when a person accepts it."""

    batch_id: int
    statistics_fingerprint: str
    code_fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True)
class TransformRefusal:
    """The transform raises on the batch: it is tried again with another transform or another share of such rows."""

    batch_id: int
    code_fingerprint: str | None = None
    transform_error_share: float | None


@dataclass(frozen=True, kw_only=True)
class ContractRefusal:
    """A frozen contract refused the batch: it is tried again when a person has answered, or with another declaration."""

    batch_id: int
    schema_change_id: str
    declared: str
    """Fingerprint of the schema and the contract."""


Refusal = GateRefusal | HeldBatch | TransformRefusal | ContractRefusal
