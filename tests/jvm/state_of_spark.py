"""State in a bucket that Spark stored in the format in which two drivers replace files of each other: it is refused, and made again.

Only with ``--lake=s3``, by which `test_local_tests_in_buckets` runs it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.slices import of_week
from tests.spark.kinds.payments import DECISIONS, FIRSTS, TOTALS, WINDOWS, Payments
from tidegate.checkpoints import progress
from tidegate.errors import StateSchemaChangedError
from tidegate.spec import Flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@pytest.mark.parametrize("flow", of_week([TOTALS, DECISIONS, WINDOWS, FIRSTS], 2), ids=lambda flow: flow.name)
def test_state_of_the_first_format_is_refused_and_a_new_version_of_the_checkpoint_makes_it_again(
    spark: SparkSession, tmp_path: Path, flow: Flow
) -> None:
    payments, undisturbed = Payments(spark, tmp_path / "old", flow), Payments(spark, tmp_path / "new", flow)
    for each in (payments, undisturbed):
        each.add(("a", "c1", 1, 1), ("b", "c2", 2, 2))
    assert spark.conf.get(FORMAT) == "2"
    spark.conf.set(FORMAT, "1")
    try:
        payments.run()
    finally:
        spark.conf.set(FORMAT, "2")
    undisturbed.run()
    formats = [progress.commit_format(each.job().place.checkpoint) for each in (payments, undisturbed)]
    assert formats == [1, 2], "Spark stored both"

    for each in (payments, undisturbed):
        each.add(("c", "c1", 4, 95))
    before = [entry.key for entry in payments.job().place.checkpoint.walk()]
    with pytest.raises(StateSchemaChangedError, match=r"format 1.*checkpoint_version=2"):
        payments.run()
    assert [entry.key for entry in payments.job().place.checkpoint.walk()] == before, "nothing was written"
    payments.flow = dataclasses.replace(flow, checkpoint_version=2)
    payments.run()
    undisturbed.run()

    assert payments.table() == undisturbed.table() != []
