"""The independent computation of payments, on small cases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from demo import recompute_payments
from demo.recompute import Message

BATCHES = tuple(datetime(2026, 3, 2, 12 + hour, tzinfo=UTC) for hour in range(3))
PAYMENT = {
    "kind": "payment",
    "card_id": "c1",
    "amount_cents": 1000,
    "country": "gb",
    "latitude": None,
    "longitude": None,
}


def computed(*batches: list[Mapping[str, Any] | bytes]) -> recompute_payments.Expected:
    """The result for batches of bronze of events, whose default time is 11:00 and a minute later for each."""
    messages: list[Message] = []
    at = {}
    for ingested_at, batch in zip(BATCHES, batches, strict=False):
        for event in batch:
            offset = len(messages)
            made = {**PAYMENT, "payment_id": f"p{offset}", "occurred_at": f"2026-03-02T11:{offset:02}:00Z"}
            value = event if isinstance(event, bytes) else json.dumps({**made, **event}).encode()
            messages.append(Message(0, offset, 0, b"c1", value, "payments/id"))
            at[f"payments/id/0/{offset}"] = ingested_at
    return recompute_payments.payments(messages, at)


def numbers(ids: list[str]) -> list[int]:
    return [int(each.rpartition("/")[2]) for each in ids]


def test_a_payment_is_late_by_the_batches_of_bronze_before_its_own() -> None:
    early = {"occurred_at": "2026-03-02T10:49:59Z"}
    result = computed([{}, early], [early, {"occurred_at": "2026-03-02T10:50:00Z"}], [{"card_id": "c2"}])
    assert (numbers(result.late), len(result.silver)) == ([2], 4)
    assert result.watermark == datetime(2026, 3, 2, 10, 54, tzinfo=UTC)


def test_a_wrong_clock_is_quarantined_and_does_not_move_the_watermark() -> None:
    result = computed([{}, {"occurred_at": "2026-03-02T12:05:01Z"}, {"occurred_at": "2026-03-02T12:05:00Z"}])
    assert numbers(result.quarantined) == [1]
    assert result.watermark == datetime(2026, 3, 2, 11, 55, tzinfo=UTC)


def test_a_quarantined_payment_does_not_move_the_watermark() -> None:
    later = {"amount_cents": "1.5", "occurred_at": "2026-03-02T11:01:00Z"}
    assert computed([{}, later]).watermark == datetime(2026, 3, 2, 10, 50, tzinfo=UTC)


def test_values_that_are_no_payments_are_quarantined_and_test_cards_filtered() -> None:
    odd: list[Any] = [
        b"no",
        b"[1]",
        {"kind": None},
        {"occurred_at": "today"},
        {"amount_cents": "1.5"},
        {"amount_cents": None},
    ]
    more: list[Any] = [
        {"amount_cents": 0},
        {"country": "GBR"},
        {"latitude": 91.0, "longitude": 1.0},
        {"kind": "refund"},
    ]
    result = computed([*odd, *more, {"card_id": "test1"}, {}])
    assert numbers(result.quarantined) == list(range(10))
    assert [event.country for event in result.silver] == ["GB"]


def test_a_repeated_payment_counts_once_and_a_reversed_one_not_at_all() -> None:
    again = {"payment_id": "p0", "occurred_at": "2026-03-02T11:00:00Z"}
    reversal = {"payment_id": "p1", "kind": "reversal", "amount_cents": None}
    result = computed([{}, {}, again, reversal, {}], [again, {}])
    assert {row["payment_id"]: (row["decision"], row["velocity"]) for row in result.decisions} == {
        "p0": ("accepted", 1),
        "p1": ("reversed", None),
        "p4": ("accepted", 2),
        "p6": ("accepted", 3),
    }


def test_payments_that_break_rules_make_alerts() -> None:
    place = {"latitude": 51.5, "longitude": -0.1}
    tokyo = {"latitude": 35.7, "longitude": 139.7}
    result = computed([place, {}, {}, {}, {"amount_cents": 5001}, {}, tokyo])
    assert {row["payment_id"]: row["rules"] for row in result.alerts} == {
        "p4": ["amount_jump"],
        "p5": ["velocity"],
        "p6": ["velocity", "impossible_travel"],
    }
    assert result.alerts[-1]["kmh"] // 1000 == 95, "some 9,560 km in six minutes"
    answer = recompute_payments.as_tables(result)
    assert answer.execute("SELECT count(*), max(kmh) FROM alerts").fetchall() == [(3, result.alerts[-1]["kmh"])]
