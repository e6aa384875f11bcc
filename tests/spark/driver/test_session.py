"""The session of a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


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
