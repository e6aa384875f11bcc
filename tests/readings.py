"""Readings of flows that are built in memory: what is known of them is given, and nothing is read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pendulum

from tests.resolved import resolved_flow
from tidegate.environment import Environment
from tidegate.spec import Flow, Pipeline
from tidegate.status.reading import Reading
from tidegate.status.sources.source import Backlog

ENVIRONMENT = Environment.read({})


def reading_of(pipeline: Pipeline, flow: Flow, at: datetime | None = None, **known: Any) -> Reading:
    """A reading in which this is known."""
    declared = resolved_flow(flow, pipeline)
    return Reading(environment=ENVIRONMENT, declared=declared, at=at or pendulum.now("UTC")).given(**known)


def waiting(**changes: Any) -> Backlog:
    """Four rows in four files wait, with changes."""
    fields: dict[str, Any] = {"behind": 4, "rows": 4, "size": 40, "rows_exact": True, "size_exact": True}
    return Backlog(**(fields | {"summary": "4 new files", "position": "nothing read", "has_data": True} | changes))
