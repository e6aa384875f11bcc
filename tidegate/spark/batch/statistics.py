"""Statistics of a batch: measured before the write, compared with those of earlier batches, and what follows if a rule is not met."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType

from tidegate import formatting
from tidegate.advice import Edit
from tidegate.errors import BatchHeldError, SpecError
from tidegate.ops import observations
from tidegate.reports.verdict import STATISTIC, ExpectationResult, Verdict
from tidegate.spark.batch import ledger
from tidegate.spark.batch.quarantine import DROPPED
from tidegate.spark.driver.failures import value_error

if TYPE_CHECKING:
    from tidegate.spark.job import Job
    from tidegate.spec import Statistic


def measure(job: Job, rows: DataFrame, batch_id: int) -> tuple[ExpectationResult, ...]:
    """The results of the flow's statistics for a batch of its stream; none for other work, and if a person took the batch out.

    Args:
        rows: The rows to which a suite would apply.

    Raises:
        SpecError: An expression or a rule cannot be evaluated.
        BatchHeldError: A statistic that holds the batch is not met, and nobody accepted the batch. The verdict is recorded.
    """
    declared = job.flow.statistics
    if not declared or not job.work.has_statistics or job.work.decision(job, batch_id, "take"):
        return ()
    values = _values(job, rows)
    batches = list(observations.read(job.place, (job.app_id, batch_id)))
    results = []
    for statistic, value in zip(declared, values, strict=True):
        earlier = [batch[_rule(statistic)] for batch in batches if _rule(statistic) in batch][: statistic.batches]
        results.append(_result(statistic, value, earlier, met=_is_met(job, statistic, value, earlier)))
    accepted = job.work.decision(job, batch_id, "accept")
    if accepted is not None:
        note = f"accepted by {accepted.by}: {accepted.reason}"
        return tuple(
            each if each.success else dataclasses.replace(each, severity="info", note=f"{each.note}; {note}")
            for each in results
        )
    verdict = judged(job, None, tuple(results), batch_id)
    if verdict is not None and verdict.refusing():
        verdict = dataclasses.replace(verdict, outcome="refused")
        ledger.record_verdict(job, verdict)
        job.run.record_verdict(verdict)
        raise BatchHeldError(
            job.place.pipeline,
            verdict,
            statistics_fingerprint=job.resolved.statistics_fingerprint(),
            takes_out=job.flow.kind.quarantines,
        )
    return tuple(results)


def judged(job: Job, verdict: Verdict | None, results: tuple[ExpectationResult, ...], batch_id: int) -> Verdict | None:
    """The verdict of the gate with these results, or one of them alone; None without any."""
    if verdict is not None or not results:
        return None if verdict is None else dataclasses.replace(verdict, results=(*results, *verdict.results))
    return Verdict(
        flow=job.flow.name,
        batch_id=batch_id,
        app_id=job.app_id,
        suite="",
        suite_fingerprint="",
        code_fingerprint=job.resolved.code_fingerprint(),
        outcome="dropped" if dropping(results) else "passed",
        results=results,
    )


def dropping(results: Sequence[ExpectationResult]) -> tuple[str, ...]:
    """The rules ``dropped(<statistic>)`` of statistics that drop the batch; empty for a batch that is not dropped."""
    return tuple(
        each.rule.replace(STATISTIC, DROPPED, 1) for each in results if each.severity == "warning" and not each.success
    )


def _rule(statistic: Statistic) -> str:
    return f"{STATISTIC}({statistic.name})"


def _values(job: Job, rows: DataFrame) -> list[float | None]:
    """The value of each statistic, from one scan of the rows; None also for NaN and the infinities, which would make every mean one."""
    columns = []
    for number, statistic in enumerate(job.flow.statistics):
        where = _where(job, statistic)
        try:
            expression = F.expr(statistic.expression)
            kind = rows.agg(expression.alias("value")).schema["value"].dataType
        except AnalysisException as error:
            # From None: Spark's text has the columns of the batch, and may quote literals.
            raise SpecError(
                f"{where}: its expression cannot be evaluated ({error.getCondition()})",
                Edit("write an aggregate of Spark SQL over columns that the transform returns", "transform"),
            ) from None
        if not isinstance(kind, NumericType | BooleanType):
            raise SpecError(
                f"{where}: its expression has the type {kind.simpleString()}",
                Edit("it must be a number or a boolean", "declaration"),
            )
        columns.append(expression.cast("double").alias(f"_{number}"))
    try:
        values = rows.agg(*columns).first()
    except Exception as error:
        if (raised := value_error(error)) is None:
            raise
        names = ", ".join(each.name for each in job.flow.statistics)
        raise SpecError(
            f"flow {job.flow.name!r}: a statistic ({names}) raises {raised} on a value of the batch",
            Edit("use a function that returns NULL instead, as try_cast or try_divide", "transform"),
        ) from None
    assert values is not None
    return [value if value is not None and math.isfinite(value) else None for value in values]


def _is_met(job: Job, statistic: Statistic, value: float | None, earlier: Sequence[float]) -> bool:
    known = {
        "value": value,
        "median": median(earlier) if earlier else None,
        "mean": fmean(earlier) if earlier else None,
    }
    columns = [F.lit(number).cast("double").alias(name) for name, number in known.items()]
    array = F.array(*map(F.lit, earlier)).cast("array<double>").alias("earlier")
    where = _where(job, statistic)
    try:
        row = job.spark.sql("SELECT 1").select(*columns, array).select(F.expr(statistic.rule).alias("met"))
        kind = row.schema["met"].dataType
        met = row.collect()[0]["met"] if isinstance(kind, BooleanType) else None
    except AnalysisException as error:
        raise SpecError(
            f"{where}: its rule {statistic.rule!r} cannot be evaluated ({error.getCondition()})",
            Edit("it may use value, median, mean and earlier", "declaration"),
        ) from None
    except Exception as error:
        if (raised := value_error(error)) is None:
            raise
        raise SpecError(
            f"{where}: its rule {statistic.rule!r} raises {raised}",
            Edit("use a function that returns NULL instead, as try_cast or try_divide", "declaration"),
        ) from None
    if not isinstance(kind, BooleanType):
        raise SpecError(
            f"{where}: its rule {statistic.rule!r} has the type {kind.simpleString()}",
            Edit("it must be a condition", "declaration"),
        )
    return met is not False


def _result(statistic: Statistic, value: float | None, earlier: Sequence[float], *, met: bool) -> ExpectationResult:
    number = len(earlier)
    compared = (
        f"median {_number(median(earlier))} of {formatting.count(number, 'earlier batch', 'earlier batches')}"
        if earlier
        else "no earlier batch"
    )
    return ExpectationResult(
        expectation=STATISTIC,
        rule=_rule(statistic),
        severity="critical" if statistic.otherwise == "hold" else "warning",
        success=met,
        observed=value,
        note=f"{_number(value)} {'meets' if met else 'breaks'} {statistic.rule}; {compared}",
        sentence=f"{statistic.expression}: {statistic.rule}, otherwise {statistic.otherwise}",
    )


def _where(job: Job, statistic: Statistic) -> str:
    return f"flow {job.flow.name!r}: statistic {statistic.name!r}"


def _number(value: float | None) -> str:
    if value is None:
        return "NULL"
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.4g}"
