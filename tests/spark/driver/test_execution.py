"""The metrics of stateful operators are found in the executed plan; without an operator nothing is written. No JVM."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.errors import LateRowsDroppedError, UnexpectedError
from tidegate.kinds.stateful import run as stateful
from tidegate.spark.driver.execution import StateMetrics, state_metrics

DROPPED = "numRowsDroppedByWatermark"


class Metrics:
    """A map of Scala from names to metrics."""

    def __init__(self, values: dict[str, int]) -> None:
        self.values = values

    def contains(self, name: str) -> bool:
        return name in self.values

    def apply(self, name: str) -> Any:
        return SimpleNamespace(value=lambda: self.values[name])


def node(*children: Any, **metrics: int) -> Any:
    inside = SimpleNamespace(size=lambda: len(children), apply=lambda number: children[number])
    return SimpleNamespace(metrics=lambda: Metrics(metrics), children=lambda: inside)


def session(plan: Any, name: str = "orders/windows/v1/0") -> Any:
    execution = SimpleNamespace(executedPlan=lambda: plan)
    query = SimpleNamespace(lastExecution=lambda: execution)
    running = SimpleNamespace(name=name, _jsq=SimpleNamespace(streamingQuery=lambda: query))
    return SimpleNamespace(streams=SimpleNamespace(active=[SimpleNamespace(name="another"), running]))


def test_the_metrics_of_all_stateful_operators_of_the_plan_are_added() -> None:
    plan = node(
        node(node(numOutputRows=9), **{DROPPED: 2}, numTotalStateRows=5, stateMemory=100),
        node(**{DROPPED: 1}, numTotalStateRows=7),
        numOutputRows=3,
    )

    metrics = state_metrics(session(plan), "orders/windows/v1/0")

    assert metrics == StateMetrics(operators=2, dropped=3, rows=12, bytes=100)


@pytest.mark.parametrize(
    ("plan", "error", "message"),
    [
        (
            node(node(numOutputRows=9)),
            UnexpectedError,
            "batch 4: the plan that Spark executed has no stateful operator",
        ),
        (node(node(**{DROPPED: 3})), LateRowsDroppedError, "Spark dropped 3 of the rows"),
        (node(node(**{DROPPED: 0})), None, ""),
    ],
    ids=["no_operator", "dropped_rows", "no_dropped_rows"],
)
def test_a_batch_is_only_evaluated_if_its_operator_says_that_it_dropped_no_row(
    plan: Any, error: type[Exception] | None, message: str
) -> None:
    flow = SimpleNamespace(name="windows", source_tables=("silver.orders",))
    job: Any = SimpleNamespace(spark=session(plan), app_id="orders/windows/v1/0", flow=flow, persisted=[])
    batch: Any = SimpleNamespace(count=lambda: 0)
    batch.persist = lambda: batch

    if error is None:
        assert stateful.KIND.evaluate(job, batch, 4) is batch
    else:
        with pytest.raises(error, match=message):
            stateful.KIND.evaluate(job, batch, 4)
    assert job.persisted == [batch]
