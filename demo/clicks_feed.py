"""Produces generated clicks to a real Kafka topic: keyed, four partitions, out of order, some duplicate, some malformed.

The same seed gives the same messages in the same order. The key determines the partition, so offsets are the same too.
"""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.advice import OutsideAct
from tidegate.environment.clusters import Cluster
from tidegate.errors import SourceUnavailableError
from tidegate.formatting import count

TOPIC = "clickstream"
"""As ``pipelines/clickstream.py`` declares it."""
PARTITIONS = 4
SEED = 2013
MORNING = datetime(2026, 3, 2, 8, tzinfo=UTC)
"""Time of the first click. Fixed, so that two demos produce the same tables."""
PAGES = ("/", "/boats", "/boats/dinghy", "/sails", "/ropes", "/cart", "/checkout", "/help", "/tides", "/charts")
SECONDS_TO_WAIT = 30.0


@dataclass(frozen=True)
class Message:
    """One message for the topic."""

    key: bytes
    value: bytes
    what: str
    """The kind of message, for the output: ``view``, ``correction``, ``duplicate``, ``delete``, …"""

    @property
    def partition(self) -> int:
        """Messages of one key go to one partition."""
        return zlib.crc32(self.key) % PARTITIONS


def wave_one(views: int = 18_000, seed: int = SEED) -> list[Message]:
    """Half a day of clicks with all kinds of messages of a real topic."""
    rng = random.Random(seed)
    messages = [_view(rng, number, minutes=240) for number in range(views)]
    messages += list(_follow_ups(rng, messages))
    messages += _malformed(first=0, count=24)
    messages += _implausible(rng, first=0, count=16)
    return _out_of_order(rng, messages)


