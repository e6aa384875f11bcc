"""The flows above a flow: those that write the tables whose changes it reads, in any pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate import states
from tidegate.errors import TidegateError
from tidegate.status.wait import BlockingFlow, Upstream

if TYPE_CHECKING:
    from tidegate.project.resolution import ResolvedPipeline
    from tidegate.status.reading import Reading


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


def upstream_of(reading: Reading) -> Upstream:
    """A flow as those see it that read its table."""
    status, above = states.status_of(reading), reading.upstream
    if status.name == "waits" and above is not None:
        cause = above.cause
    else:
        cause = BlockingFlow(
            pipeline=reading.pipeline,
            flow=reading.flow,
            state=status.name,
            needs_person=status.state.needs_person,
            text=status.text,
        )
    return Upstream(pipeline=reading.pipeline, blocks=status.state.blocks, cause=cause)


def connected(readings: Sequence[Reading]) -> list[Reading]:
    """Readings with the flows that write their sources. Pipelines that feed each other in a circle stay open."""
    writers = {each.target: each for each in readings if each.target}
    done: dict[Reading, Reading] = {}

    def connect(reading: Reading, below: tuple[Reading, ...]) -> Reading:
        if reading not in done:
            path = (*below, reading)
            tables = () if isinstance(reading.declared, str) else reading.declared.flow.source_tables
            above = [writer for table in tables if (writer := writers.get(table)) is not None and writer not in path]
            known = [upstream_of(connect(each, path)) for each in above]
            # One that blocks decides; the first if none does.
            first = next(iter(known), None)
            done[reading] = reading.given(upstream=next((each for each in known if each.blocks), first))
        return done[reading]

    return [connect(each, ()) for each in readings]
