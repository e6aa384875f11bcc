"""Data outside of the batch that a rule may use: other tables of the lake.

Great Expectations passes only the batch to an expectation, so the gate provides this context in a context variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.advice import Edit, Either, OutsideAct
from tidegate.errors import SpecError
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.lake.layout import Layout


class LakeContext:
    """Tables of the lake, each at one version while a batch is judged."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._tables: dict[str, DataFrame] = {}

    def begin_batch(self) -> None:
        """Begin a batch: each table is looked up again, at one version until the batch is judged."""
        self._tables.clear()

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """The rows of a Delta table (``<layer>.<table>``) without tombstones, at one version for the whole batch.

        Raises:
            SpecError: The table does not exist yet.
        """
        if name not in self._tables:
            path = self._layout.read_table(name)
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