def wave_two(views: int = 4_000, already: int = 18_000, seed: int = SEED) -> list[Message]:
    """More clicks, and changes of old ones: corrections, deletions, and older versions that arrive after them.

    Args:
        views: Number of new events.
        already: Number of events of wave 1; some of them are corrected and deleted.
        seed: The seed of wave 1.
    """
    before = random.Random(seed)
    old = [_view(before, number, minutes=240) for number in range(already)]
    rng = random.Random(seed + 1)
    changed = rng.sample(old, already // 50)
    messages = [_view(rng, number, minutes=120) for number in range(already, already + views)]
    messages += list(_follow_ups(rng, messages))
    for number, message in enumerate(changed):
        messages += [_delete(message, sequence=9)] if number % 3 == 0 else [_correct(rng, message, sequence=4)]
    messages += _malformed(first=24, count=8)
    # Versions that are older than a deletion or a correction and arrive last: they must have no effect.
    return _out_of_order(rng, messages) + [Message(m.key, m.value, "stale") for m in changed[:60]]


def live(first: int, now: datetime, views: int = 40) -> list[Message]:
    """Clicks of the last seconds, with follow-ups of some of them and occasional bad messages.

    Args:
        first: The number of the first event; later calls need higher numbers.
        now: The time of the last event.
        views: Number of new events.
    """
    rng = random.Random(SEED + first)
    messages = [_view(rng, first + number, since=now - timedelta(seconds=6), minutes=0.1) for number in range(views)]
    messages += list(_follow_ups(rng, messages))
    if rng.random() < 0.2:
        messages += [*_malformed(first, 1), *_implausible(rng, first, 1, since=now)]
    return _out_of_order(rng, messages)


def counts(messages: Sequence[Message]) -> dict[str, int]:
    """The number of messages of each kind."""
    return dict(Counter(message.what for message in messages))


def produce(cluster: Cluster, messages: Sequence[Message], topic: str = TOPIC) -> None:
    """Send the messages in this order and wait until the broker has acknowledged all of them.

    Raises:
        SourceUnavailableError: The broker did not acknowledge all of them.
    """
    from confluent_kafka import Producer

    refused: list[str] = []
    # log_level 3: while a new broker starts, the client waits and would print warnings to the terminal.
    own = {"enable.idempotence": True, "linger.ms": 20, "log_level": 3}
    producer = Producer({**cluster.librdkafka(), **own})

    def record_error(error: object, _: object) -> None:
        if error is not None:
            refused.append(str(error))

    for message in messages:
        while True:
            try:
                producer.produce(topic, message.value, message.key, message.partition, on_delivery=record_error)
                break
            except BufferError:
                producer.poll(1)
        producer.poll(0)
    pending = producer.flush(SECONDS_TO_WAIT)
    if pending or refused:
        reason = refused[0] if refused else f"no answer within {SECONDS_TO_WAIT:g} seconds"
        number = pending + len(refused)
        raise SourceUnavailableError(
            f"The broker at {cluster.servers} did not acknowledge {count(number, 'message')}: {reason}",
            OutsideAct("see whether the broker runs, and run again"),
        )


def _view(rng: random.Random, number: int, *, minutes: float, since: datetime = MORNING) -> Message:
    probe = rng.random() < 0.02
    event = {
        "event_id": f"e{number:07d}",
        "sequence": 1,
        "kind": "view",
        "occurred_at": _instant(since, rng.uniform(0, minutes)),
        "user_id": f"u{int(rng.paretovariate(1.2) * 7) % 900:04d}",
        "page": rng.choices(PAGES, weights=range(len(PAGES), 0, -1))[0] + ("?ref=mail" if rng.random() < 0.1 else ""),
        "duration_ms": int(rng.expovariate(1 / 20_000)),
        "agent": "uptime-probe" if probe else rng.choice(("firefox", "chrome", "safari")),
    }
    return _message(event, "probe" if probe else "view")


def _follow_ups(rng: random.Random, views: Sequence[Message]) -> Iterator[Message]:
    """Later messages for some of the views: a duplicate, a correction, or a deletion."""
    for message in views:
        draw = rng.random()
        if draw < 0.02:
            yield Message(message.key, message.value, "duplicate")
        elif draw < 0.06:
            yield _correct(rng, message, sequence=2)
        elif draw < 0.07:
            yield _delete(message, sequence=3)


def _correct(rng: random.Random, message: Message, *, sequence: int) -> Message:
    event: dict[str, Any] = json.loads(message.value)
    return _message({**event, "sequence": sequence, "page": rng.choice(PAGES)}, "correction")


def _delete(message: Message, *, sequence: int) -> Message:
    event_id = json.loads(message.value)["event_id"]
    return _message({"event_id": event_id, "sequence": sequence, "kind": "delete"}, "delete")


def _malformed(first: int, count: int) -> list[Message]:
    """Values that are not events."""
    shapes = (
        b"not json",
        b'{"event_id": "x1", "sequence": 1, "kind": "vi',
        b'{"event_id": "x2", "sequence": "first", "kind": "view"}',
        b'{"sequence": 1, "kind": "view", "page": "/"}',
    )
    return [Message(b"x%d" % n, shapes[n % len(shapes)], "malformed") for n in range(first, first + count)]


def _implausible(rng: random.Random, first: int, count: int, since: datetime = MORNING) -> list[Message]:
    """Events that can be parsed but break an expectation of ``expectations/clickstream/silver.json``."""
    wrong = ({"duration_ms": -5}, {"page": "boats"}, {"user_id": None}, {"kind": "scroll"})
    messages = []
    for number in range(first, first + count):
        event: dict[str, Any] = json.loads(_view(rng, number, minutes=240, since=since).value)
        odd = {**event, "event_id": f"odd{number:04d}", "agent": "firefox", **wrong[number % len(wrong)]}
        messages.append(_message(odd, "implausible"))
    return messages


def _out_of_order(rng: random.Random, messages: Sequence[Message]) -> list[Message]:
    """Shuffle the messages: a correction or deletion may precede its view."""
    shuffled = list(messages)
    rng.shuffle(shuffled)
    return shuffled


def _message(event: dict[str, Any], what: str) -> Message:
    return Message(event["event_id"].encode(), json.dumps(event).encode(), what)


def _instant(since: datetime, minutes: float) -> str:
    return (since + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
