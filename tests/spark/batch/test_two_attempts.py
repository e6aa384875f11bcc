"""Two attempts at one batch, of which the first is stopped at a step while the second, with an edited suite, runs to its end.

In a lake in a bucket a driver that is stopped loses its leases and goes on later. Whatever it does then, each row is in one table, and the
stopped attempt ends with a transient error.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.job import LATEST, changes, job_of, plan_batch, table
from tidegate.errors import WriteConflictError
from tidegate.lake.place import PipelinePlace
from tidegate.spark.batch import micro_batch
from tidegate.spark.lake import column_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

ROWS = ((1, 1, 10), (2, 1, 20), (3, 1, 30))
ALL, WITHOUT_20 = ([10, 20, 30], 0), ([10, 30], 1)
"""The amounts in the target, and the number of rows in quarantine."""
POINTS = {
    "after:decide": {"strict": ALL, "lenient": WITHOUT_20},
    "before:record_split": {"strict": ALL, "lenient": WITHOUT_20},
    # From here on "nothing is refused" is decided.
    "before:write_quarantine": {"strict": ALL, "lenient": ALL},
    "in quarantine": {"strict": ALL},
    # And what is in quarantine is.
    "before:write_target": {"strict": WITHOUT_20, "lenient": ALL},
    "in silver.latest": {"strict": WITHOUT_20, "lenient": ALL},
}
"""Where the first attempt is stopped, and where the rows are by the suite of that attempt; the second has the other suite."""
DAILY = (("before:write_quarantine", "strict"), ("before:write_target", "lenient"))


def attempt_of(spark: SparkSession, folder: Path, attempt: str, suite: str) -> Job:
    rule = {
        "type": "expect_column_values_to_not_be_in_set",
        "kwargs": {"column": "amount", "value_set": [20] if suite == "strict" else [99]},
        "severity": "warning",
    }
    job = job_of(spark, folder, LATEST, suite=[rule])
    place = dataclasses.replace(job.run.place, attempt=attempt)
    return dataclasses.replace(job, run=dataclasses.replace(job.run, place=place))


def process(job: Job) -> None:
    micro_batch.process(job, changes(job.spark, "id int, at int, amount int", *ROWS), 0)


def stop(patch: pytest.MonkeyPatch, point: str, meanwhile: Callable[[], None]) -> list[str]:
    """Call a function when an attempt first reaches a point; returns what was reached."""
    reached: list[str] = []
    when, _, step = point.partition(":")
    # The last call before the commit of a table, behind the decision that it is written.
    module, name = (micro_batch, step) if step else (column_types, "admit")
    original = getattr(module, name)

    def stopping(*args: Any, **more: Any) -> Any:
        is_here = not reached and (step or point.removeprefix("in ").replace(".", "/") in str(args[1]))
        if is_here:
            reached.append(point)
        if is_here and when != "after":
            meanwhile()
        result = original(*args, **more)
        if is_here and when == "after":
            meanwhile()
        return result

    patch.setattr(module, name, stopping)
    return reached


@pytest.mark.parametrize(
    ("point", "suite"),
    [
        pytest.param(point, suite, marks=() if (point, suite) in DAILY else pytest.mark.nightly)
        for number, (point, expected) in enumerate(POINTS.items())
        for suite in expected
        if (point, suite) in DAILY or suite == ("strict", "lenient")[number % 2 if len(expected) > 1 else 0]
    ],
)
def test_each_row_is_in_one_table_after_a_stopped_attempt_went_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, suite: str
) -> None:
    other = "lenient" if suite == "strict" else "strict"
    first, second, third = (
        attempt_of(spark, tmp_path, f"a{number}", each) for number, each in enumerate((suite, other, suite))
    )
    plan_batch(first, 0)
    # An attempt that reads, after it was stopped, what the second has written, has nothing left to write.
    conflicts: Any = contextlib.nullcontext() if point == "after:decide" else pytest.raises(WriteConflictError)

    with monkeypatch.context() as patch, conflicts as raised:
        reached = stop(patch, point, lambda: process(second))
        process(first)

    assert reached == [point]
    assert raised is None or raised.value.exit_code == 75
    amounts, refused = POINTS[point][suite]
    for attempt in (second, third):
        assert sorted(row["amount"] for row in table(attempt.target)) == amounts
        assert len(table(attempt.place.quarantine)) == refused
        process(third)
    ledger = table(PipelinePlace(third.place.layout, "orders").ops("ledger"))
    assert [(line["attempt"], line["quarantined"]) for line in ledger] == [("a1", refused)]
