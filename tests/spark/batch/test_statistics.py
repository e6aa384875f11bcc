"""Statistics of a batch hold or drop it before it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.batch.splits import ORDERS, Open, stored
from tests.spark.flow_context import GOLD, LATEST, changes, plan_batch, table, write_table
from tidegate.checkpoints import progress, refusal
from tidegate.errors import BatchHeldError, SpecError
from tidegate.place import PipelinePlace
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.work import Staged
from tidegate.spark.flow import record_refusal
from tidegate.spec import Statistic

if TYPE_CHECKING:
    from tidegate.spark.context import FlowContext

pytestmark = pytest.mark.jvm

ROWS = Statistic("rows", "count(*)", rule="value >= 0.5 * median")


def measuring(latest: Open, *statistics: Statistic, **more: Any) -> FlowContext:
    return latest(flow=replace(more.pop("flow", LATEST), statistics=statistics), **more)


def process(context: FlowContext, batch_id: int, *rows: tuple[Any, ...]) -> None:
    plan_batch(context, batch_id)
    micro_batch.process(context, changes(context.spark, ORDERS, *rows), batch_id)
    Path(context.checkpoint / "commits").mkdir(exist_ok=True)
    Path(context.checkpoint / "commits" / str(batch_id)).write_text("v1\n{}")


def orders(first: int, number: int) -> list[tuple[int, int, int]]:
    return [(first + each, 1, 10) for each in range(number)]


def outcomes(context: FlowContext) -> list[tuple[int, str]]:
    lines = table(PipelinePlace(context.layout, "orders").ops("verdicts"))
    return [(line["batch_id"], line["outcome"]) for line in sorted(lines, key=lambda line: line["recorded_at"])]


def test_a_batch_that_breaks_the_rule_waits_until_it_is_accepted_and_then_counts_as_an_earlier_batch(
    latest: Open,
) -> None:
    context = measuring(latest, ROWS)
    process(context, 0, *orders(0, 8))
    process(context, 1, *orders(10, 8), (None, 1, 1), (99, 1, 1, "delete", 2))

    with pytest.raises(
        BatchHeldError, match=r"3 breaks value >= 0\.5 \* median; median 8 of 2 earlier batches"
    ) as raised:
        process(context, 2, *orders(20, 3))

    assert outcomes(context) == [(0, "passed"), (1, "passed"), (2, "refused")]
    assert {row[0] for row in stored(context, "id")} == {*range(8), *range(10, 18), 99}, "nothing of it was written"
    assert progress.read(context.checkpoint).pending_batch == 2
    record_refusal(context, raised.value)
    refusal.decide(context.place, context.flow, by="ada", reason="a holiday", action="accept")

    process(context, 2, *orders(20, 3))
    process(context, 3, *orders(30, 4))

    assert outcomes(context)[3:] == [(2, "passed"), (3, "passed")], "the median is 8 still"
    (accepted,) = context.report.verdicts[3].results
    assert (accepted.success, accepted.observed) == (False, 3)
    assert accepted.note.endswith("; accepted by ada: a holiday")
    assert context.report.verdicts[4].results[0].note.endswith("median 8 of 3 earlier batches")
    assert refusal.decision(context.place, 2) is None, "the decision is cleared with its batch"


def test_a_value_that_is_no_number_counts_as_null_and_is_no_earlier_value(latest: Open) -> None:
    mean = Statistic("amount", "avg(if(id = 0, double('NaN'), amount))", rule="value <= mean")
    context = measuring(latest, mean)

    for batch_id in (0, 1, 2):
        process(context, batch_id, (batch_id, 1, 10))

    notes = [verdict.results[0].note for verdict in context.report.verdicts]
    assert [note.partition(" ")[0] for note in notes] == ["NULL", "10", "10"]
    assert notes[2].endswith("median 10 of 1 earlier batch")


def test_all_rows_of_a_dropped_batch_are_counted_and_kept_as_waived_entries(latest: Open) -> None:
    drop = replace(ROWS, otherwise="drop")
    suite = [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "amount", "max_value": 50}}]
    context = measuring(latest, drop, suite=suite)
    process(context, 0, *orders(0, 8))

    process(context, 1, (20, 1, 10), (21, 1, 99), (None, 1, 10))
    process(context, 2, *orders(30, 4))

    dropped = context.report.batches[1]
    assert (dropped.read, dropped.written, dropped.quarantined, dropped.imbalance()) == (3, 0, 3, 0)
    assert dropped.rules == {"dropped(rows)": 3, "null_key(id)": 1}
    entries = table(context.quarantine)
    assert {(entry["state"], entry["changed_by"], entry["reason"]) for entry in entries} == {
        ("waived", "tidegate", "a statistic dropped its batch")
    }
    assert outcomes(context) == [(0, "passed"), (1, "dropped"), (2, "passed")]
    assert len(stored(context)) == 12
    assert context.report.verdicts[2].results[0].note.endswith("median 8 of 1 earlier batch"), "it is not compared with"


def test_a_taken_out_or_a_staged_batch_is_not_measured(latest: Open) -> None:
    never = replace(ROWS, rule="value < 0")
    context = measuring(latest, never)
    with pytest.raises(BatchHeldError) as raised:
        process(context, 0, *orders(0, 2))
    record_refusal(context, raised.value)
    refusal.decide(context.place, context.flow, by="ada", reason="wrong")

    process(context, 0, *orders(0, 2))

    assert context.report.batches[0].rules == {"refused_batch": 2}
    assert {entry["state"] for entry in table(context.quarantine)} == {"open"}
    staged = measuring(latest, never, version=2, work=Staged())
    process(staged, 0, *orders(0, 2))
    assert staged.report.batches[0].written == 2


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
    context = measuring(latest, statistic)

    with pytest.raises(SpecError, match=message):
        process(context, 0, *orders(0, 2))

    assert stored(context) == []


def test_recomputed_groups_are_held_and_accepted(latest: Open) -> None:
    def daily(rows: Any) -> Any:
        from pyspark.sql import functions as F

        return rows.groupBy("day").agg(F.sum("amount").alias("total"))

    least = Statistic("total", "sum(total)", rule="value >= 10 AND size(earlier) = 0 AND mean IS NULL")
    context = measuring(latest, least, flow=GOLD, transform=daily)
    assert context.source_table is not None
    write_table(context.source_table, "id int, day int, amount int", (1, 1, 4))

    def recompute() -> None:
        plan_batch(context, 0)
        feed = changes(context.spark, "id int, day int, amount int", (1, 1, 4), version=0)
        micro_batch.process(context, feed, 0)

    with pytest.raises(BatchHeldError) as raised:
        recompute()
    assert table(context.target) == []
    assert "quarantine accept" in raised.value.message
    assert "quarantine take" not in raised.value.message, "groups cannot be quarantined"
    record_refusal(context, raised.value)
    refusal.decide(context.place, context.flow, by="ada", reason="x", action="accept")

    recompute()

    assert table(context.target) == [{"day": 1, "total": 4}]
