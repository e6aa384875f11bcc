"""Batches and rewrites that were refused: nothing of them was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.errors.error import EX_DATAERR, TidegateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.report import Verdict

_RETRY_BATCH = "run the flow again: it tries the same batch again"


class RefusedError(TidegateError):
    """A batch was refused: nothing of it was written, and it waits until something changes."""

    exit_code = EX_DATAERR

    def waits_for(self) -> dict[str, Any]:
        """The batch, and what has to change before another attempt may pass; stored beside the checkpoint for `plan`."""
        raise NotImplementedError


class GateRefusedError(RefusedError):
    """A critical expectation refused the batch: the target is unchanged, and the next run tries the same batch again."""

    def __init__(self, verdict: Verdict) -> None:
        failed = ", ".join(result.summary() for result in verdict.refusing())
        next_step = _RETRY_BATCH if verdict.is_batch else "run the backfill again: the table is unchanged"
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.label} refused by suite {verdict.suite!r}: {failed}. "
            f"Correct the suite, the transform or the data at its source, then {next_step}."
        )
        self.verdict = verdict

    def waits_for(self) -> dict[str, Any]:
        """A change of the suite, or of the transform's module."""
        return {
            "batch_id": self.verdict.batch_id,
            "suite_fingerprint": self.verdict.suite_fingerprint,
            "code_fingerprint": self.verdict.code_fingerprint,
        }


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
        command = f"{pipeline} {verdict.flow} --reason …"
        take = "" if not takes_out else f", send it to quarantine (tidegate quarantine take {command})"
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.label} held: {failed}. Let it pass (tidegate quarantine accept {command}){take}, or "
            f"correct the statistic or the transform, then {_RETRY_BATCH}."
        )
        self.verdict = verdict
        self.statistics_fingerprint = statistics_fingerprint

    def waits_for(self) -> dict[str, Any]:
        """A decision, or a change of the declared statistics or of the transform's module."""
        return {
            "batch_id": self.verdict.batch_id,
            "statistics_fingerprint": self.statistics_fingerprint,
            "code_fingerprint": self.verdict.code_fingerprint,
        }


class TransformRefusedError(RefusedError):
    """The transform raises on rows of the batch that cannot go to quarantine, because they are too many, or make a group.

    Args:
        verdict: The refusal, with a result for each class of exception.
        transform: Its name.
        raised: The classes of the exceptions: error conditions of Spark, types of Python exceptions.
        problem: Why the rows do not go to quarantine, as the rest of a sentence.
        remedy: What a person can do, as a clause without full stop.
        share: The declared `transform_error_share`.
    """

    def __init__(
        self, verdict: Verdict, *, transform: str, raised: Sequence[str], problem: str, remedy: str, share: float | None
    ) -> None:
        next_step = _RETRY_BATCH if verdict.is_batch else "repeat it: nothing was written"
        super().__init__(
            f"flow {verdict.flow!r}: {verdict.label} refused: transform {transform!r} raises {', '.join(raised)} {problem}. "
            f"{remedy}, then {next_step}."
        )
        self.verdict = verdict
        self.transform = transform
        self.raised = tuple(raised)
        self.transform_error_share = share

    def waits_for(self) -> dict[str, Any]:
        """A change of the transform's module, or of the declared share."""
        return {
            "batch_id": self.verdict.batch_id,
            "code_fingerprint": self.verdict.code_fingerprint,
            "transform_error_share": self.transform_error_share,
        }


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
        what, next_step = "batch", _RETRY_BATCH
        if is_replay:
            what, next_step = "replay", "replay again: its entries are still open"
        elif is_backfill:
            what, next_step = "backfill", "run the backfill again: the table is unchanged"
        risk = f" It may break {', '.join(breaks)}." if breaks else ""
        super().__init__(
            f"flow {flow!r}: {what} {batch_id} refused by its frozen contract: {'; '.join(changes)}.{risk} Answer the run of DAG "
            f"schema_approval for schema change {schema_change_id}, or run: tidegate contract answer {pipeline} "
            f"{schema_change_id} evolve (or quarantine). Then {next_step}."
        )
        self.pipeline = pipeline
        self.flow = flow
        self.batch_id = batch_id
        self.schema_change_id = schema_change_id
        self.changes = tuple(changes)
        self.declared = declared
        self.breaks = tuple(breaks)

    def waits_for(self) -> dict[str, Any]:
        """An answer, or a change of the declared schema or contract."""
        return {"batch_id": self.batch_id, "schema_change_id": self.schema_change_id, "declared": self.declared}


class RewriteRefusedError(TidegateError):
    """A backfill, a full refresh or a new version would delete or refuse more rows than its limits allow: the table is unchanged.

    Args:
        flow: The flow's name.
        what: What was refused, for example ``backfill 3 of 2013-01-01``.
        impact: The counts of its rows.
        reasons: One phrase per exceeded limit, to follow "it would".
        correct: What to do if the numbers are wrong, as a phrase.
        accept: The command that accepts the numbers.
    """

    exit_code = EX_DATAERR

    def __init__(
        self, flow: str, what: str, *, impact: dict[str, int], reasons: Sequence[str], correct: str, accept: str
    ) -> None:
        super().__init__(
            f"flow {flow!r}: {what} refused before it changed a row of the table: it would {' and '.join(reasons)}. "
            f"Correct the transform, the suite or the data, then {correct}. Or accept exactly these numbers: {accept} (in Airflow: "
            "the field accept of the form)"
        )
        self.flow = flow
        self.what = what
        self.impact = impact
        self.reasons = tuple(reasons)
