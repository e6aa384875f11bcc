"""Which flows of a request replace rows that readers have, so that there is something to judge. Starts no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.checkpoints import checkpoint
from tidegate.lake.place import FlowPlace, PipelinePlace
from tidegate.probes import delta
from tidegate.requests.runs import RUNS

if TYPE_CHECKING:
    from tidegate.lake.layout import Layout
    from tidegate.requests.request import RunRequest
    from tidegate.spec import Flow, Pipeline


def has_any(layout: Layout, pipeline: Pipeline, request: RunRequest) -> bool:
    """Whether there is one."""
    return bool(flows_of(layout, pipeline, request))


def flows_of(layout: Layout, pipeline: Pipeline, request: RunRequest) -> list[Flow]:
    """The flows that the request backfills or refreshes, and those of its flows that derive their table again."""
    pipeline_place = PipelinePlace(layout, pipeline.name)
    return [
        flow
        for flow in request.selected(pipeline)
        if (request.applies_to(flow) and RUNS[request.mode].replaces_rows)
        or derives_again(pipeline_place.flow(flow.name), flow)
    ]


def derives_again(of_flow: FlowPlace, flow: Flow) -> bool:
    """Whether the flow's next run swaps in a table of a new checkpoint version, or of a refresh that was not swapped in yet."""
    if not flow.is_staged:
        return False
    place = checkpoint.current(of_flow, flow.checkpoint_version)
    writers = delta.writers(place.layout.table(flow.target.name), place.app_id)
    return place.app_id not in writers and any(place.of_stream(writer) is not None for writer in writers)
