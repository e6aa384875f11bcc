"""What the last execution of a running query did in its stateful operator, from Spark's own metrics of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DROPPED = "numRowsDroppedByWatermark"


@dataclass(frozen=True, kw_only=True)
class StateMetrics:
    """The stateful operators of one batch together."""

    operators: int
    dropped: int
    """Rows that Spark dropped because they are older than the watermark."""
    rows: int
    """Rows of the state after the batch."""
    bytes: int
    """Its memory in RocksDB."""


def state_metrics(spark: SparkSession, query: str) -> StateMetrics:
    """The metrics of the batch that a query has just evaluated.

    Args:
        query: The name of the query, which is in ``foreachBatch``.
    """
    name = query
    running: Any = next(each for each in spark.streams.active if each.name == name)
    plan = running._jsq.streamingQuery().lastExecution().executedPlan()
    stateful = [metrics for node in _nodes(plan) if (metrics := node.metrics()).contains(_DROPPED)]

    def total(name: str) -> int:
        return sum(int(each.apply(name).value()) for each in stateful if each.contains(name))

    return StateMetrics(
        operators=len(stateful),
        dropped=total(_DROPPED),
        rows=total("numTotalStateRows"),
        bytes=total("stateMemory"),
    )


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))
