"""The messages of the payments feed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from demo import clicks_feed, payments_feed

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def test_messages_depend_only_on_the_seed() -> None:
    assert payments_feed.wave_one(300) == payments_feed.wave_one(300)
    assert payments_feed.wave_one(300) != payments_feed.wave_one(300, seed=1)


def test_messages_of_one_card_go_to_one_partition() -> None:
    messages = [message for message in payments_feed.wave_one() if message.what == "payment"]
    assert all(json.loads(message.value)["card_id"].encode() == message.key for message in messages)
    assert {message.partition for message in messages} == set(range(clicks_feed.PARTITIONS))


def test_wave_one_has_every_kind_of_message() -> None:
    counts = clicks_feed.counts(payments_feed.wave_one())
    frauds = {"burst", "amount jump", "impossible travel"}
    assert counts.keys() == frauds | {"payment", "duplicate", "reversal", "malformed", "implausible", "wrong clock"}


def test_wave_two_has_late_payments_of_wave_one() -> None:
    late = [json.loads(each.value)["occurred_at"] < "2026-03-02T10:50" for each in payments_feed.wave_two()]
    assert 5 < sum(late) < 30
    assert len(late) > 1_000


def test_live_payments_have_recent_times_and_unique_numbers() -> None:
    sent = [payments_feed.live(first, NOW) for first in range(0, 2_000, 20)]
    assert all(10 <= len(messages) <= 20 for messages in sent), (
        "at least as many messages as payments, so that their number can be the next payment's"
    )
    events = [json.loads(message.value) for messages in sent for message in messages]
    assert {event["occurred_at"][:15] for event in events} == {"2026-05-04T11:5", "2026-05-04T12:0"}
    assert max(event["occurred_at"] for event in events) < "2026-05-04T12:00:10", "no clock is wrong by minutes"
    payments = [message.value for messages in sent for message in messages if message.what == "payment"]
    assert len({json.loads(value)["payment_id"] for value in payments}) == len(payments)
