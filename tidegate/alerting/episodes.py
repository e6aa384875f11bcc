"""Episodes of alerts: an episode opens once, stays open while its rule is true, and is resolved once. Pure functions.

The history is a log of events that `tidegate.ops.alert_history` reads and appends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from tidegate import formatting

if TYPE_CHECKING:
    from tidegate.alerting.alerts import Findings

Kind = Literal["opened", "resolved"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of the history: an episode opened or was resolved, or a notification of that was sent."""

    flow: str
    """Empty for an alert about the pipeline's declaration."""
    rule: str
    """The rule that was true."""
    opened_at: datetime
    """Identifies the episode, together with flow and rule."""
    kind: Kind
    """``opened`` or ``resolved``."""
    recorded_at: datetime
    message: str
    """The observed value and the limit; of an end the duration."""
    channel: str | None = None
    """None: the episode itself opened or was resolved. Otherwise: the channel that got the notification."""


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One alert from its opening to its resolution."""

    flow: str
    rule: str
    opened_at: datetime
    message: str
    """As of the opening."""
    resolved_at: datetime | None = None
    notified: frozenset[tuple[Kind, str]] = frozenset()
    """Kind and channel of each notification that was sent."""


def episodes_of(history: Iterable[Event]) -> tuple[Episode, ...]:
    """Episodes, oldest first, from events in any order."""
    fields: dict[tuple[str, str, datetime], dict[str, Any]] = {}
    for event in sorted(history, key=lambda event: (event.recorded_at, event.channel is not None, event.kind)):
        key = (event.flow, event.rule, event.opened_at)
        episode = fields.setdefault(key, {"message": event.message, "resolved_at": None, "notified": set()})
        if event.channel is not None:
            episode["notified"].add((event.kind, event.channel))
        elif event.kind == "resolved":
            episode["resolved_at"] = event.recorded_at
    return tuple(
        Episode(
            flow=flow,
            rule=rule,
            opened_at=opened_at,
            message=fields[key]["message"],
            resolved_at=fields[key]["resolved_at"],
            notified=frozenset(fields[key]["notified"]),
        )
        for key in sorted(fields, key=lambda key: (key[2], key[0], key[1]))
        for flow, rule, opened_at in [key]
    )


def transitions(episodes: Iterable[Episode], findings: Sequence[Findings], now: datetime) -> tuple[Event, ...]:
    """The events that one evaluation of a whole pipeline adds: episodes that open and episodes that are resolved.

    Args:
        findings: Of each of its flows; an open episode of any other flow is resolved.
    """
    open_episodes = {(each.flow, each.rule): each for each in episodes if each.resolved_at is None}
    alerts = {(alert.flow, alert.rule): alert for each in findings for alert in each.alerts}
    undecided = {(each.flow, rule) for each in findings for rule in each.undecided}
    flows = {each.flow for each in findings}
    events = [
        Event(flow=flow, rule=rule, opened_at=now, kind="opened", recorded_at=now, message=alert.message)
        for (flow, rule), alert in alerts.items()
        if (flow, rule) not in open_episodes
    ]
    for (flow, rule), episode in open_episodes.items():
        if (flow, rule) in alerts or (flow, rule) in undecided:
            continue
        message = (
            f"after {formatting.span(now - episode.opened_at)}" if flow in flows else "the flow is no longer declared"
        )
        events.append(
            Event(flow=flow, rule=rule, opened_at=episode.opened_at, kind="resolved", recorded_at=now, message=message)
        )
    return tuple(events)


NOTIFY_WITHIN = timedelta(days=1)
"""No notification is sent for an episode that was resolved longer ago, for example to a new channel."""


def pending_notifications(episodes: Iterable[Episode], channel: str, now: datetime) -> tuple[tuple[Episode, Kind], ...]:
    """The notifications that a channel has not received yet, oldest first: one per opening and one per resolution."""
    pending: list[tuple[Episode, Kind]] = []
    for episode in episodes:
        if episode.resolved_at is not None and now - episode.resolved_at > NOTIFY_WITHIN:
            continue
        if ("opened", channel) not in episode.notified:
            pending.append((episode, "opened"))
        if episode.resolved_at is not None and ("resolved", channel) not in episode.notified:
            pending.append((episode, "resolved"))
    return tuple(pending)
