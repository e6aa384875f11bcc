"""The addresses of one flow in the lake, and those of one of its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tidegate.layout import Layout


@dataclass(frozen=True)
class FlowPlace:
    """A flow in a lake."""

    layout: Layout
    pipeline: str
    flow: str

    @property
    def notes(self) -> Path:
        """The folder of the flow's checkpoints and of the notes beside them (`tidegate.checkpoints.notes`)."""
        return self.layout.checkpoints(self.pipeline, self.flow)


@dataclass(frozen=True)
class Place(FlowPlace):
    """A checkpoint of a flow in a lake."""

    version: int
    refresh: int

    def of_version(self, version: int) -> Place:
        """The first checkpoint of another version."""
        return replace(self, version=version, refresh=0)
