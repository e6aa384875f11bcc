"""Groups that the change feed names are recomputed as of its version, compared with the table, and never set aside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.flow_context import GOLD, changes, flow_context, stand, table, transaction
from tidegate.errors import GateRefusedError, LedgerImbalanceError, SpecError
from tidegate.spark.batch.groups import replacement, split_groups
from tidegate.spark.batch.split import Decision, Split, check_arrived, settle
from tidegate.spark.lake import local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.context import FlowContext

pytestmark = pytest.mark.jvm

ORDERS = "id int, day int, amount int"
NEW = Decision(quarantined=False, written=False)


def daily(rows: DataFrame) -> DataFrame:
    """The transform: a row for each day."""
    from pyspark.sql import functions as F

    return rows.groupBy("day").agg(F.count("*").alias("orders"), F.sum("amount").cast("int").alias("total"))


@pytest.fixture(params=["few"])
def few_or_many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is few comes to the driver; many groups stay frames. Most tests look at few."""
    if request.param == "many":
        monkeypatch.setattr(local, "ROWS", 0)


BOTH = pytest.mark.parametrize("few_or_many", ["few", "many"], indirect=True)


@pytest.fixture
def gold(few_or_many: None, spark: SparkSession, tmp_path: Path) -> Callable[..., FlowContext]:
    def make(transform: Callable[[DataFrame], DataFrame] = daily, **more: Any) -> FlowContext:
        return flow_context(spark, tmp_path, GOLD, transform=transform, **more)

    return make


def source(context: FlowContext, *rows: tuple[Any, ...], columns: str = ORDERS) -> None:
    """The next version of the table that the flow reads."""
    assert context.source_table is not None
    stand(context.source_table, columns, *rows)


def standing(context: FlowContext, *rows: tuple[Any, ...]) -> None:
    """What the target holds."""
    stand(context.target, "day int, orders bigint, total int", *rows)


def split(context: FlowContext, *fed: tuple[Any, ...], version: int = 0, batch_id: int = 0) -> Split:
    result = split_groups(context, changes(context.spark, ORDERS, *fed, version=version), batch_id, NEW)
    assert result is not None
    assert result.planned.imbalance() == 0
    assert result.refused is None
    return result


def write(context: FlowContext, result: Split) -> dict[str, int]:
    """Write the target; all counts of the ledger's line that are not 0."""
    commit = result.write(transaction(context, result.planned.batch_id))
    check_arrived(context, result, commit)
    line = settle(result.planned, commit, result.settled)
    assert line.imbalance() == 0
    names = ("read", "groups", "upserted", "deleted", "unchanged")
    return {name: number for name in names if (number := getattr(line, name))}


def fed_by(context: FlowContext, version: int) -> list[Any]:
    """The changes that a version of the target tells its readers."""
    feed = context.spark.read.format("delta").option("readChangeFeed", "true")
    return feed.option("startingVersion", version).load(str(context.target)).collect()


def stored(context: FlowContext) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table(context.target)]


@BOTH
def test_the_groups_that_the_feed_names_are_recomputed_and_no_other(gold: Callable[..., FlowContext]) -> None:
    """A group of NULL is one beside the others; the group that a row left is named by its pre-image alone."""
    given: list[int] = []

    def watched(rows: DataFrame) -> DataFrame:
        given.extend(row["id"] for row in rows.select("id").collect())
        return daily(rows)

    context = gold(watched)
    source(context, (1, 1, 10), (2, 1, 20), (3, 2, 30), (4, 3, 40), (5, None, 50), (6, None, 60), (7, 7, 70))
    standing(context, (1, 1, 10), (2, 1, 31), (3, 1, 40), (None, 1, 50), (8, 1, 70), (9, 9, 9))

    result = split(
        context,
        (2, 1, 20),
        (3, 2, 30),
        (6, None, 60),
        (7, 8, 70, "update_preimage"),
        (7, 7, 70, "update_postimage"),
        (5, None, 50),
    )

    assert sorted(given) == [1, 2, 3, 5, 6, 7]
    assert (result.planned.kind, result.arriving) == ("recompute", 5)
    assert (result.planned.flow, result.planned.app_id) == ("gold", "orders/gold/v1/0")
    assert write(context, result) == {"read": 5, "groups": 5, "upserted": 4, "deleted": 1}
    assert stored(context) == [(1, 2, 30), (2, 1, 30), (3, 1, 40), (7, 1, 70), (9, 9, 9), (None, 2, 110)]


