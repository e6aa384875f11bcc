"""Whether a manual run reads so little that a short start-up matters more than compiled code. Starts no JVM."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.lake.layout import Layout
from tidegate.planning import rewrites
from tidegate.requests.runs import RUNS
from tidegate.status import source
from tidegate.status.plan import SMALL_FIRST_BYTES

if TYPE_CHECKING:
    from tidegate.environment import Environment
    from tidegate.requests.request import RunRequest
    from tidegate.spec import Pipeline
    from tidegate.status.source import Extent


def with_size(
    environment: Environment, pipeline: Pipeline, request: RunRequest, extents: Iterable[Extent] | None = None
) -> RunRequest:
    """The request with `RunRequest.size` and ``small`` set: whether it reads so little that C1-only compilation is faster.

    A source table counts with all of its rows, whatever the window. A source of unknown size is not small.

    Args:
        request: A request of a mode other than ``incremental``, or a dry run.
        extents: What its flows read, if `tidegate.planning.preview.preview` has measured it before.
    """
    layout = Layout.of(environment)
    try:
        if extents is None:
            flows = [flow for flow in request.selected(pipeline) if request.applies_to(flow)]
            if not RUNS[request.mode].reads_source:
                flows = []
            elif request.dry_run:
                flows = rewrites.flows_of(layout, pipeline, request)
            extents = [source.load(flow).extent(environment, pipeline, flow, request) for flow in flows]
        sizes = [extent.size for extent in extents]
    except TidegateError:
        # The run itself reports the error.
        sizes = [None]
    total = source.total_or_none(sizes)
    return dataclasses.replace(request, small=total is not None and total < SMALL_FIRST_BYTES, size=total)
