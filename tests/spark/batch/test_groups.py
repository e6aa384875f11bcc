"""Groups with changes in the feed are recomputed as of its version, compared with the table, and never quarantined."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.job import GOLD, changes, job_of, table, transaction, write_table
from tidegate.errors import GateRefusedError, LedgerImbalanceError, SpecError
from tidegate.lake.place import PipelinePlace
from tidegate.spark.batch.checks import check_commit
from tidegate.spark.batch.groups import merge_source, split_groups
from tidegate.spark.batch.split import Decision, Split, settle
from tidegate.spark.lake import local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

ORDERS = "id int, day int, amount int"
NEW = Decision(quarantined=False, written=False)


def daily(rows: DataFrame) -> DataFrame:
    """The transform: one row per day."""
    from pyspark.sql import functions as F

    return rows.groupBy("day").agg(F.count("*").alias("orders"), F.sum("amount").cast("int").alias("total"))


@pytest.fixture(params=["few"])
def few_or_many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few groups are collected to the driver, many stay DataFrames. Most tests only use few."""
    if request.param == "many":
        monkeypatch.setattr(local, "ROWS", 0)


BOTH = pytest.mark.parametrize("few_or_many", ["few", pytest.param("many", marks=pytest.mark.nightly)], indirect=True)


@pytest.fixture
def gold(few_or_many: None, spark: SparkSession, tmp_path: Path) -> Callable[..., Job]:
    def make(transform: Callable[[DataFrame], DataFrame] = daily, **more: Any) -> Job:
        return job_of(spark, tmp_path, GOLD, transform=transform, **more)

    return make


def set_source(job: Job, *rows: tuple[Any, ...], columns: str = ORDERS) -> None:
    """Write the next version of the source table."""
    assert job.source_table is not None
    write_table(job.source_table, columns, *rows)


def set_target(job: Job, *rows: tuple[Any, ...]) -> None:
    """Write the rows of the target."""
    write_table(job.target, "day int, orders bigint, total int", *rows)


def split(job: Job, *fed: tuple[Any, ...], version: int = 0, batch_id: int = 0) -> Split:
    result = split_groups(job, changes(job.spark, ORDERS, *fed, version=version), batch_id, NEW)
    assert result is not None
    assert result.prepared.imbalance() == 0
    assert result.refused is None
    return result


def write(job: Job, result: Split) -> dict[str, int]:
    """Write the target and return the counts of the ledger line that are not 0."""
    commit = result.write(transaction(job, result.prepared.batch_id))
    check_commit(job, result, commit)
    line = settle(result.prepared, commit, result.settled)
    assert line.imbalance() == 0
    names = ("read", "groups", "upserted", "deleted", "unchanged")
    return {name: number for name in names if (number := getattr(line, name))}


def change_feed(job: Job, version: int) -> list[Any]:
    """The target's change feed from ``version`` on."""
    feed = job.spark.read.format("delta").option("readChangeFeed", "true")
    return feed.option("startingVersion", version).load(str(job.target)).collect()


def stored(job: Job) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table(job.target)]


@BOTH
def test_only_groups_with_changes_in_the_feed_are_recomputed(gold: Callable[..., Job]) -> None:
    """NULL is a group like any other; the group that a row left appears only in its pre-image."""
    input_ids: list[int] = []

    def recording(rows: DataFrame) -> DataFrame:
        input_ids.extend(row["id"] for row in rows.select("id").collect())
        return daily(rows)

    job = gold(recording)
    set_source(job, (1, 1, 10), (2, 1, 20), (3, 2, 30), (4, 3, 40), (5, None, 50), (6, None, 60), (7, 7, 70))
    set_target(job, (1, 1, 10), (2, 1, 31), (3, 1, 40), (None, 1, 50), (8, 1, 70), (9, 9, 9))

    result = split(
        job,
        (2, 1, 20),
        (3, 2, 30),
        (6, None, 60),
        (7, 8, 70, "update_preimage"),
        (7, 7, 70, "update_postimage"),
        (5, None, 50),
    )

    assert sorted(input_ids) == [1, 2, 3, 5, 6, 7]
    assert (result.prepared.kind, result.expected_rows) == ("recompute", 5)
    assert (result.prepared.flow, result.prepared.app_id) == ("gold", "orders/gold/v1/0")
    assert write(job, result) == {"read": 5, "groups": 5, "upserted": 4, "deleted": 1}
    assert stored(job) == [(1, 2, 30), (2, 1, 30), (3, 1, 40), (7, 1, 70), (9, 9, 9), (None, 2, 110)]


