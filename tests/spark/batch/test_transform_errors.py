"""Rows on which the transform raises go to quarantine: they are found by bisecting the batch, within a bound."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.batch.splits import NEW, ORDERS, Open, counts, refused, split, stored, write
from tests.spark.job import (
    GOLD,
    LATEST,
    PLANNED_MS,
    SILVER,
    changes,
    job_of,
    landed,
    plan_batch,
    table,
    transaction,
    write_table,
)
from tests.spark.orders import Declare, Orders, row
from tidegate.checkpoints import refusal
from tidegate.errors import SpecError, TransformRefusedError
from tidegate.errors.refusals import TransformRefusal
from tidegate.lake.place import PipelinePlace
from tidegate.spark.batch import quarantine, transform_errors
from tidegate.spark.batch.groups import split_groups
from tidegate.spark.batch.rows import split_rows
from tidegate.spark.batch.split import Decision
from tidegate.spark.flow import record_refusal
from tidegate.spark.reprocessing.replay import Replay
from tidegate.spec import Thresholds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

SPLIT_BEFORE = Decision(quarantined=True, written=False)
SECRET = "secret@example.org"


class Dividing:
    """Divides by ``amount - 666``. Counts how often it is called, which is once per evaluation."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        self.calls += 1
        return rows.withColumn("part", F.expr("100 DIV (amount - 666)"))


@pytest.fixture
def dividing() -> Dividing:
    return Dividing()


def numbered(number: int, *bad: int) -> list[tuple[int, int, int]]:
    """This many orders; the amount of the bad ones is 666."""
    return [(order, 1, 666 if order in bad else order) for order in range(number)]


def limited(job: Job, share: float | None) -> Job:
    """The job with a declared share."""
    limits = Thresholds(transform_error_share=share)
    flow = dataclasses.replace(job.flow, transform="orders:clean", thresholds=limits)
    pipeline = dataclasses.replace(
        job.resolved.pipeline,
        flows=tuple(flow if each.name == flow.name else each for each in job.resolved.pipeline.flows),
    )
    return dataclasses.replace(job, resolved=dataclasses.replace(job.resolved, flow=flow, pipeline=pipeline))


def test_a_batch_on_which_the_transform_does_not_raise_is_evaluated_once(latest: Open, dividing: Dividing) -> None:
    split(latest(dividing), *numbered(3))

    assert dividing.calls == 1


def test_one_bad_row_among_many_is_found_in_few_evaluations_and_the_others_are_written(
    latest: Open, dividing: Dividing
) -> None:
    job = latest(dividing)

    result = split(job, *numbered(64, 41))

    assert counts(result.prepared) == {"read": 64, "written": 63, "quarantined": 1}
    assert refused(result) == {"41|1|insert": ["transform_error(DIVIDE_BY_ZERO)"]}
    assert result.prepared.rules == {"transform_error(DIVIDE_BY_ZERO)": 1}
    assert dividing.calls <= 2 + 2 * 6, "the first, the last, and two for each halving of 64 rows"
    write(job, result)
    assert {order for (order,) in stored(job, "id")} == {*range(64)} - {41}
    assert "DIVIDE_BY_ZERO on 1 row" in job.run.report.notes[0]


