"""Whom a change of a table reaches: the flows that read its change feed, and the pipelines that run after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.spec import AfterTables, ChangeFeed

if TYPE_CHECKING:
    from tidegate.spec import Pipeline


@dataclass(frozen=True, kw_only=True)
class Downstream:
    """What lies below one table, in all pipelines."""

    flows: tuple[str, ...]
    """``<pipeline>/<flow>`` of those that read the table's change feed, and of those below them."""
    tables: tuple[str, ...]
    """What these flows write."""
    starts: tuple[str, ...]
    """Pipelines that Airflow starts when the table, or one below it, has new rows (`AfterTables`)."""

    def lines(self) -> list[str]:
        """For people; nothing when nobody is below."""
        told = []
        if self.flows:
            told.append(f"what changes reaches {', '.join(self.flows)}, which write {', '.join(self.tables)}")
        if self.starts:
            told.append(f"in Airflow new rows start {', '.join(self.starts)}")
        return told


def below(table: str, declared: Mapping[str, Pipeline | TidegateError]) -> Downstream:
    """Follow a table through all declarations.

    Args:
        table: For example ``silver.flights``.
        declared: Every pipeline, or why its file does not load (`tidegate.registry.declarations`).
    """
    pipelines = [each for each in declared.values() if not isinstance(each, TidegateError)]
    flows: list[str] = []
    reached = [table]
    for current in reached:
        for pipeline in pipelines:
            for flow in pipeline.flows:
                if isinstance(flow.source, ChangeFeed) and flow.source.table == current:
                    flows.append(f"{pipeline.name}/{flow.name}")
                    if flow.target.name not in reached:
                        # The loop goes on through it.
                        reached.append(flow.target.name)
    starts = [
        pipeline.name
        for pipeline in pipelines
        if isinstance(pipeline.schedule, AfterTables) and not set(pipeline.schedule.tables).isdisjoint(reached)
    ]
    return Downstream(flows=tuple(flows), tables=tuple(reached[1:]), starts=tuple(starts))
