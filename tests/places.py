"""The place of a declared flow, for tests."""

from __future__ import annotations

from tidegate.checkpoints import checkpoint
from tidegate.lake.layout import Layout
from tidegate.lake.place import FlowPlace, Place
from tidegate.spec import Flow, Pipeline


def of(layout: Layout, pipeline: Pipeline, flow: Flow) -> FlowPlace:
    """A flow in a lake."""
    return FlowPlace(layout, pipeline.name, flow.name)


def current(layout: Layout, pipeline: Pipeline, flow: Flow) -> Place:
    """The current checkpoint of a flow's declared version."""
    return checkpoint.current(of(layout, pipeline, flow), flow.checkpoint_version)
