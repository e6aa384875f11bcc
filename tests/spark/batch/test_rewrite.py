"""What a rewrite does to a table, counted on small frames. Refusals: `test_backfill.py`, `test_swap.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import job as orders
from tidegate.advice import OutsideAct
from tidegate.checkpoints import checkpoint
from tidegate.errors import RewriteRefusedError
from tidegate.reports.impact import Impact
from tidegate.spark.batch import rewrite
from tidegate.spec import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

COLUMNS = "id int, amount int, _row_id string, _deleted boolean"


def measured(
    spark: SparkSession,
    folder: Path,
    before: list[Any],
    after: list[Any],
    columns: str = COLUMNS,
    keys: tuple[str, ...] = ("id",),
) -> rewrite.Measured:
    job = orders.job_of(spark, folder, orders.SILVER)
    old, new = spark.createDataFrame(before, COLUMNS), spark.createDataFrame(after, columns)
    try:
        return rewrite.measure(job, old, new, keys=keys, refused=None, read=9)
    finally:
        job.release()


def test_rows_are_compared_by_key_and_tombstones_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    before = [
        *((1, 10, "a", False), (2, 20, "b", False), (3, 30, "c", None), (4, 40, "d", False)),
        *((5, 50, "e", True), (6, 60, "f", True)),
    ]
    after = [
        *((1, 10, "z", False), (2, 21, "b", False), (3, 30, "c", True), (5, 50, "e", True), (6, 60, "f", False)),
        (7, 70, "g", False),
    ]
    result = measured(spark, tmp_path, before, after)

    assert result.impact == Impact(before=4, after=4, deleted=2, changed=1, added=2, read=9, quarantined=0)
    assert result.sample == {
        "deleted": ['{"id":3}', '{"id":4}'],
        "changed": ['{"id":2}'],
        "added": ['{"id":6}', '{"id":7}'],
    }


def test_the_group_without_a_key_is_a_row_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    result = measured(spark, tmp_path, [(None, 1, "a", False), (1, 1, "b", False)], [(None, 1, "a", False)])
    assert (result.impact.before, result.impact.deleted, result.impact.changed) == (2, 1, 0)


def test_a_column_of_another_type_is_not_compared(spark: SparkSession, tmp_path: Path) -> None:
    retyped = "id int, amount string, _row_id string, _deleted boolean"
    result = measured(spark, tmp_path, [(1, 10, "a", False), (2, 20, "b", False)], [(1, "x", "a", False)], retyped)
    assert (result.impact.deleted, result.impact.changed) == (1, 0)


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["other keys", "a key of another type"])
def test_without_common_keys_the_table_loses_as_many_rows_as_it_shrinks_by(
    spark: SparkSession, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    columns = "id string, amount int, _row_id string, _deleted boolean"
    before = [(number, 0, "a", False) for number in range(5)]
    after = [("x", 0, "a", False), ("y", 0, "a", False), ("z", 0, "a", True)]
    shrunk = measured(spark, tmp_path, before, after, columns, keys).impact
    assert (shrunk.before, shrunk.after, shrunk.deleted, shrunk.changed, shrunk.added) == (5, 2, 3, 2, 0)


def test_keys_in_the_sample_have_every_column_and_instants_to_the_microsecond(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = orders.job_of(spark, tmp_path, orders.SILVER)
    columns = "at timestamp, part int, _row_id string"
    rows = "SELECT TIMESTAMP '2026-10-25T00:30:00.000002Z' AS at, CAST(NULL AS int) AS part, 'a' AS _row_id"
    try:
        result = rewrite.measure(
            job, spark.sql(rows), spark.createDataFrame([], columns), keys=("at", "part"), refused=None, read=1
        )
    finally:
        job.release()
    assert result.sample == {"deleted": ['{"at":"2026-10-25T00:30:00.000002Z","part":null}']}


def test_a_table_to_which_rows_are_only_added_may_not_lose_one_unless_its_recovery_was_accepted(
    spark: SparkSession, tmp_path: Path
) -> None:
    impact = Impact(before=100, after=99, deleted=1, changed=99, added=0, read=99, quarantined=0)
    counted = rewrite.Measured(impact=impact, sample={})
    rewrite.check(orders.job_of(spark, tmp_path, orders.SILVER), counted, "swap", instead=OutsideAct("wait"))
    log = orders.job_of(spark, tmp_path, replace(orders.SILVER, target=Table("silver.log"), transform="orders:clean"))
    with pytest.raises(RewriteRefusedError, match=r"delete 1 of 100 rows \(1.0%\), more than 0.0%"):
        rewrite.check(log, counted, "swap", instead=OutsideAct("wait"))
    checkpoint.record_refresh_origin(log.place, checkpoint.Origin(mode="recover", lost=1))
    rewrite.check(log, counted, "swap", instead=OutsideAct("wait"))
