"""The event time by which the windows of a flow are defined."""

from __future__ import annotations

from tidegate.spec import Flow, Pipeline


def event_time_table(flow: Flow) -> str:
    """The table whose event time defines windows of this flow: its target, or the source of its groups."""
    return flow.source_tables[0] if flow.kind.has_groups else flow.target.name


def event_time(pipeline: Pipeline, flow: Flow) -> str | None:
    """The event time column of `event_time_table`; None if none is known.

    A key of groups is a column of that table as well, so it may be declared for the groups, where another pipeline writes the table.
    """
    name, target = event_time_table(flow), flow.target
    declared = next((each.target.event_time for each in pipeline.flows if each.target.name == name), None)
    is_column = flow.kind.has_groups and target.windows is None and target.event_time in target.scope
    return declared or (target.event_time if is_column else None)
