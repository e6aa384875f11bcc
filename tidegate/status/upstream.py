"""The flow above a flow: the one that writes the table whose changes it reads, in any pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.spec import ChangeFeed

if TYPE_CHECKING:
    from tidegate.resolution import ResolvedPipeline
    from tidegate.status.flow_status import FlowStatus


def with_upstream(
    names: Sequence[str], declared: Mapping[str, ResolvedPipeline | TidegateError]
) -> list[tuple[str, ResolvedPipeline | TidegateError]]:
    """Some of all pipelines, and those whose tables they read, for `tidegate.status.flow_status.gather`."""
    writers = {
        flow.target.name: name
        for name, resolved in declared.items()
        if not isinstance(resolved, TidegateError)
        for flow in resolved.pipeline.flows
    }
    reached = list(names)
    for name in reached:
        resolved = declared[name]
        for flow in () if isinstance(resolved, TidegateError) else resolved.pipeline.flows:
            writer = writers.get(flow.source.table) if isinstance(flow.source, ChangeFeed) else None
            if writer is not None and writer not in reached:
                # The loop continues with it.
                reached.append(writer)
    return [(name, resolved) for name, resolved in declared.items() if name in reached]


def connect(pipelines: Sequence[ResolvedPipeline], statuses: Sequence[FlowStatus]) -> None:
    """Connect each flow with the flow that writes its source. Pipelines that feed each other in a circle stay open."""
    writers = {status.target: status for status in statuses if status.target}
    for resolved in pipelines:
        for status in statuses:
            if status.pipeline != resolved.pipeline.name:
                continue
            source = resolved.pipeline.flow(status.flow).source
            writer = writers.get(source.table) if isinstance(source, ChangeFeed) else None
            above = writer
            while above is not None and above is not status:
                above = above.upstream
            status.upstream = writer if above is None else None
