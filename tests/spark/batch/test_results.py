"""Results of a stateful flow that are appended: different rows have different ids, the same on every attempt."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.job import plan_batch, table, transaction
from tests.spark.kinds.payments import Payments
from tidegate.checkpoints import checkpoint
from tidegate.checkpoints.checkpoint import SIDECAR
from tidegate.kinds.stateful import results
from tidegate.lake.place import Place
from tidegate.spark.driver.execution import StateMetrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

COLUMNS = """
    at timestamp, local timestamp_ntz, day date, amount decimal(20,9), rate double, name string,
    parts struct<at:timestamp>, times array<timestamp>
"""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def near(number: random.Random, earlier: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """A row; if there was another before it, one that differs from it by the smallest step of one column."""
    row = list(
        earlier
        or (NOON, NOON.replace(tzinfo=None), NOON.date(), Decimal("1.000000001"), 1.0, "a", (NOON,), [NOON, None])
    )
    column, step = number.randrange(len(row)), timedelta(microseconds=number.randint(1, 3))
    steps: list[Any] = [
        lambda value: value + step,
        lambda value: value + step,
        lambda value: value + timedelta(days=1),
        lambda value: value + Decimal("0.000000001"),
        lambda value: value + 2**-50,
        lambda value: value + number.choice('"\\ é\x01'),
        lambda value: (value[0] + step,),
        lambda value: [value[0] + step, *value[1:]],
    ]
    row[column] = steps[column](row[column])
    return tuple(row)


def ids(payments: Payments, rows: list[tuple[Any, ...]]) -> list[str]:
    """The ids that the rows get, as they are in the table."""
    job = payments.job()
    plan_batch(job, 0)
    path = job.place.checkpoint / "offsets" / "0"
    # No position, of heartbeats and of rows.
    Path(path).write_text("\n".join([*Path(path).read_text().split("\n")[:2], "-", "-"]))
    split = results.split_results(
        job, payments.spark.createDataFrame(rows, COLUMNS), 0, StateMetrics(operators=1, dropped=0, rows=0, bytes=0)
    )
    assert split is not None
    split.write(transaction(job, 0))
    return [row["_row_id"] for row in table(job.live)]


def test_rows_that_differ_have_other_ids_and_equal_ones_are_numbered(spark: SparkSession, tmp_path: Path) -> None:
    number = random.Random(20261125)
    rows: list[tuple[Any, ...]] = []
    while len(rows) < 60:
        rows.append(near(number, number.choice(rows) if rows else None))
    distinct = {repr(row) for row in rows}

    made = ids(Payments(spark, tmp_path), [*rows, rows[0]])

    assert len(set(made)) == len(rows) + 1
    assert len({each.rpartition("-")[0] for each in made}) == len(distinct)


def test_a_checkpoint_version_of_an_earlier_release_keeps_its_ids(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    payments = Payments(spark, tmp_path)
    job = payments.job()
    checkpoint.write_sidecar(job.place, job.flow)
    path = SIDECAR.path(Place(job.place.layout, "orders", job.flow.name, 1, 0))
    written = json.loads(Path(path).read_text())
    assert written.pop("exact_ids") is True
    Path(path).write_text(json.dumps(written))
    row = near(random.Random(1), None)
    [expected] = (
        spark.createDataFrame([row], COLUMNS).select(F.sha2(F.to_json(F.struct("*")), 256).alias("id")).collect()
    )

    assert ids(payments, [row]) == [f"{expected['id']}-1"]
