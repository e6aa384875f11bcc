"""Reads and appends the history of a pipeline's alerts: ``_ops/<pipeline>/alerts``, written with delta-rs.

Lines are only appended: one when an episode opens, one when it is resolved, and one for each notification of these that was
sent to a channel. `tidegate.alerting.episodes` interprets them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.alerting.episodes import Episode, Event, episodes_of
from tidegate.ops import store
from tidegate.place import PipelinePlace

if TYPE_CHECKING:
    import pyarrow

    from tidegate.store import Address


def episodes(place: PipelinePlace) -> tuple[Episode, ...]:
    """All episodes of a pipeline, oldest first."""
    columns = ", ".join(("flow", "rule", "kind", "opened_at", "recorded_at", "message", "channel"))
    rows = store.select(_path(place), f"SELECT {columns} FROM delta_table")
    return episodes_of(
        Event(**{name: row[name] for name in row if name != "recorded_at"}, at=row["recorded_at"]) for row in rows
    )


def append(place: PipelinePlace, events: Iterable[Event]) -> None:
    """Append lines in one commit; without ``events`` there is no commit."""
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
        store.append(_path(place), schema(), lines)


def schema() -> pyarrow.Schema:
    """The columns of the table."""
    import pyarrow as pa

    text, instant = pa.string(), pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            ("flow", text),
            ("rule", text),
            ("kind", text),
            ("opened_at", instant),
            ("recorded_at", instant),
            ("message", text),
            ("channel", text),
        ]
    )


def _path(place: PipelinePlace) -> Address:
    return place.ops("alerts")
