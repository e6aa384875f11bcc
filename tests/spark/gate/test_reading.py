"""A gate adds no reading of the batch: what the transform makes is made once."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from demo import flights_feed
from spark_jobs import flights
from tests.deployment import Deployment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm


def test_a_flow_with_a_gate_transforms_every_row_once(
    deployment: Deployment, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as F

    transformed = spark.sparkContext.accumulator(0)
    clean = flights.clean

    def counted(value: Any) -> Any:
        transformed.add(1)
        return value

    def counting_clean(rows: DataFrame) -> DataFrame:
        return clean(rows).withColumn("tailnum", F.udf(counted, "string")("tailnum"))

    monkeypatch.setattr(flights, "clean", counting_clean)
    deployment.land("one.csv", flights_feed._csv(flights_feed.days()[date(2013, 1, 1)][:150]))
    silver = deployment.run(flows=("bronze", "silver")).flow("silver")

    assert (silver.state, len(silver.verdicts), silver.total("read")) == ("done", 1, 150)
    assert len(silver.verdicts[0].results) >= 6
    assert transformed.value == 150
