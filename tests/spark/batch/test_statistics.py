"""Statistics of a batch hold or drop it before it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.batch.splits import ORDERS, Open, stored
from tests.spark.job import GOLD, LATEST, changes, plan_batch, table, write_table
from tidegate.checkpoints import progress, refusal
from tidegate.errors import BatchHeldError, SpecError
from tidegate.lake.place import PipelinePlace
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.work import Staged
from tidegate.spark.flow import record_refusal
from tidegate.spec import Statistic

if TYPE_CHECKING:
    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

ROWS = Statistic("rows", "count(*)", rule="value >= 0.5 * median")


def measuring(latest: Open, *statistics: Statistic, **more: Any) -> Job:
    return latest(flow=replace(more.pop("flow", LATEST), statistics=statistics), **more)


def process(job: Job, batch_id: int, *rows: tuple[Any, ...]) -> None:
    plan_batch(job, batch_id)
    micro_batch.process(job, changes(job.spark, ORDERS, *rows), batch_id)
    Path(job.place.checkpoint / "commits").mkdir(exist_ok=True)
    Path(job.place.checkpoint / "commits" / str(batch_id)).write_text("v1\n{}")


def orders(first: int, number: int) -> list[tuple[int, int, int]]:
    return [(first + each, 1, 10) for each in range(number)]


def outcomes(job: Job) -> list[tuple[int, str]]:
    lines = table(PipelinePlace(job.place.layout, "orders").ops("verdicts"))
    return [(line["batch_id"], line["outcome"]) for line in sorted(lines, key=lambda line: line["recorded_at"])]


def test_a_batch_that_breaks_the_rule_waits_until_it_is_accepted_and_then_counts_as_an_earlier_batch(
    latest: Open,
) -> None:
    job = measuring(latest, ROWS)
    process(job, 0, *orders(0, 8))
    process(job, 1, *orders(10, 8), (None, 1, 1), (99, 1, 1, "delete", 2))

    with pytest.raises(
        BatchHeldError, match=r"3 breaks value >= 0\.5 \* median; median 8 of 2 earlier batches"
    ) as raised:
        process(job, 2, *orders(20, 3))

    assert outcomes(job) == [(0, "passed"), (1, "passed"), (2, "refused")]
    assert {row[0] for row in stored(job, "id")} == {*range(8), *range(10, 18), 99}, "nothing of it was written"
    assert progress.read(job.place.checkpoint).pending_batch == 2
    record_refusal(job, raised.value)
    refusal.decide(job.place, job.flow, by="ada", reason="a holiday", action="accept")

    process(job, 2, *orders(20, 3))
    process(job, 3, *orders(30, 4))

    assert outcomes(job)[3:] == [(2, "passed"), (3, "passed")], "the median is 8 still"
    (accepted,) = job.run.report.verdicts[3].results
    assert (accepted.success, accepted.observed) == (False, 3)
    assert accepted.note.endswith("; accepted by ada: a holiday")
    assert job.run.report.verdicts[4].results[0].note.endswith("median 8 of 3 earlier batches")
    assert refusal.decision(job.place, 2) is None, "the decision is cleared with its batch"


@pytest.mark.nightly
def test_a_value_that_is_no_number_counts_as_null_and_is_no_earlier_value(latest: Open) -> None:
    mean = Statistic("amount", "avg(if(id = 0, double('NaN'), amount))", rule="value <= mean")
    job = measuring(latest, mean)

    for batch_id in (0, 1, 2):
        process(job, batch_id, (batch_id, 1, 10))

    notes = [verdict.results[0].note for verdict in job.run.report.verdicts]
    assert [note.partition(" ")[0] for note in notes] == ["NULL", "10", "10"]
    assert notes[2].endswith("median 10 of 1 earlier batch")


def test_all_rows_of_a_dropped_batch_are_counted_and_kept_as_waived_entries(latest: Open) -> None:
    drop = replace(ROWS, otherwise="drop")
    suite = [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "max_value": 50}}]
    job = measuring(latest, drop, suite=suite)
    process(job, 0, *orders(0, 8))

    process(job, 1, (20, 1, 10), (21, 1, 99), (None, 1, 10))
    process(job, 2, *orders(30, 4))

    dropped = job.run.report.batches[1]
    assert (dropped.read, dropped.written, dropped.quarantined, dropped.imbalance()) == (3, 0, 3, 0)
    assert dropped.rules == {"dropped(rows)": 3, "null_key(id)": 1}
    entries = table(job.place.quarantine)
    assert {(entry["state"], entry["changed_by"], entry["reason"]) for entry in entries} == {
        ("waived", "tidegate", "a statistic dropped its batch")
    }
    assert outcomes(job) == [(0, "passed"), (1, "dropped"), (2, "passed")]
    assert len(stored(job)) == 12
    assert job.run.report.verdicts[2].results[0].note.endswith("median 8 of 1 earlier batch"), "it is not compared with"


def test_a_taken_out_or_a_staged_batch_is_not_measured(latest: Open) -> None:
    never = replace(ROWS, rule="value < 0")
    job = measuring(latest, never)
    with pytest.raises(BatchHeldError) as raised:
        process(job, 0, *orders(0, 2))
    record_refusal(job, raised.value)
    refusal.decide(job.place, job.flow, by="ada", reason="wrong")

    process(job, 0, *orders(0, 2))

    assert job.run.report.batches[0].rules == {"refused_batch": 2}
    assert {entry["state"] for entry in table(job.place.quarantine)} == {"open"}
    staged = measuring(latest, never, version=2, work=Staged())
    process(staged, 0, *orders(0, 2))
    assert staged.run.report.batches[0].written == 2


@pytest.mark.parametrize(
    ("statistic", "message"),
    [
        (replace(ROWS, expression="sum(price)"), r"UNRESOLVED_COLUMN.*write an aggregate"),
        (replace(ROWS, expression="max(CAST(id AS STRING))"), "type string; it must be a number"),
        (replace(ROWS, expression="count("), "PARSE_SYNTAX_ERROR"),
        (replace(ROWS, expression="sum(1 / (amount - 10))"), "raises DIVIDE_BY_ZERO on a value"),
        (replace(ROWS, rule="count > 1"), "rule 'count > 1' cannot be evaluated"),
        (replace(ROWS, rule="value + 1"), "has the type double; it must be a condition"),
        (replace(ROWS, rule="value / 0 > 1"), "raises DIVIDE_BY_ZERO"),
    ],
    ids=lambda each: each.expression + each.rule if isinstance(each, Statistic) else "",
)
def test_a_statistic_that_cannot_be_evaluated_is_an_error_that_says_so(
    latest: Open, statistic: Statistic, message: str
) -> None:
    job = measuring(latest, statistic)

    with pytest.raises(SpecError, match=message):
        process(job, 0, *orders(0, 2))

    assert stored(job) == []


def test_recomputed_groups_are_held_and_accepted(latest: Open) -> None:
    def daily(rows: Any) -> Any:
        from pyspark.sql import functions as F

        return rows.groupBy("day").agg(F.sum("amount").alias("total"))

    least = Statistic("total", "sum(total)", rule="value >= 10 AND size(earlier) = 0 AND mean IS NULL")
    job = measuring(latest, least, flow=GOLD, transform=daily)
    assert job.source_table is not None
    write_table(job.source_table, "id int, day int, amount int", (1, 1, 4))

    def recompute() -> None:
        plan_batch(job, 0)
        feed = changes(job.spark, "id int, day int, amount int", (1, 1, 4), version=0)
        micro_batch.process(job, feed, 0)

    with pytest.raises(BatchHeldError) as raised:
        recompute()
    assert table(job.target) == []
    assert "quarantine accept" in raised.value.message
    assert "quarantine take" not in raised.value.message, "groups cannot be quarantined"
    record_refusal(job, raised.value)
    refusal.decide(job.place, job.flow, by="ada", reason="x", action="accept")

    recompute()

    assert table(job.target) == [{"day": 1, "total": 4}]
