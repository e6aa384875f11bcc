"""Produces generated payments to a real Kafka topic, as they arrive: some late, some twice, some reversed, some fraudulent.

The same seed gives the same messages in the same order. The card determines the partition, so offsets are the same too.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from demo.clicks_feed import Message

TOPIC = "payments"
"""As ``pipelines/payments.py`` declares it."""
ALERTS = "payment-alerts"
"""The topic of the alerts, likewise."""
SEED = 1950
"""The year of the first charge card."""
MORNING = datetime(2026, 3, 2, 8, tzinfo=UTC)
"""Time of the first payment. Fixed, so that two demos produce the same tables."""
MINUTES_OF_WAVE_ONE, MINUTES_OF_WAVE_TWO = 180.0, 60.0
CITIES = (
    ("GB", 51.5072, -0.1276),
    ("FR", 48.8567, 2.3522),
    ("US", 40.7128, -74.006),
    ("JP", 35.6764, 139.65),
    ("BR", -23.5558, -46.6396),
    ("ZA", -33.9221, 18.4231),
)
"""Countries, and the coordinates of a city in each."""
CARDS = 240


@dataclass(frozen=True)
class Arrival:
    """A message and when it arrives, in minutes."""

    minute: float
    message: Message


def wave_one(payments: int = 3_000, seed: int = SEED) -> list[Message]:
    """Three hours of payments, and messages that are none."""
    rng = random.Random(seed)
    arrivals = _payments(rng, 0, payments, MORNING, MINUTES_OF_WAVE_ONE)
    arrivals += [Arrival(rng.uniform(0, MINUTES_OF_WAVE_ONE), each) for each in _broken(rng, MORNING, count=12)]
    return _in_order(each for each in arrivals if each.minute <= MINUTES_OF_WAVE_ONE)


def wave_two(payments: int = 1_000, already: int = 3_000, seed: int = SEED) -> list[Message]:
    """The next hour, and what is still on its way from the first three: most of that is late by then.

    Args:
        payments: Number of new payments.
        already: Number of payments of wave 1.
        seed: The seed of wave 1.
    """
    before = _payments(random.Random(seed), 0, already, MORNING, MINUTES_OF_WAVE_ONE)
    start = MORNING + timedelta(minutes=MINUTES_OF_WAVE_ONE)
    rng = random.Random(seed + 1)
    arrivals = _payments(rng, already, payments, start, MINUTES_OF_WAVE_TWO)
    return _in_order([*(each for each in before if each.minute > MINUTES_OF_WAVE_ONE), *arrivals])


def live(first: int, now: datetime, payments: int = 10) -> list[Message]:
    """Payments of the last seconds.

    Args:
        first: The number of the first payment; later calls need higher numbers.
        now: The time of the last payment.
        payments: Number of new payments.
    """
    rng = random.Random(SEED + first)
    return _in_order(_payments(rng, first, payments, now - timedelta(seconds=6), 0.1))


def _payments(rng: random.Random, first: int, number: int, since: datetime, minutes: float) -> list[Arrival]:
    """Payments at random times, each with what follows from it: fraud, a reversal, the same message once more."""
    arrivals: list[Arrival] = []
    # What follows a payment is not in the future of the messages of a few seconds.
    pace = min(1.0, minutes / 60)
    for count in range(number):
        card, minute = rng.randrange(CARDS), rng.uniform(0, minutes)
        event = _event(rng, f"p{first + count:07d}", card, since, minute, CITIES[card % len(CITIES)])
        arrivals.append(_arrival(rng, event, minute))
        draw = rng.random()
        if draw < 0.004:
            arrivals += _burst(rng, event, card, since, minute, 4 * pace)
        elif draw < 0.008:
            jump = {**event, "payment_id": event["payment_id"] + "j", "amount_cents": event["amount_cents"] * 30}
            arrivals.append(_arrival(rng, jump, minute, what="amount jump"))
        elif draw < 0.012:
            later = minute + 20 * pace
            abroad = _event(rng, event["payment_id"] + "t", card, since, later, CITIES[(card + 1) % len(CITIES)])
            arrivals.append(_arrival(rng, abroad, later, what="impossible travel"))
        elif draw < 0.022:
            reversal = {name: event[name] for name in ("payment_id", "card_id")}
            later = minute + min(40, rng.expovariate(1 / 10)) * pace
            reversal |= {"kind": "reversal", "occurred_at": _instant(since, later)}
            arrivals.append(_arrival(rng, reversal, later, what="reversal"))
        elif draw < 0.042:
            again = arrivals[-1]
            arrivals.append(Arrival(again.minute + rng.uniform(0, 2), _named(again.message, "duplicate")))
    return arrivals


def _burst(
    rng: random.Random, event: dict[str, Any], card: int, since: datetime, minute: float, minutes: float
) -> list[Arrival]:
    """Seven payments within minutes, as when the numbers of stolen cards are tried."""
    made = []
    for number in range(7):
        at = minute + rng.uniform(0, minutes)
        tried = _event(rng, f"{event['payment_id']}b{number}", card, since, at, CITIES[card % len(CITIES)])
        made.append(_arrival(rng, tried, at, what="burst"))
    return made


def _event(
    rng: random.Random, payment_id: str, card: int, since: datetime, minute: float, city: tuple[str, float, float]
) -> dict[str, Any]:
    country, latitude, longitude = city
    is_online = rng.random() < 0.15
    return {
        "payment_id": payment_id,
        "kind": "payment",
        "card_id": f"test{card:04d}" if rng.random() < 0.005 else f"c{card:04d}",
        "occurred_at": _instant(since, minute),
        "amount_cents": max(50, int(rng.lognormvariate(7.6 + card % 5 / 4, 0.35))),
        "country": country,
        "latitude": None if is_online else round(latitude + rng.uniform(-0.2, 0.2), 5),
        "longitude": None if is_online else round(longitude + rng.uniform(-0.2, 0.2), 5),
    }


def _broken(rng: random.Random, since: datetime, count: int) -> list[Message]:
    """Values that are no payments, payments that break an expectation, and one of a terminal whose clock is wrong."""
    shapes: tuple[dict[str, Any] | bytes, ...] = (
        b"not json",
        {"amount_cents": 0},
        {"country": "Atlantis"},
        {"latitude": 123.4, "longitude": 5.0},
        {"occurred_at": None},
        {"amount_cents": "12.50"},
    )
    messages = []
    for number in range(count):
        shape = {"occurred_at": "2099-12-31T23:59:59Z"} if number == 0 else shapes[number % len(shapes)]
        if isinstance(shape, bytes):
            messages.append(Message(b"x%d" % number, shape, "malformed"))
            continue
        event = _event(rng, f"odd{number:04d}", number, since, rng.uniform(0, 180), CITIES[number % len(CITIES)])
        event |= {"card_id": f"c{number:04d}", **shape}
        messages.append(_message(event, "wrong clock" if number == 0 else "implausible"))
    return messages


def _arrival(rng: random.Random, event: dict[str, Any], minute: float, what: str = "") -> Arrival:
    """Most messages arrive within seconds, one of fifty later, by up to an hour."""
    delay = rng.uniform(2, 60) if rng.random() < 0.02 else rng.expovariate(6)
    return Arrival(minute + delay, _message(event, what or event["kind"]))


def _in_order(arrivals: Iterable[Arrival]) -> list[Message]:
    return [each.message for each in sorted(arrivals, key=lambda each: each.minute)]


def _named(message: Message, what: str) -> Message:
    return Message(message.key, message.value, what)


def _message(event: dict[str, Any], what: str) -> Message:
    return Message(event["card_id"].encode(), json.dumps(event).encode(), what)


def _instant(since: datetime, minutes: float) -> str:
    return (since + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