@BOTH
def test_a_group_of_null_is_compared_with_the_tables_and_can_be_deleted(gold: Callable[..., FlowContext]) -> None:
    context = gold()
    source(context, (3, 1, 30), (4, None, 40))
    standing(context, (None, 1, 40), (1, 1, 30), (3, 1, 30))
    assert write(context, split(context, (4, None, 40), (3, 1, 30))) == {"read": 2, "groups": 2, "unchanged": 2}
    source(context, (3, 1, 30))

    result = split(context, (4, None, 40, "delete"), version=1, batch_id=1)

    assert write(context, result) == {"read": 1, "groups": 1, "deleted": 1}
    assert stored(context) == [(1, 1, 30), (3, 1, 30)]


def test_a_group_is_named_once_however_many_of_its_rows_changed(gold: Callable[..., FlowContext]) -> None:
    context = gold()
    source(context, (1, 1, 10), (2, 1, 20))

    result = split(context, (1, 1, 10), (2, 1, 20))

    assert write(context, result) == {"read": 2, "groups": 1, "upserted": 1}
    assert stored(context) == [(1, 2, 30)]


def test_a_group_that_comes_out_the_same_or_was_never_there_is_unchanged_and_not_written(
    gold: Callable[..., FlowContext],
) -> None:
    context = gold()
    source(context, (1, 1, 10), (2, 2, None))
    write(context, split(context, (1, 1, 10), (2, 2, None)))

    result = split(context, (1, 1, 10), (2, 2, None), (9, 9, 9, "delete"), batch_id=1)

    assert write(context, result) == {"read": 3, "groups": 3, "unchanged": 3}
    assert stored(context) == [(1, 1, 10), (2, 1, None)]
    assert fed_by(context, 1) == [], "who follows the table hears nothing of it"


def test_tombstones_of_the_source_are_no_rows(gold: Callable[..., FlowContext]) -> None:
    context = gold()
    columns = f"{ORDERS}, _deleted boolean"
    source(context, (1, 1, 10, False), (2, 1, 20, True), (3, 1, 30, None), (4, 2, 40, True), columns=columns)
    standing(context, (1, 2, 40), (2, 1, 40))

    result = split(context, (2, 1, 20), (4, 2, 40))
    assert write(context, result) == {"read": 2, "groups": 2, "deleted": 1, "unchanged": 1}


def test_the_source_is_read_as_of_the_last_version_of_the_batch(gold: Callable[..., FlowContext]) -> None:
    context = gold()
    source(context, (1, 1, 10))
    source(context, (1, 1, 11))
    source(context, (1, 1, 12), (2, 1, 1))
    standing(context, (1, 1, 11))

    fed = (1, 1, 10, "insert", 0), (1, 1, 11, "update_postimage", 1)
    assert write(context, split(context, *fed)) == {"read": 2, "groups": 1, "unchanged": 1}


def test_a_source_whose_version_was_vacuumed_is_read_as_it_is_now(gold: Callable[..., FlowContext]) -> None:
    context = gold()
    assert context.source_table is not None
    source(context, (1, 1, 10))
    old_files = list(context.source_table.glob("*.parquet"))
    source(context, (1, 1, 12))
    for file in old_files:
        file.unlink()
    standing(context, (1, 1, 12))

    assert write(context, split(context, (1, 1, 10))) == {"read": 1, "groups": 1, "unchanged": 1}


@BOTH
def test_a_batch_without_changes_is_nothing(gold: Callable[..., FlowContext]) -> None:
    context = gold()
    source(context, (1, 1, 10))

    assert split_groups(context, changes(context.spark, ORDERS), 0, NEW) is None


def test_the_transform_is_given_no_column_of_ours_but_what_was_rescued(gold: Callable[..., FlowContext]) -> None:
    given: list[str] = []

    def looking(rows: DataFrame) -> DataFrame:
        given.extend(rows.columns)
        return daily(rows)

    context = gold(looking)
    columns = f"{ORDERS}, _rescued string, _deleted boolean, _row_id string"
    source(context, (1, 1, 10, "{}", False, "a"), columns=columns)
    split(context, (1, 1, 10))

    assert given == ["id", "day", "amount", "_rescued"]


