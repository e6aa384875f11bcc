"""The rules about payments, and their processor without Spark: whole histories, cut anywhere, with the watermark of each batch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from demo import recompute_payments
from demo.recompute import Message
from spark_jobs import payments
from spark_jobs.payments import HORIZON, MINUTE, Event
from tests import histories_of_payments
from tidegate.testing import judge_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jvm]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONDON, PARIS, TOKYO = (51.5, -0.1), (48.9, 2.4), (35.7, 139.7)
NOWHERE = (float("nan"), float("nan"))


def paid(
    name: str, minute: float, cents: int = 1000, place: tuple[float, float] = LONDON, *, kind: str = "payment"
) -> Event:
    return Event(name, kind, int(minute * MINUTE), cents, "GB", *place)


def decided(*events: Event) -> dict[str, tuple[str, ...]]:
    """The rules that payments break, or ``reversed``, by payment, for events in the order in which they arrive."""
    history: list[Event] = []
    made = [decision for event in events if (decision := payments.arrive(history, event)) is not None]
    return {each.payment.payment_id: each.rules or (each.decision,) for each in made}


def test_the_sixth_payment_within_ten_minutes_is_suspected() -> None:
    made = decided(*(paid(str(number), number * 1.9) for number in range(6)), paid("later", 30))
    assert made == {**{str(number): ("accepted",) for number in range(5)}, "5": ("velocity",), "later": ("accepted",)}


def test_an_amount_above_five_times_the_mean_of_three_earlier_ones_is_suspected() -> None:
    amounts = {"a": 1000, "b": 9000, "c": 2000, "five times": 20_000, "more": 40_001}
    made = decided(*(paid(name, 20 * number, cents) for number, (name, cents) in enumerate(amounts.items())))
    assert [name for name, rules in made.items() if rules == ("amount_jump",)] == ["more"]


def test_a_card_that_is_faster_than_an_airliner_is_suspected() -> None:
    made = decided(
        paid("london", 0),
        paid("paris", 60, place=PARIS),
        paid("online", 70, place=NOWHERE),
        paid("tokyo", 300, place=TOKYO),
    )
    assert [name for name, rules in made.items() if rules == ("impossible_travel",)] == ["tokyo"]


def test_a_payment_that_arrives_after_a_later_one_is_compared_with_it_too() -> None:
    assert decided(paid("tokyo", 60, place=TOKYO), paid("london", 0))["london"] == ("impossible_travel",)


def test_events_more_than_a_day_apart_have_nothing_to_do_with_each_other() -> None:
    day = HORIZON / MINUTE
    assert decided(paid("p", 0), paid("p", day + 1), paid("p", day, kind="reversal"))["p"] == ("reversed",)
    assert decided(paid("p", 0), paid("p", day + 1, kind="reversal")) == {"p": ("accepted",)}


def test_a_reversed_payment_does_not_count_whichever_arrives_first() -> None:
    payment, reversal = paid("first", 0, 50_000), paid("first", 5, kind="reversal")
    for order in ((payment, reversal), (reversal, payment), (reversal, payment, payment, reversal)):
        made = decided(*order, *(paid(str(number), 10 + 20 * number) for number in range(3)), paid("jump", 90, 6_000))
        assert (made["first"], made["jump"]) == (("reversed",), ("amount_jump",)), order


def decided_in_batches(seed: int) -> tuple[dict[str, Any], dict[str, Any], int]:
    """A history in batches that are cut anywhere, through the processor and through the oracle.

    Returns:
        The decisions of both, by payment, and how many cards the processor has forgotten at the end.
    """
    from pyspark.sql.streaming.tws_tester import TwsTester

    rng = random.Random(seed)
    tester = TwsTester(payments.CardProcessor(), timeMode="EventTime", eventTimeExtractor=lambda row: row["at"] // 1000)
    messages = [message for chunk in histories_of_payments.chunks([seed], 4) for message in chunk]
    bounds = sorted(rng.sample(range(1, len(messages)), rng.randint(1, 7)))
    at = {
        f"t/0/{n}": EPOCH + timedelta(days=365 * 99, hours=sum(n >= each for each in bounds))
        for n in range(len(messages))
    }
    read = (Message(0, offset, 0, each.key, each.value, "t") for offset, each in enumerate(messages))
    expected = recompute_payments.payments(read, at)
    made: dict[str, Any] = {}
    watermark = newest = 0
    for _, group in itertools.groupby(expected.silver, key=lambda event: at[event.row_id]):
        batch = list(group)
        for card in sorted({event.card_id for event in batch}):
            output = tester.testInPandas(card, rows_of(rng, [event for event in batch if event.card_id == card]))
            made |= {row["payment_id"]: row for row in cast(Any, output).to_dict("records")}
        newest = max(newest, *(microseconds(event.occurred_at) for event in batch))
        # As Spark's, the watermark is that of earlier batches, a millisecond lower than ours. Then timers expire.
        if (moved := (newest - 10 * MINUTE) // 1000 - 1) > watermark:
            watermark = moved
            tester.setWatermark(watermark)
    cards = {event.card_id for event in expected.silver}
    forgotten = sum(not tester.peekListState("events", card) for card in cards)
    tester.setWatermark((newest + HORIZON) // 1000 + 1)
    assert not any(tester.peekListState("events", card) for card in cards), "in the end every card is forgotten"
    return made, {row["payment_id"]: row for row in expected.decisions}, forgotten


def rows_of(rng: random.Random, events: Sequence[recompute_payments.Event]) -> Any:
    """The rows of a card in a batch, as Spark gives them to the processor: in any order."""
    import pandas as pd

    rows = [
        {
            **{name: getattr(event, name) for name in ("payment_id", "kind", "country")},
            "at": microseconds(event.occurred_at),
            "amount_cents": event.amount_cents or 0,
            "position": int(event.row_id.rpartition("/")[2]),
            "latitude": NOWHERE[0] if event.latitude is None else event.latitude,
            "longitude": NOWHERE[1] if event.longitude is None else event.longitude,
        }
        for event in events
    ]
    return pd.DataFrame(rng.sample(rows, len(rows)))


def microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def test_histories_are_decided_like_one_computation_over_all_rows_however_they_are_cut() -> None:
    judged, forgotten = 0, 0
    rules: set[str] = set()
    for seed in range(50):
        made, expected, cards = decided_in_batches(seed)
        compared = ("decision", "rules", "velocity", "mean_cents", "kmh")
        assert made.keys() == expected.keys(), f"seed {seed}"
        for payment, row in expected.items():
            assert [made[payment][name] for name in compared] == [row[name] for name in compared], (
                f"seed {seed}, {payment}"
            )
            rules |= {row["decision"], *row["rules"]}
        judged, forgotten = judged + len(expected), forgotten + cards
    assert rules == {"accepted", "suspected", "reversed", "velocity", "amount_jump", "impossible_travel"}
    assert judged > 500 and forgotten


PAYMENT = {
    **{"payment_id": "p1", "kind": "payment", "card_id": "c1", "occurred_at": "2026-01-05T09:00:00Z"},
    **{"amount_cents": "1250", "country": "gb", "latitude": "51.5", "longitude": "-0.1"},
}


@pytest.mark.gx
@pytest.mark.usefixtures("spark")
def test_payments_are_judged_one_by_one_and_test_cards_are_filtered() -> None:
    odd: dict[str, dict[str, Any]] = {
        "written": {},
        "test_card": {"card_id": "test7"},
        "in_set(kind)": {"kind": "refund"},
        "not_null(amount_cents)": {"amount_cents": None},
        "between(amount_cents)": {"amount_cents": "0"},
        "match_regex(country)": {"country": "Atlantis"},
        "between(latitude)": {"latitude": "123.4"},
        "wrong_type(amount_cents)": {"amount_cents": "12.50"},
        "required(occurred_at)": {"occurred_at": None},
    }
    good = [{**PAYMENT, "payment_id": f"g{number}"} for number in range(40)]
    judged = judge_rows("payments", "silver", *({**PAYMENT, **fields} for fields in odd.values()), *good)
    assert [each.rules[0] if each.rules else each.disposition for each in judged] == [*odd, *["written"] * 40]
    assert judged[0].row["country"] == "GB"


def test_an_alert_is_a_suspected_payment_and_its_reversal_withdraws_it(spark: SparkSession) -> None:
    columns = "_row_id string, _origin string, card_id string, paid_at timestamp, amount_cents bigint, country string"
    decided = "rules array<string>, velocity int, mean_cents double, kmh bigint, payment_id string, decision string"
    given: tuple[Any, ...] = ("r", "o", "c", EPOCH, 1, "GB", [], 1, 1.0, 0)
    names = ("accepted", "suspected", "reversed")
    rows = payments.alerts(spark.createDataFrame([(*given, name, name) for name in names], f"{columns}, {decided}"))
    made = {row["payment_id"]: (row["_filtered"], row["_deleted"]) for row in rows.collect()}
    assert made == {"accepted": ("accepted", False), "suspected": (None, False), "reversed": (None, True)}
