"""Reads and appends the history of a pipeline's alerts: ``_ops/<pipeline>/alerts``, written with delta-rs.

Lines are added and never changed: one when an episode opens, one when it is resolved, and one for each of these that a
channel was told. What they mean is in `tidegate.alerting.episodes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.alerting.episodes import Episode, Event, episodes_of
from tidegate.ops import store

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from tidegate.layout import Layout


def episodes(layout: Layout, pipeline: str) -> tuple[Episode, ...]:
    """Every episode of a pipeline, oldest first."""
    columns = ", ".join(("flow", "rule", "kind", "opened_at", "recorded_at", "message", "channel"))
    rows = store.select(_path(layout, pipeline), f"SELECT {columns} FROM held")
    return episodes_of(
        Event(**{name: row[name] for name in row if name != "recorded_at"}, at=row["recorded_at"]) for row in rows
    )


def append(layout: Layout, pipeline: str, events: Iterable[Event]) -> None:
    """Add lines in one commit.

    Args:
        layout: The paths of the lake.
        pipeline: Its name.
        events: None is no commit.
    """
    lines = [
        {
            "flow": event.flow,
            "rule": event.rule,
            "kind": event.kind,
            "opened_at": event.opened_at,
            "recorded_at": event.at,
            "message": event.message,
            "channel": event.channel,
        }
        for event in events
    ]
    if lines:
        store.append(_path(layout, pipeline), schema(), lines)


def schema() -> pyarrow.Schema:
    """Names and types of the columns."""
    import pyarrow as pa

    text, moment = pa.string(), pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            ("flow", text),
            ("rule", text),
            ("kind", text),
            ("opened_at", moment),
            ("recorded_at", moment),
            ("message", text),
            ("channel", text),
        ]
    )


def _path(layout: Layout, pipeline: str) -> Path:
    return layout.ops(pipeline, "alerts")
