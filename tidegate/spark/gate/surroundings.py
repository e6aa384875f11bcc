"""What a rule may look at beside the batch: other tables of the lake, and what earlier batches of the flow were like.

Great Expectations calls an expectation with the batch alone, so the gate lays the surroundings of the batch in hand
where `current` finds them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tidegate.errors import SpecError
from tidegate.spark.gate import history
from tidegate.spark.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.layout import Layout


class Surroundings:
    """The lake around the batches of one flow.

    Args:
        layout: Where tables and verdicts lie.
        pipeline: The pipeline's name.
        flow: The flow's.
    """

    def __init__(self, layout: Layout, pipeline: str, flow: str) -> None:
        self._layout = layout
        self._pipeline = pipeline
        self._flow = flow
        self._tables: dict[str, DataFrame] = {}
        self._judged: tuple[str, int] | None = None
        self._earlier: Mapping[str, Sequence[float]] | None = None

    def begin(self) -> None:
        """A new batch: tables are looked up again, and stay as they are found until the batch is judged."""
        self._tables.clear()

    def judging(self, app_id: str, batch_id: int) -> None:
        """The batch that is judged; it is not among its own earlier ones."""
        self._judged, self._earlier = (app_id, batch_id), None

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """The rows of a Delta table, without tombstones, the same for flags and verdict of a batch.

        Args:
            spark: The batch's session.
            name: ``<layer>.<table>``.

        Raises:
            SpecError: There is no such table yet.
        """
        if name not in self._tables:
            path = self._layout.table(name)
            if not tables.exists(path):
                raise SpecError(
                    f"there is no table {name!r} yet; run the flow that writes it first, or correct the suite"
                )
            # At a version: flags and counts of one batch must come from the same rows.
            rows = tables.read(spark, path, tables.version(spark, path))
            self._tables[name] = rows.where("NOT coalesce(_deleted, false)") if "_deleted" in rows.columns else rows
        return self._tables[name]

    def earlier(self, rule: str, at_most: int) -> Sequence[float]:
        """What a rule observed in the flow's latest batches before this one, the newest first.

        Args:
            rule: Its short name, without the number that tells apart two of one name.
            at_most: How many batches.
        """
        if self._earlier is None:
            observed: defaultdict[str, list[float]] = defaultdict(list)
            for line in history.read(self._layout, self._pipeline, self._flow, self._judged):
                # Two rules of one name observe one measure, so a batch has one value for both.
                for name, value in {re.sub(r"#\d+$", "", name): value for name, value in line.items()}.items():
                    observed[name].append(value)
            self._earlier = observed
        return self._earlier.get(rule, ())[:at_most]


_CURRENT: ContextVar[Surroundings | None] = ContextVar("surroundings", default=None)


@contextmanager
def seen(surroundings: Surroundings | None) -> Iterator[None]:
    """Lay the surroundings where expectations find them."""
    token = _CURRENT.set(surroundings)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current() -> Surroundings | None:
    """The surroundings of the batch in hand; None where a suite is tried without a lake."""
    return _CURRENT.get()
