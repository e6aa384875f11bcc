"""Ranges of a real topic are read message by message; which are refused is compared with what was sent."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from devstack.broker import Broker
from tests import topics
from tidegate.environment.clusters import Cluster
from tidegate.errors import OffsetsExpiredError, SourceUnavailableError
from tidegate.probes import messages, retention, samples
from tidegate.times import dates

FINE = 1_700_000_000_000
BAD = (2**63 - 1, FINE * 1_000_000, dates.END_MS, dates.FIRST_MS - 1, -62_135_596_800_000, -(2**62))
GOOD = (1, FINE, dates.END_MS - 1, dates.FIRST_MS, -1)
ANY_TIME = {
    "message_timestamp_after_max_ms": str(2**63 - 1),
    "message_timestamp_before_max_ms": str(2**63 - 1),
    "retention_ms": "-1",
}


@pytest.fixture
def odd_topic(broker: Broker, topic: str) -> Iterator[str]:
    broker.create_topic(topic, 1)
    topics.configure(broker, topic, **ANY_TIME)
    yield topic


def read(broker: Broker, topic: str, first: int, end: int, isolation: str = "read_committed") -> list[tuple[int, bool]]:
    received = messages.read_range(broker.cluster, topic, 0, first, end, isolation=isolation)
    return [(message.offset(), messages.is_refused(message)) for message in received]


@pytest.mark.jvm
@pytest.mark.kafka
def test_any_range_has_exactly_the_messages_that_were_sent_and_committed_and_refuses_those_out_of_range(
    broker: Broker, odd_topic: str
) -> None:
    from confluent_kafka import Producer

    dice = random.Random(28)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": odd_topic})
    producer.init_transactions()
    sent: list[tuple[int, bool, bool]] = []
    offset = 0
    for _ in range(25):
        producer.begin_transaction()
        commits = dice.random() < 0.7
        for _ in range(dice.randrange(1, 8)):
            bad = dice.random() < 0.4
            producer.produce(odd_topic, b"x", timestamp=dice.choice(BAD if bad else GOOD[:-1]))
            sent.append((offset, bad, commits))
            offset += 1
        producer.flush()
        producer.commit_transaction() if commits else producer.abort_transaction()
        offset += 1  # the marker of the transaction
    topics.delete_before(broker, odd_topic, begin := dice.randrange(1, 20))
    assert sum(bad and commits for _, bad, commits in sent) > 10 < sum(not commits for *_, commits in sent)

    for first, end in [(begin, offset), *(sorted(dice.sample(range(begin, offset + 1), 2)) for _ in range(12))]:
        within = [each for each in sent if first <= each[0] < end]
        assert read(broker, odd_topic, first, end) == [(at, bad) for at, bad, commits in within if commits]
        assert read(broker, odd_topic, first, end, "read_uncommitted") == [(at, bad) for at, bad, _ in within]

    with pytest.raises(OffsetsExpiredError, match="at offset 0 was planned to be read, but the broker deleted it"):
        read(broker, odd_topic, 0, offset)
    with pytest.raises(OffsetsExpiredError, match=f"but the partition ends at {offset}"):
        read(broker, odd_topic, begin, offset + 1)


@pytest.mark.jvm
@pytest.mark.kafka
def test_the_time_of_a_next_message_that_is_out_of_range_says_nothing(broker: Broker, odd_topic: str) -> None:
    topics.configure(broker, odd_topic, retention_ms=str(30 * 86_400_000))
    for sent_ms in (BAD[0], BAD[4], GOOD[2], FINE):
        topics.send(broker, odd_topic, [1], sent_ms=sent_ms)
    times = [samples.next_timestamps(broker.cluster, odd_topic, {0: offset}) for offset in range(4)]
    assert [sorted(each) for each in times] == [[], [], [0], [0]]
    for offset in range(4):
        retention.unread_until(broker.cluster, odd_topic, {0: offset})


@pytest.mark.slow
def test_a_broker_that_sends_nothing_is_a_transient_error() -> None:
    with pytest.raises(SourceUnavailableError, match=r"clicks.*no message within 0\.5 s"):
        list(
            messages.read_range(
                Cluster(servers="127.0.0.1:1"), "clicks", 0, 0, 1, isolation="read_committed", silence=0.5
            )
        )


class Sent:
    """A message as ``confluent_kafka`` has it."""

    def __init__(self, key: bytes | None, value: bytes | None, headers: Any = None, kind: int = 1, at: int = 0) -> None:
        self.key, self.value, self.headers = lambda: key, lambda: value, lambda: headers
        self.timestamp = lambda: (kind, at)


def test_the_record_of_an_entry_has_all_bytes_of_the_message() -> None:
    message = Sent(b"\xff\x00", '{"a": "é"}'.encode(), [("trace", b"1"), ("trace", None), ("raw", b"\xfe")])
    assert json.loads(messages.as_text(message)) == {
        "key_base64": "/wA=",
        "value": '{"a": "é"}',
        "headers": [
            {"name": "trace", "value": "1"},
            {"name": "trace", "value": None},
            {"name": "raw", "value_base64": "/g=="},
        ],
    }
    assert json.loads(messages.as_text(Sent(None, None))) == {"key": None, "value": None}


@pytest.mark.parametrize("sent_ms", BAD)
def test_a_timestamp_that_a_table_cannot_hold_is_refused(sent_ms: int) -> None:
    assert messages.is_refused(Sent(None, None, at=sent_ms))


@pytest.mark.parametrize("sent_ms", GOOD)
def test_a_timestamp_in_the_calendar_is_not_refused(sent_ms: int) -> None:
    assert not messages.is_refused(Sent(None, None, at=sent_ms))


def test_a_message_without_a_timestamp_has_that_of_kafkas_own_clients() -> None:
    assert (messages.sent_ms(Sent(None, None, kind=0, at=-1)), messages.sent_ms(Sent(None, None, kind=0))) == (-1, -1)