def test_the_group_of_a_date_in_the_first_year_is_recomputed(gold: Callable[..., Job]) -> None:
    days = [date(1, 1, 1), date(2026, 1, 1)]
    rows = [(number, day, 10) for number, day in enumerate(days)]
    columns = "id int, day date, amount int"
    job = gold()
    set_source(job, *rows, columns=columns)

    result = split_groups(job, changes(job.spark, columns, *rows), 0, NEW)

    assert result is not None
    write(job, result)
    assert stored(job) == [(day, 1, 10) for day in days]


@pytest.fixture
def tokyo() -> Iterator[None]:
    """The machine's time zone, which is not the session's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("few_or_many", ["many"], indirect=True)
@pytest.mark.usefixtures("tokyo")
def test_many_groups_of_local_times_have_their_rows_in_any_time_zone_of_the_machine(
    gold: Callable[..., Job],
) -> None:
    rows = [(number, datetime(2026, 3, 1, number), 10) for number in (1, 2)]  # noqa: DTZ001  # a time without a zone
    columns = "id int, day timestamp_ntz, amount int"
    job = gold()
    set_source(job, *rows, columns=columns)

    result = split_groups(job, changes(job.spark, columns, *rows), 0, NEW)

    assert result is not None
    assert (result.prepared.upserted, result.prepared.deleted) == (2, 0)


@BOTH
@pytest.mark.nightly
def test_the_group_null_is_compared_with_the_table_and_can_be_deleted(gold: Callable[..., Job]) -> None:
    job = gold()
    set_source(job, (3, 1, 30), (4, None, 40))
    set_target(job, (None, 1, 40), (1, 1, 30), (3, 1, 30))
    assert write(job, split(job, (4, None, 40), (3, 1, 30))) == {"read": 2, "groups": 2, "unchanged": 2}
    set_source(job, (3, 1, 30))

    result = split(job, (4, None, 40, "delete"), version=1, batch_id=1)

    assert write(job, result) == {"read": 1, "groups": 1, "deleted": 1}
    assert stored(job) == [(1, 1, 30), (3, 1, 30)]


def test_a_group_is_counted_once_even_if_several_of_its_rows_changed(gold: Callable[..., Job]) -> None:
    job = gold()
    set_source(job, (1, 1, 10), (2, 1, 20))

    result = split(job, (1, 1, 10), (2, 1, 20))

    assert write(job, result) == {"read": 2, "groups": 1, "upserted": 1}
    assert stored(job) == [(1, 2, 30)]


def test_a_group_with_the_same_values_or_without_rows_is_unchanged_and_not_written(
    gold: Callable[..., Job],
) -> None:
    job = gold()
    set_source(job, (1, 1, 10), (2, 2, None))
    write(job, split(job, (1, 1, 10), (2, 2, None)))

    result = split(job, (1, 1, 10), (2, 2, None), (9, 9, 9, "delete"), batch_id=1)

    assert write(job, result) == {"read": 3, "groups": 3, "unchanged": 3}
    assert stored(job) == [(1, 1, 10), (2, 1, None)]
    assert change_feed(job, 1) == [], "readers of the change feed see no change"


def test_deleted_rows_of_the_source_are_ignored(gold: Callable[..., Job]) -> None:
    job = gold()
    columns = f"{ORDERS}, _deleted boolean"
    set_source(job, (1, 1, 10, False), (2, 1, 20, True), (3, 1, 30, None), (4, 2, 40, True), columns=columns)
    set_target(job, (1, 2, 40), (2, 1, 40))

    result = split(job, (2, 1, 20), (4, 2, 40))
    assert write(job, result) == {"read": 2, "groups": 2, "deleted": 1, "unchanged": 1}


def test_the_source_is_read_at_the_last_version_of_the_batch(gold: Callable[..., Job]) -> None:
    job = gold()
    set_source(job, (1, 1, 10))
    set_source(job, (1, 1, 11))
    set_source(job, (1, 1, 12), (2, 1, 1))
    set_target(job, (1, 1, 11))

    fed = (1, 1, 10, "insert", 0), (1, 1, 11, "update_postimage", 1)
    assert write(job, split(job, *fed)) == {"read": 2, "groups": 1, "unchanged": 1}


@pytest.mark.nightly
def test_a_source_whose_version_was_vacuumed_is_read_at_its_newest_version(gold: Callable[..., Job]) -> None:
    job = gold()
    assert job.source_table is not None
    set_source(job, (1, 1, 10))
    old_files = list(Path(job.source_table).glob("*.parquet"))
    set_source(job, (1, 1, 12))
    for file in old_files:
        file.unlink()
    set_target(job, (1, 1, 12))

    assert write(job, split(job, (1, 1, 10))) == {"read": 1, "groups": 1, "unchanged": 1}


@BOTH
def test_a_batch_without_changes_has_no_split(gold: Callable[..., Job]) -> None:
    job = gold()
    set_source(job, (1, 1, 10))

    assert split_groups(job, changes(job.spark, ORDERS), 0, NEW) is None
    with pytest.raises(
        SpecError, match=r"its source 'silver\.orders' has no column day, which is a key of 'gold\.orders'"
    ):
        split_groups(job, changes(job.spark, "id int"), 0, NEW)


def test_a_version_that_the_log_no_longer_has_is_read_from_the_newest_one(gold: Callable[..., Job]) -> None:
    from deltalake import DeltaTable

    job = gold()
    assert job.source_table is not None
    set_source(job, (1, 1, 10))
    set_source(job, (1, 1, 11))
    DeltaTable(str(job.source_table)).create_checkpoint()
    (job.source_table / "_delta_log" / f"{0:020d}.json").delete()

    result = split(job, (1, 1, 10))

    assert dict(result.prepared.source_versions) == {"silver.orders": 1}, "its changes are still to come in the feed"
    assert result.changes is not None
    assert [(row["day"], row["total"]) for row in result.changes.collect()] == [(1, 11)]


def test_the_transform_gets_no_internal_column_except_rescued(gold: Callable[..., Job]) -> None:
    columns_seen_by_transform: list[str] = []

    def recording(rows: DataFrame) -> DataFrame:
        columns_seen_by_transform.extend(rows.columns)
        return daily(rows)

    job = gold(recording)
    columns = f"{ORDERS}, _rescued string, _deleted boolean, _row_id string"
    set_source(job, (1, 1, 10, "{}", False, "a"), columns=columns)
    split(job, (1, 1, 10))

    assert columns_seen_by_transform == ["id", "day", "amount", "_rescued"]


@BOTH
@pytest.mark.parametrize(
    ("transform", "error", "message"),
    [
        (
            lambda rows: daily(rows).union(daily(rows)),
            SpecError,
            "returns 2 rows for 1 group; it must return one row per group",
        ),
        (lambda rows: daily(rows).drop("day"), SpecError, "does not return the key day"),
        (
            lambda rows: daily(rows).union(rows.sparkSession.sql("SELECT 101, 1, 10")),
            LedgerImbalanceError,
            "returns 1 group outside the change feed",
        ),
    ],
    ids=["two rows of a group", "no key", "a group without changes"],
)
def test_a_transform_that_does_not_return_one_row_per_changed_group_is_an_error(
    gold: Callable[..., Job], transform: Any, error: type[Exception], message: str
) -> None:
    job = gold(transform)
    set_source(job, (1, 1, 10))

    with pytest.raises(error, match=message):
        split(job, (1, 1, 10))


@pytest.mark.nightly
def test_a_column_added_by_the_transform_is_a_change_where_it_is_not_null(gold: Callable[..., Job]) -> None:
    from pyspark.sql import functions as F

    job = gold(lambda rows: daily(rows).withColumn("note", F.when(F.col("day") == 1, F.lit("busy"))))
    set_source(job, (1, 1, 10), (2, 2, 20))
    set_target(job, (1, 1, 10), (2, 1, 20))

    result = split(job, (1, 1, 10), (2, 2, 20))

    assert write(job, result) == {"read": 2, "groups": 2, "upserted": 1, "unchanged": 1}
    assert stored(job) == [(1, 1, 10, "busy"), (2, 1, 20, None)]


def test_a_difference_only_in_bookkeeping_columns_is_no_change(gold: Callable[..., Job]) -> None:
    from tidegate.spark.lake import writes

    job = gold()
    set_target(job, (1, 1, 10), (2, 1, 20), (3, 1, 30), (None, 1, 40))
    groups = job.spark.createDataFrame(
        [(1, 2, 10), (2, 1, 21), (None, 1, 40), (5, 1, 50)], "day int, orders bigint, total int"
    )
    affected = job.spark.createDataFrame([(1,), (2,), (3,), (4,), (5,), (None,)], "day int")
    changed = merge_source(job, groups, affected)

    operations = {row["day"]: row["_op"] for row in changed.collect()}
    assert operations == {1: "upsert", 2: "upsert", 3: "delete", 4: "delete", 5: "upsert", None: "upsert"}
    commit = writes.replace_groups(changed, job.target, ("day",), transaction(job, 0), ignored=("orders",))
    assert stored(job) == [(1, 1, 10), (2, 1, 21), (5, 1, 50), (None, 1, 40)]
    assert commit.metrics["numSourceRows"] == 6


def busy(severity: str, **more: Any) -> dict[str, Any]:
    """An expectation: a day has at most one order."""
    kwargs = {"column": "orders", "max_value": 1, **more}
    return {"type": "expect_column_values_to_be_between", "kwargs": kwargs, "severity": severity}


def test_a_group_that_breaks_a_rule_is_in_the_verdict_and_written(gold: Callable[..., Job]) -> None:
    job = gold(suite=[busy("warning"), busy("critical", mostly=0.1)])
    set_source(job, (1, 1, 10), (2, 1, 20), (3, 2, 30))

    write(job, split(job, (1, 1, 10), (3, 2, 30)))

    assert stored(job) == [(1, 2, 30), (2, 1, 30)]

    (verdict,) = job.run.report.verdicts
    assert verdict.outcome == "passed", "nothing is in quarantine"
    assert [(result.success, result.unexpected) for result in verdict.results] == [(False, 1), (True, 1)]
    assert [line["outcome"] for line in table(PipelinePlace(job.place.layout, "orders").ops("verdicts"))] == ["passed"]


def test_a_critical_expectation_below_its_mostly_refuses_the_batch(gold: Callable[..., Job]) -> None:
    job = gold(suite=[busy("critical", mostly=0.9)])
    set_source(job, (1, 1, 10), (2, 1, 20), (3, 2, 30))

    with pytest.raises(GateRefusedError):
        split(job, (1, 1, 10), (3, 2, 30))

    assert [line["outcome"] for line in table(PipelinePlace(job.place.layout, "orders").ops("verdicts"))] == ["refused"]
    assert not job.target.exists()
