"""Reads and appends the history of a pipeline's alerts: ``_ops/<pipeline>/alerts``, written with delta-rs.

Lines are only appended: one when an episode opens, one when it is resolved, and one for each notification of these that was
sent to a channel. `tidegate.alerting.episodes` interprets them.
"""

from __future__ import annotations

from tidegate.alerting.episodes import Episode, Event, episodes_of
from tidegate.lake.place import PipelinePlace
from tidegate.ops.table import OwnTable

ALERTS = OwnTable("alerts", Event)
append = ALERTS.append


def episodes(place: PipelinePlace) -> tuple[Episode, ...]:
    """All episodes of a pipeline, oldest first."""
    return episodes_of(ALERTS.read(place))
