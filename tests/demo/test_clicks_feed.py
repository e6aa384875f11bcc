"""What the clicks feeder sends."""

from __future__ import annotations

import json
from typing import Any

from demo import clicks_feed
from demo.clicks_feed import Message


def event(message: Message) -> dict[str, Any]:
    found = json.loads(message.value)
    assert isinstance(found, dict)
    return found


def test_the_same_seed_gives_the_same_messages_and_another_gives_others() -> None:
    assert clicks_feed.wave_one(500) == clicks_feed.wave_one(500)
    assert clicks_feed.wave_one(500) != clicks_feed.wave_one(500, seed=1)


def test_messages_of_one_event_stay_in_one_partition_and_all_partitions_get_some() -> None:
    places: dict[bytes, set[int]] = {}
    for message in clicks_feed.wave_one(2_000):
        places.setdefault(message.key, set()).add(message.partition)
    assert all(len(found) == 1 for found in places.values())
    assert set().union(*places.values()) == set(range(clicks_feed.PARTITIONS))


def test_a_wave_holds_every_kind_of_trouble() -> None:
    counts = clicks_feed.counts(clicks_feed.wave_one())
    assert set(counts) == {"view", "correction", "duplicate", "delete", "probe", "malformed", "implausible"}
    assert 18_000 < sum(counts.values()) < 21_000


def test_some_corrections_come_before_what_they_correct() -> None:
    first_seen: dict[str, int] = {}
    for message in clicks_feed.wave_one(2_000):
        if message.what in ("view", "correction"):
            first_seen.setdefault(event(message)["event_id"], event(message)["sequence"])
    assert 2 in first_seen.values()


def test_wave_two_touches_events_that_wave_one_sent() -> None:
    sent = {message.key: message.value for message in clicks_feed.wave_one(1_000) if message.what in ("view", "probe")}
    second = clicks_feed.wave_two(views=100, already=1_000)
    stale = [message for message in second if message.what == "stale"]
    assert stale
    assert all(sent[message.key] == message.value for message in stale), "a stale message repeats wave 1 to the byte"
    deleted = {message.key for message in second if message.what == "delete"}
    assert {message.key for message in stale} & deleted, "some stale messages come after a deletion"


def test_malformed_messages_are_no_events() -> None:
    for message in clicks_feed.wave_one(100):
        if message.what == "malformed":
            try:
                found = event(message)
            except ValueError:
                continue
            assert not isinstance(found.get("sequence"), int) or "event_id" not in found