@BOTH
@pytest.mark.parametrize(
    ("transform", "error", "message"),
    [
        (lambda rows: daily(rows).union(daily(rows)), SpecError, "returns 2 rows for 1 groups; one per group is due"),
        (lambda rows: daily(rows).drop("day"), SpecError, "does not return the key day"),
        (
            lambda rows: daily(rows).union(daily(rows).selectExpr("day + 100", "orders", "total")),
            LedgerImbalanceError,
            "returns 1 groups that the change feed did not name",
        ),
    ],
    ids=["two rows of a group", "no key", "a group that nobody named"],
)
def test_a_transform_that_does_not_make_one_row_per_named_group_is_told_so(
    gold: Callable[..., FlowContext], transform: Any, error: type[Exception], message: str
) -> None:
    context = gold(transform)
    source(context, (1, 1, 10))

    with pytest.raises(error, match=message):
        split(context, (1, 1, 10))


def test_a_column_that_the_transform_adds_is_a_change_where_it_has_a_value(gold: Callable[..., FlowContext]) -> None:
    from pyspark.sql import functions as F

    context = gold(lambda rows: daily(rows).withColumn("note", F.when(F.col("day") == 1, F.lit("busy"))))
    source(context, (1, 1, 10), (2, 2, 20))
    standing(context, (1, 1, 10), (2, 1, 20))

    result = split(context, (1, 1, 10), (2, 2, 20))

    assert write(context, result) == {"read": 2, "groups": 2, "upserted": 1, "unchanged": 1}
    assert stored(context) == [(1, 1, 10, "busy"), (2, 1, 20, None)]


def test_a_difference_in_bookkeeping_alone_is_no_change(gold: Callable[..., FlowContext]) -> None:
    from tidegate.spark.lake import sinks

    context = gold()
    standing(context, (1, 1, 10), (2, 1, 20), (3, 1, 30), (None, 1, 40))
    groups = context.spark.createDataFrame(
        [(1, 2, 10), (2, 1, 21), (None, 1, 40), (5, 1, 50)], "day int, orders bigint, total int"
    )
    named = context.spark.createDataFrame([(1,), (2,), (3,), (4,), (5,), (None,)], "day int")
    due = replacement(context, groups, named)

    assert {row["day"]: row["_op"] for row in due.collect()} == {
        **dict.fromkeys((1, 2, 5, None), "upsert"),
        **dict.fromkeys((3, 4), "delete"),
    }
    commit = sinks.replace_groups(due, context.target, ("day",), transaction(context, 0), ignored=("orders",))
    assert stored(context) == [(1, 1, 10), (2, 1, 21), (5, 1, 50), (None, 1, 40)]
    assert commit.metrics["numSourceRows"] == 6


def busy(severity: str, **more: Any) -> dict[str, Any]:
    """That a day has at most one order."""
    kwargs = {"column": "orders", "max_value": 1, **more}
    return {"type": "expect_column_values_to_be_between", "kwargs": kwargs, "severity": severity}


def test_a_group_that_breaks_a_rule_is_recorded_and_written(gold: Callable[..., FlowContext]) -> None:
    context = gold(suite=[busy("warning"), busy("critical", mostly=0.1)])
    source(context, (1, 1, 10), (2, 1, 20), (3, 2, 30))

    write(context, split(context, (1, 1, 10), (3, 2, 30)))

    assert stored(context) == [(1, 2, 30), (2, 1, 30)]

    (verdict,) = context.report.verdicts
    assert verdict.outcome == "passed", "nothing is in quarantine"
    assert [(result.success, result.unexpected) for result in verdict.results] == [(False, 1), (True, 1)]
    assert [line["outcome"] for line in table(context.layout.ops("orders", "verdicts"))] == ["passed"]


def test_a_critical_rule_below_its_mostly_refuses_the_groups(gold: Callable[..., FlowContext]) -> None:
    context = gold(suite=[busy("critical", mostly=0.9)])
    source(context, (1, 1, 10), (2, 1, 20), (3, 2, 30))

    with pytest.raises(GateRefusedError):
        split(context, (1, 1, 10), (3, 2, 30))

    assert [line["outcome"] for line in table(context.layout.ops("orders", "verdicts"))] == ["refused"]
    assert not context.target.exists()
