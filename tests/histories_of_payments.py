"""Generated histories of payments: shuffled, late, duplicated, reversed, and cut into batches anywhere.

Every history has cards of its own. So histories do not touch each other, and many go through one pipeline together: each has its own
events and its own cut, and only the watermark is common to all, as in a topic.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from demo.clicks_feed import Message
from demo.payments_feed import CITIES

START = datetime(2026, 3, 2, tzinfo=UTC)
HOURS_OF_A_CHUNK = 11.0
"""Longer than half of what a card remembers, so that cards forget within a few chunks."""
NEAR = 9.0 / 60
"""Hours: less than the delay of the watermark, so that a cut may come this much earlier or later without making rows late."""


@dataclass(frozen=True)
class Sent:
    """A message, and when it arrives."""

    hour: float
    message: Message


def chunks(seeds: Sequence[int], number: int) -> list[list[Message]]:
    """The messages of histories in a number of chunks, which arrive one after the other, and in each in the order of arrival."""
    made: list[list[Sent]] = [[] for _ in range(number)]
    for seed in seeds:
        rng = random.Random(f"payments {seed}")
        cuts = [HOURS_OF_A_CHUNK * (index + 1) + rng.uniform(-NEAR, NEAR) for index in range(number - 1)]
        for sent in history(rng, seed, HOURS_OF_A_CHUNK * number):
            made[sum(sent.hour >= cut for cut in cuts)].append(sent)
    return [[each.message for each in sorted(chunk, key=lambda each: each.hour)] for chunk in made]


def history(rng: random.Random, seed: int, hours: float) -> list[Sent]:
    """Messages of one to three cards. Times cluster: within minutes, around the cuts, and a day apart."""
    cards = [f"h{seed:05d}-{number}" for number in range(rng.randint(1, 3))]
    base = rng.choice((900, 4_000, 25_000))
    around = [
        rng.uniform(0, hours),
        *(HOURS_OF_A_CHUNK * rng.randint(0, int(hours / HOURS_OF_A_CHUNK)) for _ in range(2)),
    ]
    around.append(around[0] + 24)
    sent: list[Sent] = []
    for number in range(rng.randint(8, 24)):
        centre = rng.choice((rng.uniform(0, hours), rng.choice(around), rng.choice(around)))
        hour = min(max(0.0, centre + rng.uniform(-0.15, 0.15)), hours - 0.01)
        event = _payment(rng, f"{seed}-{number}", rng.choice(cards), hour, base)
        sent.append(_arriving(rng, event, hour))
        if rng.random() < 0.15:
            sent.append(Sent(sent[-1].hour + rng.choice((0.0, 0.05, 2.0, 12.0)), sent[-1].message))
        if rng.random() < 0.15:
            # Some arrive before the payment, none before its own time.
            later = hour + rng.choice((0.0, 0.01, 0.05, 1.0, 23.9, 24.1))
            reversal = {"payment_id": event["payment_id"], "kind": "reversal", "card_id": event["card_id"]}
            sent.append(_arriving(rng, reversal | {"occurred_at": _instant(later)}, later))
    return sent


def _payment(rng: random.Random, payment_id: str, card: str, hour: float, base: int) -> dict[str, Any]:
    country, latitude, longitude = CITIES[0] if rng.random() < 0.8 else rng.choice(CITIES)
    is_placed = rng.random() < 0.85
    return {
        "payment_id": payment_id,
        "kind": "payment",
        "card_id": card,
        # A few at exactly the same time.
        "occurred_at": _instant(round(hour, 2) if rng.random() < 0.2 else hour),
        "amount_cents": max(1, int(base * rng.choice((0.5, 1, 1, 1, 2, 5, 30)))),
        "country": country,
        "latitude": latitude + rng.uniform(-1, 1) if is_placed else None,
        "longitude": longitude + rng.uniform(-1, 1) if is_placed else None,
    }


def _arriving(rng: random.Random, event: dict[str, Any], hour: float) -> Sent:
    """Mostly within seconds, sometimes minutes, rarely hours later."""
    delays = (rng.uniform(0, 0.01), rng.uniform(0, 0.16), rng.uniform(0, 14))
    delay = rng.choices(delays, weights=(60, 34, 6))[0]
    return Sent(hour + delay, Message(event["card_id"].encode(), json.dumps(event).encode(), event["kind"]))


def _instant(hour: float) -> str:
    return (START + timedelta(hours=hour)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
