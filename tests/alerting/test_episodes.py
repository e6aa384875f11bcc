"""An alert opens once, stays, is resolved once, and every channel hears of each end once."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from tidegate.alerting.alerts import Alert, Findings
from tidegate.alerting.episodes import Episode, Event, Kind, episodes_of, settle, untold

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTES = timedelta(minutes=5)


def findings(*rules: str, undecided: tuple[str, ...] = (), flow: str = "bronze") -> Findings:
    alerts = tuple(Alert(flow=flow, rule=rule, message=f"{rule} is true") for rule in rules)
    return Findings(flow=flow, alerts=alerts, undecided=frozenset(undecided))


class History:
    """Looks at one pipeline every five minutes and keeps what happened."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = NOW

    def look(self, *found: Findings) -> list[tuple[str, str, str]]:
        self.now += MINUTES
        new = settle(self.episodes, found, self.now)
        self.events += new
        return [(event.kind, event.flow, event.rule) for event in new]

    @property
    def episodes(self) -> tuple[Episode, ...]:
        return episodes_of(self.events)

    def news(self, channel: str = "webhook") -> list[tuple[str, str]]:
        return [(kind, episode.rule) for episode, kind in untold(self.episodes, channel, self.now)]

    def tell(self, channel: str = "webhook") -> None:
        for episode, kind in untold(self.episodes, channel, self.now):
            self.events.append(told(episode, kind, channel, self.now))


def told(episode: Episode, kind: Kind, channel: str, at: datetime) -> Event:
    return Event(
        flow=episode.flow,
        rule=episode.rule,
        opened_at=episode.opened_at,
        kind=kind,
        at=at,
        message="",
        channel=channel,
    )


def test_an_episode_opens_once_and_is_resolved_once() -> None:
    history = History()
    assert history.look(findings()) == []
    assert history.look(findings("lag")) == [("opened", "bronze", "lag")]
    assert history.look(findings("lag")) == []
    assert history.look(findings("lag", "late")) == [("opened", "bronze", "late")]
    assert history.look(findings("late")) == [("resolved", "bronze", "lag")]
    assert history.look(findings("late")) == []
    assert history.look(findings()) == [("resolved", "bronze", "late")]
    lag, late = history.episodes
    assert (lag.rule, lag.message, lag.resolved_at) == ("lag", "lag is true", NOW + 5 * MINUTES)
    assert late.resolved_at == NOW + 7 * MINUTES


def test_what_comes_back_is_an_episode_of_its_own() -> None:
    history = History()
    for found in (findings("lag"), findings(), findings("lag")):
        history.look(found)
    assert [episode.resolved_at is None for episode in history.episodes] == [False, True]


def test_an_undecided_rule_neither_opens_nor_ends() -> None:
    history = History()
    history.look(findings("lag"))
    assert history.look(findings(undecided=("lag", "late"))) == []
    assert history.look(findings("lag")) == []


def test_flows_have_episodes_of_their_own() -> None:
    history = History()
    history.look(findings("lag"), findings("lag", flow="silver"))
    assert history.look(findings("lag"), findings(flow="silver")) == [("resolved", "silver", "lag")]


def test_an_episode_ends_with_the_declaration_of_its_flow() -> None:
    history = History()
    history.look(findings("lag"), findings("lag", flow="old"))
    assert history.look(findings("lag")) == [("resolved", "old", "lag")]
    assert history.events[-1].message == "the flow is no longer declared"


def test_the_order_of_lines_does_not_matter() -> None:
    history = History()
    for found in (findings("lag"), findings("late"), findings("lag"), findings()):
        history.look(found)
        history.tell()
    shuffled = list(history.events)
    random.Random(3).shuffle(shuffled)
    assert episodes_of(shuffled) == history.episodes


def test_a_channel_hears_of_each_end_once() -> None:
    history = History()
    history.look(findings("lag"))
    assert history.news() == [("opened", "lag")]
    history.tell()
    history.look(findings("lag"))
    assert history.news() == []
    history.look(findings())
    assert history.news() == [("resolved", "lag")]
    history.tell()
    assert history.news() == []


def test_a_channel_that_was_away_hears_it_later_in_order() -> None:
    history = History()
    for found in (findings("lag"), findings("lag"), findings()):
        history.look(found)
        history.tell("log")
    assert history.news("log") == []
    assert history.news("webhook") == [("opened", "lag"), ("resolved", "lag")]


def test_what_ended_long_ago_is_no_news_to_a_new_channel_but_what_is_open_is() -> None:
    history = History()
    history.look(findings("lag", "late"))
    history.look(findings("late"))
    history.now += timedelta(days=2)
    assert history.news("new") == [("opened", "late")]
