"""Which rows of a batch are refused, and whether the whole batch is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.checkpoints import refusal
from tidegate.errors import GateRefusedError, SpecError
from tidegate.spark.batch import ledger, statistics
from tidegate.spark.batch.split import Decision

if TYPE_CHECKING:
    from tidegate.reports.verdict import Verdict
    from tidegate.spark.job import Job


def flag(job: Job, output: DataFrame, batch_id: int, decision: Decision) -> tuple[DataFrame, Verdict | None]:
    """Add ``_errors array<string>``, the rules that refuse a row; a split that an earlier attempt decided is kept."""
    if decision.quarantined:
        refused = F.broadcast(
            job.work.refused_ids(job, output.sparkSession, batch_id).withColumnRenamed("rules", hidden.ERRORS)
        )
        decided = output.join(refused, hidden.ROW_ID, "left").withColumn(
            hidden.ERRORS, F.coalesce(hidden.ERRORS, F.array().cast("array<string>"))
        )
        if not job.work.split_is_final:
            return decided.withColumn(
                hidden.ERRORS, F.when(F.size(hidden.ERRORS) > 0, F.col(hidden.ERRORS)).otherwise(F.col(hidden.BROKEN))
            ), None
        changed = decided.where((F.size(hidden.ERRORS) == 0) & (F.size(hidden.BROKEN) > 0)).limit(1).count()
        if changed:
            raise SpecError(
                f"flow {job.flow.name!r}: batch {batch_id} was split by an earlier attempt, and rows that "
                "passed then break a rule with today's transform or schema.",
                Edit("undo the change for one run, then apply it again", "transform"),
            )
        return decided, None
    taken_out = job.work.decision(job, batch_id, "take") is not None
    # Not judged: deletes, which may have only their key, and rows that are broken or filtered.
    judged = (F.size(hidden.BROKEN) == 0) & F.col(hidden.FILTERED).isNull() & ~F.col(hidden.DELETED)
    measured = statistics.measure(job, output.where(judged), batch_id)
    dropping = statistics.dropping(measured)
    if job.gate is None or dropping:
        of_batch = F.array(*map(F.lit, (refusal.RULE,) if taken_out else dropping)).cast("array<string>")
        verdict = statistics.judged(job, None, measured, batch_id)
        return output.withColumn(hidden.ERRORS, F.array_union(of_batch, hidden.BROKEN)), verdict
    flagged = job.gate.flag(output, judged)
    errors = F.when(F.size(hidden.BROKEN) > 0, F.col(hidden.BROKEN)).otherwise(F.col(hidden.ERRORS))
    decided = flagged.withColumn(hidden.ERRORS, errors).drop(hidden.NOTES)
    if job.work.of_entries:
        # Replayed entries are no sample of a batch: `mostly` and rules about the table do not apply to them.
        return decided, None
    verdict = job.gate.judge(flagged.where(judged), flow=job.flow.name, app_id=job.app_id, batch_id=batch_id)
    if taken_out:
        return decided.withColumn(hidden.ERRORS, F.array_union(F.array(F.lit(refusal.RULE)), hidden.ERRORS)), verdict
    if verdict.outcome == "refused":
        record(job, statistics.judged(job, verdict, measured, batch_id) or verdict)
        raise GateRefusedError(verdict)
    return decided, statistics.judged(job, verdict, measured, batch_id)


def record(job: Job, verdict: Verdict) -> None:
    """Add the verdict to the table of verdicts and to the report."""
    ledger.record_verdict(job, verdict)
    job.run.record_verdict(verdict)


def refuse_whole_rows(flagged: DataFrame) -> DataFrame:
    """Refuse all output rows of a source row if one of them is refused."""
    reasons = (
        flagged.where(F.size(hidden.ERRORS) > 0)
        .groupBy(hidden.ROW_ID)
        .agg(F.array_distinct(F.flatten(F.collect_list(hidden.ERRORS))).alias("_all"))
    )
    joined = flagged.join(reasons, hidden.ROW_ID, "left")
    return joined.withColumn(hidden.ERRORS, F.coalesce("_all", hidden.ERRORS)).drop("_all")
