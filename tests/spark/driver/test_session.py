"""The session of a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidegate.spark.driver.session import SETTINGS, cores_of, shuffle_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize(
    ("mebibytes", "cores", "partitions"),
    [
        (0, 2, 4),
        (128, 2, 4),
        (129, 2, 6),
        (129, 16, 5),
        (64, 200, 4),
        (10_000, 16, 320),
        (10_000_000, 3, 2_000),
        (None, 2, 4),
        (None, 16, 16),
        (None, 5_000, 2_000),
    ],
)
def test_a_run_shuffles_into_one_partition_per_32_mib_in_whole_waves(
    mebibytes: int | None, cores: int, partitions: int
) -> None:
    assert shuffle_partitions(None if mebibytes is None else mebibytes * 1024**2, cores) == partitions


def test_the_cores_of_a_local_master_are_its_own(spark: SparkSession) -> None:
    assert cores_of(spark) == spark.sparkContext.defaultParallelism


def test_state_maintenance_has_the_interval_of_the_settings(spark: SparkSession) -> None:
    conf: Any = spark._jsparkSession.sessionState().conf()
    assert conf.streamingMaintenanceInterval() == 2_000
    assert SETTINGS["spark.sql.streaming.stateStore.maintenanceInterval"] == "2s"


def test_expressions_of_columns_look_up_no_name_in_the_jvm(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name without its package would be looked for in every jar."""
    from py4j.java_gateway import JVMView
    from pyspark.sql import functions as F

    numbers = spark.range(3)
    looked_up: list[str] = []
    ask = JVMView.__getattr__

    def recorded(view: Any, name: str) -> Any:
        looked_up.append(name)
        return ask(view, name)

    monkeypatch.setattr(JVMView, "__getattr__", recorded)

    rows = numbers.select((F.col("id") + 1).alias("next"), F.when(F.col("id") > 1, "many").otherwise("few"))

    assert [row["next"] for row in rows.where("next > 1").collect()] == [2, 3]
    assert looked_up == []
