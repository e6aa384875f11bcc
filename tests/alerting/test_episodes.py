"""An episode opens once and is resolved once, and every channel gets one notification of each."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from tidegate.alerting.alerts import Alert, Findings
from tidegate.alerting.episodes import Episode, Event, Kind, episodes_of, pending_notifications, transitions

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTES = timedelta(minutes=5)


def findings(*rules: str, undecided: tuple[str, ...] = (), flow: str = "bronze") -> Findings:
    alerts = tuple(Alert(flow=flow, rule=rule, message=f"{rule} is true") for rule in rules)
    return Findings(flow=flow, alerts=alerts, undecided=frozenset(undecided))


class History:
    """Evaluates one pipeline every five minutes and keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = NOW

    def evaluate(self, *results: Findings) -> list[tuple[str, str, str]]:
        self.now += MINUTES
        new = transitions(self.episodes, results, self.now)
        self.events += new
        return [(event.kind, event.flow, event.rule) for event in new]

    @property
    def episodes(self) -> tuple[Episode, ...]:
        return episodes_of(self.events)

    def pending(self, channel: str = "webhook") -> list[tuple[str, str]]:
        return [(kind, episode.rule) for episode, kind in pending_notifications(self.episodes, channel, self.now)]

    def send(self, channel: str = "webhook") -> None:
        for episode, kind in pending_notifications(self.episodes, channel, self.now):
            self.events.append(sent(episode, kind, channel, self.now))


def sent(episode: Episode, kind: Kind, channel: str, at: datetime) -> Event:
    return Event(
        flow=episode.flow,
        rule=episode.rule,
        opened_at=episode.opened_at,
        kind=kind,
        recorded_at=at,
        message="",
        channel=channel,
    )


def test_an_episode_opens_once_and_is_resolved_once() -> None:
    history = History()
    assert history.evaluate(findings()) == []
    assert history.evaluate(findings("lag")) == [("opened", "bronze", "lag")]
    assert history.evaluate(findings("lag")) == []
    assert history.evaluate(findings("lag", "slow")) == [("opened", "bronze", "slow")]
    assert history.evaluate(findings("slow")) == [("resolved", "bronze", "lag")]
    assert history.evaluate(findings("slow")) == []
    assert history.evaluate(findings()) == [("resolved", "bronze", "slow")]
    lag, slow = history.episodes
    assert (lag.rule, lag.message, lag.resolved_at) == ("lag", "lag is true", NOW + 5 * MINUTES)
    assert slow.resolved_at == NOW + 7 * MINUTES


def test_an_alert_that_recurs_is_a_new_episode() -> None:
    history = History()
    for result in (findings("lag"), findings(), findings("lag")):
        history.evaluate(result)
    assert [episode.resolved_at is None for episode in history.episodes] == [False, True]


def test_an_undecided_rule_neither_opens_nor_resolves_an_episode() -> None:
    history = History()
    history.evaluate(findings("lag"))
    assert history.evaluate(findings(undecided=("lag", "slow"))) == []
    assert history.evaluate(findings("lag")) == []


def test_each_flow_has_its_own_episodes() -> None:
    history = History()
    history.evaluate(findings("lag"), findings("lag", flow="silver"))
    assert history.evaluate(findings("lag"), findings(flow="silver")) == [("resolved", "silver", "lag")]


def test_an_episode_is_resolved_when_its_flow_is_no_longer_declared() -> None:
    history = History()
    history.evaluate(findings("lag"), findings("lag", flow="old"))
    assert history.evaluate(findings("lag")) == [("resolved", "old", "lag")]
    assert history.events[-1].message == "the flow is no longer declared"


def test_the_order_of_events_does_not_matter() -> None:
    history = History()
    for result in (findings("lag"), findings("slow"), findings("lag"), findings()):
        history.evaluate(result)
        history.send()
    shuffled = list(history.events)
    random.Random(3).shuffle(shuffled)
    assert episodes_of(shuffled) == history.episodes


def test_a_channel_gets_one_notification_per_opening_and_per_resolution() -> None:
    history = History()
    history.evaluate(findings("lag"))
    assert history.pending() == [("opened", "lag")]
    history.send()
    history.evaluate(findings("lag"))
    assert history.pending() == []
    history.evaluate(findings())
    assert history.pending() == [("resolved", "lag")]
    history.send()
    assert history.pending() == []


def test_a_channel_that_was_unreachable_gets_its_notifications_later_in_order() -> None:
    history = History()
    for result in (findings("lag"), findings("lag"), findings()):
        history.evaluate(result)
        history.send("log")
    assert history.pending("log") == []
    assert history.pending("webhook") == [("opened", "lag"), ("resolved", "lag")]


def test_a_new_channel_gets_open_episodes_and_none_that_were_resolved_long_ago() -> None:
    history = History()
    history.evaluate(findings("lag", "slow"))
    history.evaluate(findings("slow"))
    history.now += timedelta(days=2)
    assert history.pending("new") == [("opened", "slow")]
