"""Checks the plan of a stateful flow before its first batch: one stateful operator, whose state is bounded by the watermark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidegate.advice import Edit, Either
from tidegate.errors import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.spec import Flow

MODES = {
    "append": (
        "a result is written once, when no row can change it any more",
        Either(
            Edit("group an aggregation by a window of the event time, as it is in the source", "transform"),
            Edit("for results that change declare a table with keys", "declaration"),
        ),
    ),
    "update": (
        "each result replaces the earlier one of its key",
        Either(
            Edit("return what transformWithStateInPandas or an aggregation by the table's keys makes", "transform"),
            Edit("for results that are written once declare a table without keys", "declaration"),
        ),
    ),
}
"""What Spark's output mode means, by which a refused plan can be corrected."""
_STATEFUL = frozenset(("Aggregate", "DeduplicateWithinWatermark", "TransformWithState", "TransformWithStateInPySpark"))
_FOR_EVER = ("it remembers every row for ever", "use dropDuplicatesWithinWatermark")
_REPLACED = ("it is an older operator", "use transformWithStateInPandas")
_NO_ORDER = ("a stream has no last row, so that it can be neither sorted nor limited", "sort where the table is read")
_REFUSED = {
    "Deduplicate": _FOR_EVER,
    "Distinct": _FOR_EVER,
    "FlatMapGroupsInPandasWithState": _REPLACED,
    "FlatMapGroupsWithState": _REPLACED,
    "GlobalLimit": _NO_ORDER,
    "LocalLimit": _NO_ORDER,
    "Offset": _NO_ORDER,
    "Sort": _NO_ORDER,
    "Window": _NO_ORDER,
}
_DELAY = "spark.watermarkDelayMs"
"""The key in the metadata of a column that says that it is, or contains, the event time with the watermark."""


def check(flow: Flow, output: DataFrame) -> None:
    """Check what the transform returned.

    Raises:
        SpecError: It has no stateful operator, several, one whose state would grow without bound, or a watermark of its own.
    """
    where = f"flow {flow.name!r}: transform {flow.transform!r}"
    if not output.isStreaming:
        raise SpecError(f"{where} does not return a stream", Edit("return what it makes of its parameter", "transform"))
    plan = output._jdf.queryExecution().analyzed()
    nodes = [(str(node.nodeName()), node) for node in _nodes(plan) if node.isStreaming()]
    names = [name for name, _ in nodes]
    for name, node in nodes:
        if (why := _REFUSED.get(name)) is not None:
            raise SpecError(f"{where} uses {name}: {why[0]}", Edit(why[1], "transform"))
        if name == "Join" and all(child.isStreaming() for child in _children(node)):
            raise SpecError(
                f"{where} joins its stream with itself, which remembers both sides",
                Edit("use one transformWithStateInPandas", "transform"),
            )
    if names.count("EventTimeWatermark") != 1:
        raise SpecError(
            f"{where} calls withWatermark",
            Edit(f"remove it: the declared watermark of {flow.source_tables[0]!r} applies already", "transform"),
        )
    stateful = [node for name, node in nodes if name in _STATEFUL]
    if len(stateful) != 1:
        operators = ", ".join(name for name in names if name in _STATEFUL) or "none"
        raise SpecError(
            f"{where} must return a stream with one stateful operator, but has: {operators}.",
            Edit(
                "without any, declare the flow without state; several in one query would judge lateness by each "
                "other's results: declare a flow for each",
                "declaration",
            ),
        )
    if stateful[0].nodeName() == "Aggregate" and not _groups_by_time(stateful[0]):
        raise SpecError(
            f"{where} does not group by the event time: its state would keep every group for ever.",
            Either(
                Edit("group by a window of the event time as well", "declaration"),
                Edit("recompute the groups: a flow without state does so for a table with keys alone", "declaration"),
            ),
        )


def _groups_by_time(aggregate: Any) -> bool:
    expressions = aggregate.groupingExpressions()
    attributes = [
        attribute
        for number in range(expressions.size())
        for attribute in _of(expressions.apply(number).references().toSeq())
    ]
    return any(attribute.metadata().contains(_DELAY) for attribute in attributes)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _children(plan):
        yield from _nodes(child)


def _children(plan: Any) -> list[Any]:
    return _of(plan.children())


def _of(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]
