"""The gate and the decisions of earlier attempts determine which rows of a batch are refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.batch.splits import NEW, ORDERS, refused
from tests.spark.job import LATEST, PLANNED_MS, changes, job_of, plan_batch, table, transaction
from tidegate.checkpoints import refusal
from tidegate.errors import GateRefusedError, SpecError
from tidegate.errors.refusals import GateRefusal
from tidegate.lake.place import PipelinePlace
from tidegate.spark.batch import quarantine
from tidegate.spark.batch.rows import split_rows
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.reprocessing.replay import Replay

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

SPLIT_BEFORE = Decision(quarantined=True, written=False)


def at_least(least: int, severity: str, **more: Any) -> dict[str, Any]:
    kwargs = {"column": "amount", "min_value": least, **more}
    return {"type": "expect_column_values_to_be_between", "kwargs": kwargs, "severity": severity}


NOT_NEGATIVE = at_least(0, "warning")
ALL_NOT_NEGATIVE = at_least(0, "critical", mostly=1)


def odd(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn("_filtered", F.when(F.col("amount") == -99, F.lit("odd")))


def decide(job: Job, *rows: tuple[Any, ...], decision: Decision = NEW, batch_id: int = 0) -> Split:
    result = split_rows(job, changes(job.spark, ORDERS, *rows), batch_id, decision)
    assert result is not None
    assert result.prepared.imbalance() == 0
    return result


def verdicts(job: Job) -> list[str]:
    """The outcomes in the verdicts table, which are also in the report."""
    outcomes = [line["outcome"] for line in table(PipelinePlace(job.place.layout, "orders").ops("verdicts"))]
    assert outcomes == [verdict.outcome for verdict in job.run.report.verdicts]
    return outcomes


def test_rows_that_break_a_rule_are_refused_and_deletes_and_filtered_rows_are_not_judged(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = job_of(spark, tmp_path, LATEST, transform=odd, suite=[NOT_NEGATIVE, at_least(3, "info")])

    result = decide(
        job, (1, 1, 5), (2, 1, -1), (3, 1, 2), (4, 1, -1, "delete"), (5, 1, -99), (None, 1, -1), (7, 1, None)
    )

    record = result.prepared
    assert (record.read, record.written, record.quarantined, dict(record.filtered)) == (7, 4, 2, {"odd": 1})
    assert record.rules == {"between(amount)": 1, "null_key(id)": 1}
    assert refused(result) == {"2|1|insert": ["between(amount)"], "1|insert": ["null_key(id)"]}
    assert verdicts(job) == ["split"]
    (verdict,) = job.run.report.verdicts
    assert [(each.evaluated, each.unexpected) for each in verdict.results] == [(3, 1), (3, 2)]
    assert (verdict.flow, verdict.batch_id, verdict.app_id) == ("latest", 0, "orders/latest/v1/0")
    assert not job.target.exists() and not job.place.quarantine.exists()


def test_a_batch_below_the_mostly_of_a_critical_expectation_is_refused_and_its_verdict_recorded(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = job_of(spark, tmp_path, LATEST, suite=[ALL_NOT_NEGATIVE])

    with pytest.raises(GateRefusedError) as caught:
        decide(job, (1, 1, 5), (2, 1, -1))

    assert verdicts(job) == ["refused"]
    assert caught.value.verdict == job.run.report.verdicts[0]
    with pytest.raises(GateRefusedError):
        decide(job, (1, 1, 5), (2, 1, -1))
    assert verdicts(job) == ["refused", "refused"], "every attempt has its own line"


def test_an_expectation_that_raises_is_an_error_and_never_a_verdict(spark: SparkSession, tmp_path: Path) -> None:
    query = {"unexpected_rows_query": "SELECT * FROM {batch} WHERE no_such_column > 1"}
    wrong = {"type": "unexpected_rows_expectation", "kwargs": query, "severity": "info"}
    job = job_of(spark, tmp_path, LATEST, suite=[wrong])

    with pytest.raises(SpecError, match=r"no_such_column|unexpected_rows"):
        decide(job, (1, 1, 5))

    assert verdicts(job) == []


def test_all_rows_of_a_batch_that_was_taken_out_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = job_of(spark, tmp_path, LATEST, suite=[ALL_NOT_NEGATIVE])
    plan_batch(job, 0)
    refusal.record(job.place, GateRefusal(batch_id=0, suite_fingerprint="s", code_fingerprint="c"))
    refusal.decide(job.place, LATEST, by="ada", reason="of another airport")

    result = decide(job, (1, 1, 5), (2, 1, -1), (None, 1, 1))

    assert refused(result) == {
        "1|1|insert": ["refused_batch"],
        "2|1|insert": ["refused_batch", "between(amount)"],
        "1|insert": ["refused_batch", "null_key(id)"],
    }
    assert (result.prepared.quarantined, result.prepared.written) == (3, 0)
    assert verdicts(job) == ["refused"]
    with pytest.raises(GateRefusedError):
        decide(job, (1, 1, 5), (2, 1, -1), batch_id=1)


def test_replayed_entries_are_flagged_but_get_no_verdict(spark: SparkSession, tmp_path: Path) -> None:
    claim = Replay(by="ada", number=3, started_ms=PLANNED_MS, entries=())
    job = job_of(spark, tmp_path, LATEST, suite=[ALL_NOT_NEGATIVE], work=claim)

    result = decide(job, (1, 1, 5), (2, 1, -1))

    assert refused(result) == {"2|1|insert": ["between(amount)"]}
    assert verdicts(job) == []


def write_quarantine(job: Job, *rows: tuple[Any, ...], batch_id: int = 0) -> None:
    """Write the quarantine of a batch, as an attempt that crashes before the target does."""
    result = decide(job, *rows, batch_id=batch_id)
    assert result.refused is not None
    quarantine.append(job, result.refused, batch_id, transaction(job, batch_id), PLANNED_MS)


def test_the_split_of_an_earlier_attempt_is_kept_with_another_suite(spark: SparkSession, tmp_path: Path) -> None:
    rows = ((1, 1, 5), (2, 1, -1), (3, 1, 7), (None, 1, 1))
    write_quarantine(job_of(spark, tmp_path, LATEST, suite=[NOT_NEGATIVE]), *rows)
    stricter = job_of(spark, tmp_path, LATEST, suite=[at_least(6, "critical", mostly=1)])

    result = decide(stricter, *rows, decision=SPLIT_BEFORE)

    assert refused(result) == {"2|1|insert": ["between(amount)"], "1|insert": ["null_key(id)"]}
    assert result.prepared.rules == {"between(amount)": 1, "null_key(id)": 1}
    assert (result.prepared.written, result.prepared.quarantined) == (2, 2)
    assert stricter.run.report.verdicts == [], "nothing is judged again"


@pytest.mark.nightly
def test_entries_of_another_batch_or_checkpoint_do_not_affect_the_split(spark: SparkSession, tmp_path: Path) -> None:
    earlier = job_of(spark, tmp_path, LATEST, suite=[NOT_NEGATIVE])
    write_quarantine(earlier, (1, 1, -1))
    write_quarantine(earlier, (2, 1, -1), batch_id=1)
    write_quarantine(job_of(spark, tmp_path, LATEST, suite=[NOT_NEGATIVE], version=2), (3, 1, -1), batch_id=1)

    result = decide(earlier, (1, 1, -1), (2, 1, -1), (3, 1, -1), decision=SPLIT_BEFORE, batch_id=1)

    assert refused(result) == {"2|1|insert": ["between(amount)"]}


def test_a_row_that_passed_and_is_now_broken_stops_the_rerun(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    rows = ((1, 1, 5), (None, 1, 1))
    write_quarantine(job_of(spark, tmp_path, LATEST), *rows)
    without_sequence = job_of(
        spark, tmp_path, LATEST, transform=lambda rows: rows.withColumn("at", F.lit(None).cast("int"))
    )

    with pytest.raises(SpecError, match="rows that passed then break a rule"):
        decide(without_sequence, *rows, decision=SPLIT_BEFORE)


def test_a_split_with_fewer_refused_rows_than_great_expectations_counts_is_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    from tidegate.spark.gate import SuiteGate

    class ForgetfulGate(SuiteGate):
        """Flags no row, which is the fault that `check_split` detects."""

        def flag(self, rows: DataFrame, judged: Column | None = None) -> DataFrame:
            return super().flag(rows, judged).withColumn("_errors", F.array().cast("array<string>"))

    job = job_of(spark, tmp_path, LATEST, suite=[NOT_NEGATIVE])
    assert job.gate is not None
    forgetful = ForgetfulGate(job.gate.suite, "code", job.gate.lake_context)
    job = dataclasses.replace(job, gate=forgetful)

    with pytest.raises(SpecError, match="flags 0 rows, but Great Expectations counts 1"):
        decide(job, (1, 1, 5), (2, 1, -1))
    assert verdicts(job) == []


def test_a_refused_output_row_refuses_all_output_rows_of_its_source_row(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    def legs(rows: DataFrame) -> DataFrame:
        both = rows.withColumn("leg", F.explode(F.array(F.lit(0), F.lit(100))))
        return both.withColumns({"id": F.col("id") + F.col("leg"), "amount": F.col("amount") - F.col("leg")}).drop(
            "leg"
        )

    job = job_of(spark, tmp_path, LATEST, transform=legs, suite=[NOT_NEGATIVE])

    result = decide(job, (1, 1, 500), (2, 1, 50))

    assert refused(result) == {"2|1|insert": ["between(amount)"]}
    assert (result.prepared.read, result.prepared.written, result.prepared.quarantined) == (2, 1, 1)
    assert result.expected_rows == 2
    result.write(transaction(job, 0))
    assert sorted(row["id"] for row in table(job.target)) == [1, 101]
