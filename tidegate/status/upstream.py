"""The flows above a flow: those that write the tables whose changes it reads, in any pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError

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
            for writer in (writers.get(table) for table in flow.source_tables):
                if writer is not None and writer not in reached:
                    # The loop continues with it.
                    reached.append(writer)
    return [(name, resolved) for name, resolved in declared.items() if name in reached]


def connect(pipelines: Sequence[ResolvedPipeline], statuses: Sequence[FlowStatus]) -> None:
    """Connect each flow with the flows that write its sources. Pipelines that feed each other in a circle stay open."""
    writers = {status.target: status for status in statuses if status.target}
    for resolved in pipelines:
        for status in statuses:
            if status.pipeline != resolved.pipeline.name:
                continue
            above = (writers.get(table) for table in resolved.pipeline.flow(status.flow).source_tables)
            status.upstream = tuple(each for each in above if each is not None and not _is_above(status, each))


def _is_above(status: FlowStatus, of: FlowStatus) -> bool:
    """Whether a flow is another one, or above it by what is connected so far."""
    reached = [of]
    for each in reached:
        # The loop continues with them.
        reached += [above for above in each.upstream if not any(above is other for other in reached)]
    return any(each is status for each in reached)
