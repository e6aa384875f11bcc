"""The history of alerts: an episode opens once, stays while its rule is true, and is resolved once. Pure.

The history is a log of events, read and appended by `tidegate.ops.alert_history`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from tidegate import wording

if TYPE_CHECKING:
    from tidegate.alerting.alerts import Findings

Kind = Literal["opened", "resolved"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of the history: an episode begins or ends, or a channel was told so."""

    flow: str
    rule: str
    opened_at: datetime
    """With flow and rule: which episode."""
    kind: Kind
    at: datetime
    message: str
    channel: str | None = None
    """None: it begins or ends. Else: this channel was told."""


@dataclass(frozen=True, kw_only=True)
class Episode:
    """One alert from its beginning to its end."""

    flow: str
    rule: str
    opened_at: datetime
    message: str
    """As it began."""
    resolved_at: datetime | None = None
    told: frozenset[tuple[Kind, str]] = frozenset()
    """Which channel was told of which end of it."""


def episodes_of(history: Iterable[Event]) -> tuple[Episode, ...]:
    """Episodes, oldest first, from the lines of the history in any order."""
    found: dict[tuple[str, str, datetime], dict[str, Any]] = {}
    for event in sorted(history, key=lambda event: (event.at, event.channel is not None, event.kind)):
        key = (event.flow, event.rule, event.opened_at)
        episode = found.setdefault(key, {"message": event.message, "resolved_at": None, "told": set()})
        if event.channel is not None:
            episode["told"].add((event.kind, event.channel))
        elif event.kind == "resolved":
            episode["resolved_at"] = event.at
    return tuple(
        Episode(
            flow=flow,
            rule=rule,
            opened_at=opened_at,
            message=found[key]["message"],
            resolved_at=found[key]["resolved_at"],
            told=frozenset(found[key]["told"]),
        )
        for key in sorted(found, key=lambda key: (key[2], key[0], key[1]))
        for flow, rule, opened_at in [key]
    )


def settle(episodes: Iterable[Episode], findings: Sequence[Findings], now: datetime) -> tuple[Event, ...]:
    """What begins and what ends with this look at a whole pipeline.

    Args:
        episodes: Of the pipeline.
        findings: Of each of its flows; an open episode of a flow that is not among them ends.
        now: The instant.
    """
    open_ones = {(each.flow, each.rule): each for each in episodes if each.resolved_at is None}
    true_ones = {(alert.flow, alert.rule): alert for found in findings for alert in found.alerts}
    unknown = {(found.flow, rule) for found in findings for rule in found.undecided}
    flows = {found.flow for found in findings}
    events = [
        Event(flow=flow, rule=rule, opened_at=now, kind="opened", at=now, message=alert.message)
        for (flow, rule), alert in true_ones.items()
        if (flow, rule) not in open_ones
    ]
    for (flow, rule), episode in open_ones.items():
        if (flow, rule) in true_ones or (flow, rule) in unknown:
            continue
        message = (
            f"after {wording.span(now - episode.opened_at)}" if flow in flows else "the flow is no longer declared"
        )
        events.append(
            Event(flow=flow, rule=rule, opened_at=episode.opened_at, kind="resolved", at=now, message=message)
        )
    return tuple(events)


TOLD_WITHIN = timedelta(days=1)
"""What ended longer ago is not news to a channel that was away or is new."""


def untold(episodes: Iterable[Episode], channel: str, now: datetime) -> tuple[tuple[Episode, Kind], ...]:
    """What a channel has still to be told, oldest first: each beginning once, each end once."""
    news: list[tuple[Episode, Kind]] = []
    for episode in episodes:
        if episode.resolved_at is not None and now - episode.resolved_at > TOLD_WITHIN:
            continue
        if ("opened", channel) not in episode.told:
            news.append((episode, "opened"))
        if episode.resolved_at is not None and ("resolved", channel) not in episode.told:
            news.append((episode, "resolved"))
    return tuple(news)
