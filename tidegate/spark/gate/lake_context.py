"""Data outside of the batch that a rule may use: other tables of the lake, and observations of earlier batches.

Great Expectations passes only the batch to an expectation, so the gate provides this context in a context variable.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import SpecError
from tidegate.lake.place import FlowPlace
from tidegate.spark.gate import history
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.lake.layout import Layout


class LakeContext:
    """Tables of the lake, and earlier batches of one flow."""

    def __init__(self, layout: Layout, pipeline: str, flow: str) -> None:
        self._layout = layout
        self._pipeline = pipeline
        self._flow = flow
        self._tables: dict[str, DataFrame] = {}
        self._judged: tuple[str, int] | None = None
        self._earlier: Mapping[str, Sequence[float]] | None = None

    def begin_batch(self) -> None:
        """Begin a batch: each table is looked up again, at one version until the batch is judged."""
        self._tables.clear()

    def set_judged_batch(self, app_id: str, batch_id: int) -> None:
        """Set the batch that is judged; it is not one of its own earlier batches."""
        self._judged, self._earlier = (app_id, batch_id), None

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """The rows of a Delta table (``<layer>.<table>``) without tombstones, at one version for the whole batch.

        Raises:
            SpecError: The table does not exist yet.
        """
        if name not in self._tables:
            path = self._layout.table(name)
            if not tables.exists(path):
                raise SpecError(
                    f"table {name!r} does not exist yet",
                    Either(OutsideAct("run the flow that writes it first"), Edit("correct the suite", "suite")),
                )
            # At a version: flags and counts of one batch must use the same rows.
            rows = tables.read(spark, path, tables.version(spark, path))
            self._tables[name] = (
                rows.where(f"NOT coalesce({hidden.DELETED}, false)") if hidden.DELETED in rows.columns else rows
            )
        return self._tables[name]

    def earlier_values(self, rule: str, at_most: int) -> Sequence[float]:
        """The values that a rule observed in earlier batches of the flow, the newest first.

        Args:
            rule: Its short name, without the suffix ``#2`` of a second rule of that name.
        """
        if self._earlier is None:
            observed: defaultdict[str, list[float]] = defaultdict(list)
            for line in history.read(FlowPlace(self._layout, self._pipeline, self._flow), self._judged):
                # Two rules of one name observe the same measure, so a batch has one value for both.
                for name, value in {re.sub(r"#\d+$", "", name): value for name, value in line.items()}.items():
                    observed[name].append(value)
            self._earlier = observed
        return self._earlier.get(rule, ())[:at_most]


_CURRENT: ContextVar[LakeContext | None] = ContextVar("lake_context", default=None)


@contextmanager
def activate(lake_context: LakeContext | None) -> Iterator[None]:
    """Make a context available to expectations, through `current`."""
    token = _CURRENT.set(lake_context)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current() -> LakeContext | None:
    """The active context; None if a suite is evaluated without a lake."""
    return _CURRENT.get()
