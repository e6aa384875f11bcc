"""Readings of flows that are built in memory: what is known of them is given, the rest is read of a lake in memory."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pendulum

from tests.memory import MemoryLayout
from tests.resolved import resolved_flow
from tidegate.environment import Environment
from tidegate.spec import Flow, Pipeline
from tidegate.status.reading import Reading
from tidegate.status.source import Backlog


def reading_of(pipeline: Pipeline, flow: Flow, at: datetime | None = None, **known: Any) -> Reading:
    """A reading in which this is known."""
    declared = resolved_flow(flow, pipeline)
    return Reading(
        layout=MemoryLayout(), clusters=Environment.read({}).cluster, declared=declared, at=at or pendulum.now("UTC")
    ).given(**known)


def waiting(**changes: Any) -> Backlog:
    """Four rows in four files wait, with changes."""
    fields: dict[str, Any] = {"what": "4 new files", "behind": 4, "rows": 4, "size": 40, "position": "nothing read"}
    return Backlog(**(fields | {"has_data": True} | changes))
