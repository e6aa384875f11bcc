"""What is downstream of a table: flows that read its change feed, and pipelines that Airflow starts after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.errors import TidegateError
from tidegate.spec import AfterTables, Pipeline


@dataclass(frozen=True, kw_only=True)
class Downstream:
    """What is downstream of one table, in all pipelines."""

    flows: tuple[str, ...]
    """``<pipeline>/<flow>`` of the flows that read the table's change feed, and of those downstream of them."""
    tables: tuple[str, ...]
    """The tables that these flows write."""
    starts: Mapping[str, tuple[str, ...]]
    """Pipelines that Airflow starts, each with those of these tables after whose new rows it does (`AfterTables`, but not one that waits
    for complete intervals)."""
    unread: frozenset[tuple[str, str]]
    """Pairs of ``starts``, pipeline and table, in which the pipeline does not read the table: its run may have no work."""

    def lines(self) -> list[str]:
        """Lines of text for messages; empty if nothing is downstream."""
        lines = []
        if self.flows:
            verb = "writes" if len(self.flows) == 1 else "write"
            lines.append(f"its changes are read by {', '.join(self.flows)}, which {verb} {', '.join(self.tables)}")
        for pipeline, tables in self.starts.items():
            for followed in tables:
                only = ", which does not read them" if (pipeline, followed) in self.unread else ""
                lines.append(f"in Airflow new rows in {followed} start {pipeline}{only}")
        return lines


def downstream_of(table: str, declared: Mapping[str, Pipeline | TidegateError]) -> Downstream:
    """What is downstream of a table such as ``silver.flights``.

    Args:
        declared: Every pipeline, or the error of loading its file (`tidegate.project.registry.declarations`).
    """
    pipelines = [each for each in declared.values() if not isinstance(each, TidegateError)]
    flows: list[str] = []
    reached = [table]
    for current in reached:
        for pipeline in pipelines:
            for flow in pipeline.flows:
                if current in flow.source_tables:
                    flows.append(f"{pipeline.name}/{flow.name}")
                    if flow.target.name not in reached:
                        # The loop continues with it.
                        reached.append(flow.target.name)
    following = {each.name: each for each in pipelines if isinstance(each.schedule, AfterTables)}
    starts = {name: tuple(table for table in reached if _follows(each, table)) for name, each in following.items()}
    unread = {
        (name, table)
        for name, tables in starts.items()
        for table in tables
        if not any(table in flow.source_tables for flow in following[name].flows)
    }
    return Downstream(
        flows=tuple(flows),
        tables=tuple(reached[1:]),
        starts={name: tables for name, tables in starts.items() if tables},
        unread=frozenset(unread),
    )


def _follows(pipeline: Pipeline, table: str) -> bool:
    schedule = pipeline.schedule
    return isinstance(schedule, AfterTables) and not schedule.intervals and table in schedule.tables
