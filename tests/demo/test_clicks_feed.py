"""The messages of the clicks feed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from demo import clicks_feed
from demo.clicks_feed import Message

pytestmark = pytest.mark.slow


def event(message: Message) -> dict[str, Any]:
    content = json.loads(message.value)
    assert isinstance(content, dict)
    return content


def test_messages_depend_only_on_the_seed() -> None:
    assert clicks_feed.wave_one(500) == clicks_feed.wave_one(500)
    assert clicks_feed.wave_one(500) != clicks_feed.wave_one(500, seed=1)


def test_messages_of_one_event_go_to_one_partition_and_all_partitions_are_used() -> None:
    partitions_by_key: dict[bytes, set[int]] = {}
    for message in clicks_feed.wave_one(2_000):
        partitions_by_key.setdefault(message.key, set()).add(message.partition)
    assert all(len(partitions) == 1 for partitions in partitions_by_key.values())
    assert set().union(*partitions_by_key.values()) == set(range(clicks_feed.PARTITIONS))


def test_wave_one_has_every_kind_of_message() -> None:
    counts = clicks_feed.counts(clicks_feed.wave_one())
    assert set(counts) == {"view", "correction", "duplicate", "delete", "probe", "malformed", "implausible"}
    assert 18_000 < sum(counts.values()) < 21_000


def test_some_corrections_precede_their_view() -> None:
    first_sequence: dict[str, int] = {}
    for message in clicks_feed.wave_one(2_000):
        if message.what in ("view", "correction"):
            first_sequence.setdefault(event(message)["event_id"], event(message)["sequence"])
    assert 2 in first_sequence.values()


def test_wave_two_changes_events_of_wave_one() -> None:
    sent = {message.key: message.value for message in clicks_feed.wave_one(1_000) if message.what in ("view", "probe")}
    second = clicks_feed.wave_two(views=100, already=1_000)
    stale = [message for message in second if message.what == "stale"]
    assert stale
    assert all(sent[message.key] == message.value for message in stale), (
        "a stale message is identical to the one of wave 1"
    )
    deleted = {message.key for message in second if message.what == "delete"}
    assert {message.key for message in stale} & deleted, "some stale messages follow a deletion"


def test_malformed_messages_are_not_events() -> None:
    for message in clicks_feed.wave_one(100):
        if message.what == "malformed":
            try:
                content = event(message)
            except ValueError:
                continue
            assert not isinstance(content.get("sequence"), int) or "event_id" not in content
