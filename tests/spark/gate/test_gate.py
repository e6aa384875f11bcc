"""The gate as a micro-batch uses it: flags, verdicts, errors and cleanup."""

from __future__ import annotations

import json
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import json_codec
from tidegate.errors import SpecError
from tidegate.reports.verdict import Verdict
from tidegate.spark.gate import SuiteGate, load_suite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

CANARY = "canary-4711"
"""A value that must not leave the tables."""


def rule(kind: str, severity: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity}


def gate_of(folder: Path, *expectations: dict[str, Any]) -> SuiteGate:
    path = folder / "silver.json"
    path.write_text(json.dumps({"name": "flights/silver", "expectations": list(expectations)}))
    return SuiteGate(load_suite(path, "flights/silver"), "0123456789abcdef")


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Ten flights: two without an origin, one with the tail number `CANARY`, two with the same id."""
    flights = [
        (
            number if number < 9 else 8,
            None if number < 2 else "JFK",
            CANARY if number == 5 else f"N{number}",
            number * 10,
        )
        for number in range(10)
    ]
    return spark.createDataFrame(flights, "id bigint, origin string, tail string, delay int").coalesce(1)


def judged(gate: SuiteGate, rows: DataFrame) -> tuple[Verdict, list[list[str]], list[list[str]]]:
    """The verdict, and the errors and notes of each row."""
    flagged = gate.flag(rows).persist()
    try:
        verdict = gate.judge(flagged, flow="silver", app_id="x/silver/v1/0", batch_id=3)
        flags = flagged.orderBy("delay").select("_errors", "_notes").collect()
    finally:
        flagged.unpersist()
    return verdict, [row["_errors"] for row in flags], [row["_notes"] for row in flags]


def test_a_critical_rule_below_its_mostly_refuses_the_batch_and_its_rows_are_flagged(
    rows: DataFrame, tmp_path: Path
) -> None:
    gate = gate_of(tmp_path, rule("expect_column_values_to_not_be_null", "critical", column="origin", mostly=0.9))
    verdict, errors, _ = judged(gate, rows)

    assert verdict.outcome == "refused"
    (refusing,) = verdict.refusing()
    assert refusing.summary() == "not_null(origin) (2 of 10 rows break it, mostly 0.9)"
    assert errors == [["not_null(origin)"]] * 2 + [[]] * 8
    assert (verdict.flow, verdict.batch_id, verdict.suite) == ("silver", 3, "flights/silver")
    assert verdict.suite_fingerprint == gate.suite.fingerprint
    assert verdict.code_fingerprint == "0123456789abcdef"


def test_a_critical_rule_within_its_mostly_splits_the_batch(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(tmp_path, rule("expect_column_values_to_not_be_null", "critical", column="origin", mostly=0.8))
    verdict, errors, _ = judged(gate, rows)
    assert verdict.outcome == "split"
    assert sum(map(bool, errors)) == 2


def test_an_unmet_warning_splits_the_batch_and_does_not_refuse_it(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(
        tmp_path,
        rule("expect_column_values_to_match_regex", "warning", column="tail", regex="^N"),
        rule("expect_table_row_count_to_equal", "warning", value=1),
    )
    verdict, errors, _ = judged(gate, rows)
    assert verdict.outcome == "split"
    assert [result.success for result in verdict.results] == [False, False]
    assert errors[5] == ["match_regex(tail)"]


def test_an_info_rule_only_adds_notes(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(tmp_path, rule("expect_column_values_to_match_regex", "info", column="tail", regex="^N"))
    verdict, errors, notes = judged(gate, rows)
    assert verdict.outcome == "passed"
    assert errors == [[]] * 10
    assert notes == [[]] * 5 + [["match_regex(tail)"]] + [[]] * 4


def test_an_unmet_critical_batch_rule_refuses_the_batch(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(tmp_path, rule("expect_table_row_count_to_be_between", "critical", min_value=11))
    verdict, errors, _ = judged(gate, rows)
    assert verdict.outcome == "refused"
    assert errors == [[]] * 10


def test_every_row_of_a_group_of_duplicates_is_flagged(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(
        tmp_path,
        rule("expect_column_values_to_be_unique", "warning", column="id"),
        rule("expect_compound_columns_to_be_unique", "warning", column_list=["id", "origin"]),
    )
    verdict, errors, _ = judged(gate, rows)
    assert errors == [[]] * 8 + [["unique(id)", "unique(id, origin)"]] * 2
    assert [result.unexpected for result in verdict.results] == [2, 2]


def test_a_row_that_breaks_several_rules_gets_all_their_names(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(
        tmp_path,
        rule("expect_column_values_to_not_be_null", "critical", column="origin", mostly=0.1),
        rule("expect_column_values_to_be_between", "warning", column="delay", min_value=5),
        rule("expect_column_values_to_be_between", "info", column="delay", min_value=15),
    )
    _, errors, notes = judged(gate, rows)
    assert errors[:3] == [["not_null(origin)", "between(delay)"], ["not_null(origin)"], []]
    assert notes[:3] == [["between(delay)#2"], ["between(delay)#2"], []]


def test_flagging_starts_no_read(rows: DataFrame, tmp_path: Path, spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    gate = gate_of(tmp_path, rule("expect_column_values_to_not_be_null", "critical", column="origin"))
    read = spark.sparkContext.accumulator(0)

    def counted(value: Any) -> Any:
        read.add(1)
        return value

    flagged = gate.flag(rows.withColumn("origin", F.udf(counted, "string")("origin")))
    assert read.value == 0
    flagged.collect()
    assert read.value == 10


def test_a_split_that_differs_from_the_counts_of_gx_is_refused(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(
        tmp_path,
        rule("expect_column_values_to_not_be_null", "critical", column="origin", mostly=0.5),
        rule("expect_column_values_to_match_regex", "info", column="tail", regex="^N"),
    )
    judged(gate, rows)
    gate.check_split({"not_null(origin)": 2, "null_key(id)": 7})
    with pytest.raises(SpecError, match=r"not_null\(origin\) .* flags 3 rows, but Great Expectations counts 2"):
        gate.check_split({"not_null(origin)": 3})


def test_rows_outside_of_the_suite_have_no_errors_and_are_not_counted(rows: DataFrame, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    late = F.col("delay") >= 50
    limits = rule("expect_column_values_to_be_between", "warning", column="delay", max_value=55)
    for other in (rule("expect_column_values_to_be_unique", "warning", column="id"), limits):
        gate = gate_of(tmp_path, limits, other)
        flagged = gate.flag(rows, late).persist()
        verdict = gate.judge(flagged.where(late), flow="silver", app_id="x/silver/v1/0", batch_id=0)
        errors_by_delay = {row["delay"]: row["_errors"] for row in flagged.collect()}
        flagged.unpersist()
        assert len(errors_by_delay) == 10
        assert [delay for delay, errors in sorted(errors_by_delay.items()) if errors] == [60, 70, 80, 90]
        assert (verdict.results[0].evaluated, verdict.results[0].unexpected) == (5, 4)


def test_judging_leaves_no_cached_data_and_no_view(rows: DataFrame, tmp_path: Path, spark: SparkSession) -> None:
    gate = gate_of(
        tmp_path,
        rule("expect_column_values_to_be_between", "warning", column="delay", max_value=50),
        rule("unexpected_rows_expectation", "warning", unexpected_rows_query="SELECT * FROM {batch} WHERE delay > 50"),
    )
    cached = spark.sparkContext._jsc.getPersistentRDDs().size()
    verdict, _, _ = judged(gate, rows)
    assert [result.success for result in verdict.results] == [False, False]
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == cached
    assert spark.catalog.listTables() == []


def test_a_verdict_contains_no_value_of_the_data(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(
        tmp_path,
        rule("expect_column_values_to_match_regex", "warning", column="tail", regex="^N"),
        rule("expect_column_max_to_be_between", "warning", column="weight", max_value=1),
        rule("expect_column_most_common_value_to_be_in_set", "warning", column="tail", value_set=["A"]),
        rule("expect_column_distinct_values_to_be_in_set", "warning", column="tail", value_set=["A"]),
        rule("unexpected_rows_expectation", "warning", unexpected_rows_query="SELECT * FROM {batch} WHERE delay = 50"),
    )
    verdict, _, _ = judged(gate, rows.selectExpr("*", "47114711 AS weight"))
    assert [result.success for result in verdict.results] == [False] * 5
    text = json_codec.encode(verdict)
    assert CANARY not in text
    assert "47114711" not in text


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_first_and_the_last_instant_of_a_batch_are_compared_in_utc(
    spark: SparkSession, tmp_path: Path, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = "0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"
    gate = gate_of(
        tmp_path,
        rule("expect_column_min_to_be_between", "critical", column="at", min_value=first, max_value=first),
        rule("expect_column_max_to_be_between", "critical", column="at", min_value=last, max_value=last),
    )
    batch = spark.sql(f"SELECT explode(array(TIMESTAMP '{first}', TIMESTAMP '{last}')) AS at")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        verdict = gate.judge(gate.flag(batch), flow="silver", app_id="x/silver/v1/0", batch_id=0)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [result.success for result in verdict.results] == [True, True]


def test_a_rule_about_a_missing_column_raises_an_error_with_its_name(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(
        tmp_path,
        rule("expect_column_values_to_not_be_null", "critical", column="origin"),
        rule("expect_column_values_to_not_be_null", "critical", column="nothing"),
    )
    with pytest.raises(SpecError, match=r"not_null\(nothing\) \(expect_column_values_to_not_be_null\) raised"):
        gate.flag(rows)


@pytest.mark.parametrize(
    "wrong",
    [
        rule(
            "unexpected_rows_expectation", "critical", unexpected_rows_query="SELECT * FROM {batch} WHERE no_such > 1"
        ),
        rule("expect_column_mean_to_be_between", "info", column="no_such", min_value=1),
        rule("expect_column_values_to_be_of_type", "info", column="delay", type_="NoSuchType"),
    ],
)
def test_an_expectation_that_raises_produces_an_error_and_no_verdict(
    rows: DataFrame, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    gate = gate_of(tmp_path, rule("expect_column_values_to_not_be_null", "info", column="origin"), wrong)
    flagged = gate.flag(rows)
    with pytest.raises(SpecError, match=rf"{wrong['type']}\) raised on this batch") as raised:
        gate.judge(flagged, flow="silver", app_id="x/silver/v1/0", batch_id=0)
    assert CANARY not in str(raised.value)


def test_the_error_of_a_row_rule_does_not_contain_the_value(rows: DataFrame, tmp_path: Path) -> None:
    gate = gate_of(
        tmp_path,
        rule("expect_column_values_to_not_be_null", "info", column="origin"),
        rule("expect_column_values_to_be_in_set", "warning", column="tail", value_set=[1, 2]),
    )
    flagged = gate.flag(rows).persist()
    with pytest.raises(SpecError, match=r"in_set\(tail\) .* raised on this batch: CAST_INVALID_INPUT") as raised:
        gate.judge(flagged, flow="silver", app_id="x/silver/v1/0", batch_id=0)
    flagged.unpersist()
    assert CANARY not in "".join(traceback.format_exception(raised.value))


def test_the_error_of_unreadable_rows_is_raised_unchanged(rows: DataFrame, tmp_path: Path) -> None:
    from pyspark.errors import NumberFormatException

    gate = gate_of(tmp_path, rule("expect_column_values_to_not_be_null", "info", column="origin"))
    flagged = gate.flag(rows.selectExpr("CAST(tail AS int) AS origin"))
    with pytest.raises(NumberFormatException):
        gate.judge(flagged, flow="silver", app_id="x/silver/v1/0", batch_id=0)


def test_a_query_works_in_a_stream_whose_batches_have_another_session(spark: SparkSession, tmp_path: Path) -> None:
    gate = gate_of(
        tmp_path,
        rule("unexpected_rows_expectation", "critical", unexpected_rows_query="SELECT * FROM {batch} WHERE delay < 0"),
        rule("expect_column_values_to_be_between", "warning", column="delay", max_value=50, mostly=0.5),
    )
    landing = tmp_path / "landing"
    spark.createDataFrame([(10,), (60,)], "delay int").coalesce(1).write.parquet(str(landing))
    outcomes: list[str] = []
    clones: list[bool] = []
    views: list[int] = []

    def write(batch: DataFrame, batch_id: int) -> None:
        clones.append(batch.sparkSession._jsparkSession.equals(spark._jsparkSession))
        flagged = gate.flag(batch).persist()
        outcomes.append(gate.judge(flagged, flow="silver", app_id="x/silver/v1/0", batch_id=batch_id).outcome)
        views.append(len(batch.sparkSession.catalog.listTables()))
        flagged.unpersist()

    def drain() -> None:
        stream = spark.readStream.schema("delay int").parquet(str(landing)).writeStream.foreachBatch(write)
        query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    drain()
    spark.createDataFrame([(-1,)], "delay int").coalesce(1).write.mode("append").parquet(str(landing))
    drain()
    assert outcomes == ["split", "refused"]
    assert clones == [False, False]
    assert views == [0, 0]


def test_more_rules_do_not_read_the_batch_more_often(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    few = [rule("expect_column_values_to_not_be_null", "critical", column="origin", mostly=0.5)]
    many = [
        *few,
        rule("expect_column_values_to_match_regex", "warning", column="tail", regex="^N"),
        rule("expect_column_value_lengths_to_be_between", "warning", column="tail", max_value=20),
        rule("expect_column_values_to_be_between", "warning", column="delay", min_value=0),
        rule("expect_column_values_to_be_in_set", "info", column="origin", value_set=["JFK"]),
        rule("expect_column_max_to_be_between", "critical", column="delay", max_value=1000),
        rule("expect_table_row_count_to_be_between", "critical", min_value=1),
    ]
    assert jobs(spark, gate_of(tmp_path, *many), rows) == jobs(spark, gate_of(tmp_path, *few), rows) > 0


def jobs(spark: SparkSession, gate: SuiteGate, rows: DataFrame) -> int:
    """The number of Spark jobs of a judgement."""
    flagged, context = gate.flag(rows), spark.sparkContext
    group = f"judge-{len(gate.suite.expectations)}"
    context.setJobGroup(group, group)
    try:
        gate.judge(flagged, flow="silver", app_id="flights/silver/v1/0", batch_id=0)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # clears it
    # A listener counts the jobs asynchronously.
    context._jsc.sc().listenerBus().waitUntilEmpty(30_000)
    return len(context.statusTracker().getJobIdsForGroup(group))