def test_several_bad_rows_have_the_classes_of_their_own_exceptions(latest: Open) -> None:
    def parsed(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("*", "100 DIV (amount - 7) AS part", "make_date(2026, amount, 1) AS month")

    result = split(limited(latest(parsed), 0.5), *((order, 1, order + 5) for order in range(10)))

    assert refused(result) == {
        "2|1|insert": ["transform_error(DIVIDE_BY_ZERO)"],
        **{f"{order}|1|insert": ["transform_error(DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION)"] for order in (8, 9)},
    }


def test_the_class_of_a_python_exception_is_its_type_and_an_unreadable_record_needs_no_transform(
    spark: SparkSession, latest: Open
) -> None:
    """The function would raise an AttributeError for the record whose fields are NULL."""
    from pyspark.sql import functions as F

    class NotThirteenError(Exception):
        pass

    @F.udf("int", useArrow=False)
    def strict(amount: int) -> int:
        if amount == 13:
            raise NotThirteenError(f"{SECRET}\nValueError: {SECRET}")
        return amount.bit_length()

    lines = ['{"id": 1, "at": 1, "amount": 5}', "{not json", '{"id": 2, "at": 1, "amount": 13}']
    job = latest(lambda rows: rows.withColumn("bits", strict("amount")), flow=SILVER)

    result = split_rows(job, landed(spark, *lines), 0, NEW)

    assert result is not None and result.refused is not None
    entries = {each["_row_id"]: each for each in result.refused.collect()}
    assert {name: entry["rules"] for name, entry in entries.items()} == {
        "a#1": ["malformed_json"],
        "a#2": ["transform_error(NotThirteenError)"],
    }
    source = json.loads(entries["a#2"]["source"])
    assert (source["path"], source["line"], entries["a#2"]["record"]) == ("/a", 2, lines[2])
    assert counts(result.prepared) == {"read": 3, "written": 1, "quarantined": 2}


@pytest.mark.parametrize(
    ("share", "bad", "quarantined"),
    [
        (0.5, 4, 4),
        (0, 1, None),
        pytest.param(0.01, 1, 1, marks=pytest.mark.nightly),
        pytest.param(0.5, 5, None, marks=pytest.mark.nightly),
    ],
)
def test_rows_up_to_the_declared_share_go_to_quarantine_and_a_single_row_unless_it_is_zero(
    latest: Open, dividing: Dividing, share: float, bad: int, quarantined: int | None
) -> None:
    job = limited(latest(dividing), share)
    rows = numbered(8, *range(bad))

    if quarantined is not None:
        assert split(job, *rows).prepared.quarantined == quarantined
        return
    with pytest.raises(TransformRefusedError, match="DIVIDE_BY_ZERO on more rows than allowed"):
        split(job, *rows)


def test_a_refusal_names_flow_class_places_and_next_step_and_neither_it_nor_a_log_has_a_value(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def cast(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("*", f"CAST(IF(amount = 666, '{SECRET}', '1') AS INT) AS part")

    flow = dataclasses.replace(SILVER, transform="orders:clean")
    job = job_of(spark, tmp_path, flow, transform=cast)
    lines = [json.dumps({"id": order, "at": 1, "amount": amount}) for order, _, amount in numbered(8, 2, 3, 4, 5)]

    with pytest.raises(TransformRefusedError) as caught:
        split_rows(job, landed(spark, *lines), 3, NEW)

    message = caught.value.message
    assert message.startswith(
        "flow 'silver': batch 3 refused: transform 'orders:clean' raises CAST_INVALID_INPUT on more rows than"
    )
    assert "at least 2 of 8 rows (transform_error_share 0.1); for example /a line 2, /a line 3." in message
    assert "quarantine take orders silver" in message and "run the flow again" in message
    assert SECRET not in message + "".join(capfd.readouterr()) and caught.value.__cause__ is None
    assert caught.value.refusal() == TransformRefusal(batch_id=3, code_fingerprint="", transform_error_share=0.1)
    (verdict,) = job.run.report.verdicts
    assert (verdict.outcome, verdict.suite) == ("refused", "")
    assert [result.summary() for result in verdict.refusing()] == [
        "transform_error(CAST_INVALID_INPUT) (2 of 8 rows break it)"
    ]
    assert [line["outcome"] for line in table(PipelinePlace(job.place.layout, "orders").ops("verdicts"))] == ["refused"]


def test_the_search_ends_after_a_bounded_number_of_evaluations(
    latest: Open, dividing: Dividing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transform_errors, "EVALUATIONS", 9)

    with pytest.raises(TransformRefusedError, match=r"on at least \d+ of 64 rows; the search ended after [89] eval"):
        split(limited(latest(dividing), None), *numbered(64, *range(0, 64, 4)))

    assert dividing.calls <= 1 + 9


@pytest.mark.nightly
def test_a_transform_that_raises_on_every_row_of_a_large_batch_is_refused_without_a_search(
    latest: Open, dividing: Dividing
) -> None:
    with pytest.raises(TransformRefusedError, match="on each of 16 rows spread over its 200"):
        split(limited(latest(dividing), 0.1), *numbered(200, *range(200)))

    assert dividing.calls == 1 + 16


def test_a_transform_that_raises_without_those_rows_as_well_refuses_the_batch(latest: Open) -> None:
    def at_most_two(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("*", "IF(count(*) OVER () > 2, raise_error('too many'), 0) AS part")

    with pytest.raises(TransformRefusedError, match="USER_RAISED_EXCEPTION also without the rows"):
        split(latest(at_most_two), *numbered(4))


def test_an_exception_that_no_value_causes_is_passed_on(latest: Open) -> None:
    from pyspark.errors import AnalysisException, PythonException
    from pyspark.sql import functions as F

    @F.udf("int", useArrow=False)
    def unreachable(amount: int) -> int:
        raise ConnectionRefusedError(f"{amount}")

    calls: list[str] = []

    def fetching(rows: DataFrame) -> DataFrame:
        calls.append("fetching")
        return rows.withColumn("part", unreachable("amount"))

    with pytest.raises(AnalysisException):
        split(latest(lambda rows: rows.selectExpr("*", "no_such_column")), *numbered(4))
    with pytest.raises(PythonException):
        split(latest(fetching), *numbered(4))

    assert calls == ["fetching"]


def crash_before_the_target(job: Job, *rows: tuple[Any, ...]) -> None:
    """Write the quarantine of batch 0 only."""
    result = split(job, *rows)
    assert result.refused is not None
    quarantine.append(job, result.refused, 0, transaction(job, 0), PLANNED_MS)


def test_in_a_rerun_the_rows_in_quarantine_leave_before_the_transform(latest: Open, dividing: Dividing) -> None:
    """Also the one that broke another rule."""
    rows = [*numbered(6, 4), (None, 1, 1)]
    crash_before_the_target(latest(dividing), *rows)
    transformed: list[str] = []

    def recording(rows: DataFrame) -> DataFrame:
        transformed.extend(each["_row_id"] for each in rows.select("_row_id").collect())
        return dividing(rows)

    dividing.calls = 0
    job = latest(recording)
    result = split_rows(job, changes(job.spark, ORDERS, *rows), 0, SPLIT_BEFORE)

    assert result is not None
    assert dividing.calls == 1
    assert sorted(transformed) == [f"{order}|1|insert" for order in (0, 1, 2, 3, 5)]
    assert refused(result) == {"4|1|insert": ["transform_error(DIVIDE_BY_ZERO)"], "1|insert": ["null_key(id)"]}
    assert counts(result.prepared) == {"read": 7, "written": 5, "quarantined": 2}
    write(job, result)
    assert sorted(stored(job, "id")) == [(0,), (1,), (2,), (3,), (5,)]


@pytest.mark.nightly
def test_a_rerun_with_a_transform_that_raises_on_rows_that_passed_stops(latest: Open, dividing: Dividing) -> None:
    rows = numbered(3, 1)
    crash_before_the_target(latest(dividing), *rows)
    job = latest(lambda rows: rows.selectExpr("*", "100 DIV id AS part"))

    with pytest.raises(SpecError, match="raises DIVIDE_BY_ZERO on rows that passed then"):
        split_rows(job, changes(job.spark, ORDERS, *rows), 0, SPLIT_BEFORE)


@pytest.mark.nightly
def test_replayed_entries_that_raise_again_are_refused_with_the_new_reason_whatever_their_share(
    spark: SparkSession, tmp_path: Path, dividing: Dividing
) -> None:
    claim = Replay(by="ada", number=3, started_ms=PLANNED_MS, entries=())
    job = job_of(spark, tmp_path, LATEST, transform=dividing, work=claim)

    result = split(job, *numbered(3, 1, 2))

    assert set(refused(result)) == {"1|1|insert", "2|1|insert"}
    assert job.run.report.verdicts == []


@pytest.mark.nightly
def test_a_batch_that_a_person_takes_out_needs_no_transform_and_no_gate(latest: Open, dividing: Dividing) -> None:
    job = latest(dividing)
    plan_batch(job, 0)
    with pytest.raises(TransformRefusedError) as caught:
        split(job, *numbered(4, 1, 2))
    record_refusal(job, caught.value)
    refusal.decide(job.place, LATEST, by="ada", reason="of another airport")

    result = split(job, *numbered(4, 1, 2))

    assert set(map(tuple, refused(result).values())) == {("refused_batch",)}
    assert counts(result.prepared) == {"read": 4, "quarantined": 4}


def test_a_group_flow_whose_transform_raises_refuses_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    def ratio(rows: DataFrame) -> DataFrame:
        return rows.groupBy("day").agg({"amount": "sum"}).selectExpr("day", "1 DIV `sum(amount)` AS part")

    job = job_of(spark, tmp_path, GOLD, transform=ratio)
    assert job.source_table is not None
    columns = "id int, day int, amount int"
    write_table(job.source_table, columns, (1, 1, 10), (2, 2, 0))

    with pytest.raises(TransformRefusedError) as caught:
        split_groups(job, changes(spark, columns, (1, 1, 10), (2, 2, 0), version=0), 5, NEW)

    message = caught.value.message
    assert message.startswith(
        "flow 'gold': batch 5 refused: transform 'orders:daily' raises DIVIDE_BY_ZERO for some group"
    )
    assert "take" not in message and caught.value.__cause__ is None
    assert not job.target.exists() and [verdict.outcome for verdict in job.run.report.verdicts] == ["refused"]


NOTES = "id INT NOT NULL, at DATE, amount DOUBLE, noted STRING"
STRICT = 'F.to_timestamp("noted", "yyyy-MM-dd").alias("noted")'
CORRECTED = 'F.try_to_timestamp("noted", F.lit("yyyy-MM-dd")).alias("noted")'


@pytest.mark.nightly
def test_a_flow_goes_on_with_bad_rows_and_refuses_too_many_until_the_transform_is_corrected(
    orders: Orders, declare: Declare
) -> None:
    """In whole runs: the quarantine, the refusal and what plan says of it, the same batch after the change, and a replay."""
    declare(schema=NOTES, columns=STRICT)
    orders.land(*(row(number, noted=SECRET if number == 3 else "2026-01-01") for number in range(8)))
    report = orders.run("bronze", "silver", "gold")
    assert [flow.state for flow in report.flows] == ["done", "done", "done"]
    assert orders.quarantined() == [["transform_error(CANNOT_PARSE_TIMESTAMP)"]]

    orders.land(*(row(number, noted=SECRET) for number in (10, 11)), row(12, noted="2026-01-02"))
    silver = orders.run("bronze", "silver").flow("silver")
    assert silver.state == "refused" and silver.error is not None
    assert silver.error.kind == "TransformRefusedError" and silver.error.exit_code == 65
    assert "2.json line 1" in silver.error.message and SECRET not in repr(silver.error)
    plan = orders.plan()
    assert not plan.work
    assert any("batch 1 was refused, because transform orders:clean raises" in reason for reason in plan.reasons)

    declare(schema=NOTES, columns=CORRECTED)
    assert orders.plan().work
    silver = orders.run("silver").flow("silver")
    assert [(batch.batch_id, batch.read, batch.written) for batch in silver.batches] == [(1, 3, 3)]
    replayed = orders.deployment.replay("silver", "orders")
    assert (replayed.total("read"), replayed.total("written"), replayed.error) == (1, 1, None)
    assert [each["id"] for each in orders.silver()] == [*range(8), 10, 11, 12]
