"""Transforms of the payments pipeline, and the rules by which a payment is suspected of fraud.

A payment is judged when it arrives, by the events of its card that arrived before it and are at most `HORIZON` away from it. All
times are times of events, in microseconds: no decision depends on when a batch runs, or on how the events were cut into batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd

MINUTE = 60_000_000
HORIZON = 24 * 60 * MINUTE
"""Events of a card that are further apart than this have nothing to do with each other. So long an event is remembered after the
watermark has passed it: from then on no payment can arrive that needs it."""
BURST = 10 * MINUTE
BURST_PAYMENTS = 5
"""More payments of a card than this within `BURST` are suspected: ``velocity``."""
JUMP_PAYMENTS = 3
"""So many earlier payments of a card have a mean."""
JUMP_FACTOR = 5
"""An amount above so many times the mean is suspected: ``amount_jump``."""
TRAVEL_KMH = 900
"""The speed of an airliner; a card that moves faster is suspected: ``impossible_travel``."""
TRAVEL_KM = 100
"""Shorter distances are no journey: positions are not exact."""
_EARTH_KM = 6371.0

EVENT = """
    payment_id STRING, kind STRING, at BIGINT, amount_cents BIGINT, country STRING, latitude DOUBLE, longitude DOUBLE
"""
"""What is remembered of an event, as the fields of `Event`."""
DECISION = """
    payment_id STRING, card_id STRING, at BIGINT, amount_cents BIGINT, country STRING,
    decision STRING, rules ARRAY<STRING>, velocity INT, mean_cents DOUBLE, kmh BIGINT
"""
COLUMNS = tuple(field.split()[0] for field in DECISION.split(","))


class Event(NamedTuple):
    """A payment or a reversal."""

    payment_id: str
    kind: str
    """``payment``, ``reversal``, or ``reversed``: a payment whose reversal has arrived."""
    at: int
    amount_cents: int
    country: str | None
    latitude: float
    """In degrees; not a number where a payment has no position."""
    longitude: float


class Decision(NamedTuple):
    """What was decided about a payment, and why."""

    payment: Event
    decision: str
    """``accepted``, ``suspected`` or ``reversed``."""
    rules: tuple[str, ...] = ()
    velocity: int | None = None
    """Payments of the card within `BURST` up to this one."""
    mean_cents: float | None = None
    """The mean of the card's earlier amounts; None below `JUMP_PAYMENTS`."""
    kmh: int | None = None
    """The speed at which the card moved between this payment and those next to it in time; None without positions."""


def clean(rows: DataFrame) -> DataFrame:
    """The payments and reversals, with countries in upper case; card terminals that are being tested are filtered."""
    return rows.select(
        "_row_id",
        "_origin",
        "payment_id",
        "kind",
        "card_id",
        "occurred_at",
        "amount_cents",
        F.upper("country").alias("country"),
        "latitude",
        "longitude",
        F.when(F.col("card_id").startswith("test"), F.lit("test_card")).alias("_filtered"),
    )


def decide(rows: DataFrame) -> DataFrame:
    """A decision about each payment; the reversal of a payment replaces it.

    Returns:
        ``payment_id, card_id, paid_at, amount_cents, country``, and the fields of `Decision`.
    """
    events = rows.select(
        "card_id",
        "payment_id",
        "kind",
        F.unix_micros("occurred_at").alias("at"),
        F.coalesce("amount_cents", F.lit(0)).alias("amount_cents"),
        "country",
        "latitude",
        "longitude",
        # The offset: all messages of a card are in one partition.
        F.regexp_extract("_row_id", "([0-9]+)$", 1).cast("bigint").alias("position"),
        # Spark finds the watermark by this column.
        "occurred_at",
    )
    decisions = events.groupBy("card_id").transformWithStateInPandas(
        CardProcessor(), outputStructType=DECISION, outputMode="Update", timeMode="EventTime"
    )
    return decisions.select("payment_id", "card_id", F.timestamp_micros("at").alias("paid_at"), *COLUMNS[3:])


def alerts(rows: DataFrame) -> DataFrame:
    """The suspected payments; a reversal withdraws the alert."""
    return rows.select(
        *("_row_id", "_origin", "payment_id", "card_id", "paid_at", "amount_cents", "country"),
        *("rules", "velocity", "mean_cents", "kmh"),
        F.when(F.col("decision") == "accepted", F.lit("accepted")).alias("_filtered"),
        (F.col("decision") == "reversed").alias("_deleted"),
    )


class CardProcessor(StatefulProcessor):
    """Remembers the events of each card within `HORIZON`, in the order in which they arrived.

    Events that the watermark has left behind by more than `HORIZON` are forgotten when the card's next event arrives, or by a
    timer, which is set for the card's newest event.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state, as Spark requires."""
        self._handle = handle
        self._events = handle.getListState("events", EVENT)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Decide about the payments of a card that a batch brings."""
        import pandas as pd

        names = ["position", *Event._fields]
        arrived = sorted(row for frame in rows for row in frame[names].itertuples(index=False, name=None))
        remembered = [Event(*row) for row in self._events.get()]
        history = list(remembered)
        # Of a payment that is reversed in the same batch, only the later decision.
        decided = {}
        for _, *fields in arrived:
            if (decision := arrive(history, Event(*fields))) is not None:
                decided[decision.payment.payment_id] = decision
        history = unexpired(history, timerValues.getCurrentWatermarkInMs())
        self._remember(remembered, history)
        made = [_row(key[0], decision) for decision in decided.values()]
        yield pd.DataFrame(made, columns=COLUMNS, dtype=object)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Forget a card whose newest event has expired."""
        self._events.clear()
        return iter(())

    def _remember(self, before: Sequence[Event], after: Sequence[Event]) -> None:
        old, new = _expiry(before), _expiry(after)
        if old != new:
            if old is not None:
                self._handle.deleteTimer(old)
            if new is not None:
                self._handle.registerTimer(new)
        if after:
            self._events.put([tuple(event) for event in after])
        elif before:
            self._events.clear()


def arrive(history: list[Event], event: Event) -> Decision | None:
    """Add an event to the history of its card, which has events in the order of their arrival.

    Returns:
        The decision about a payment; None if the same event has arrived before, and for a reversal that precedes its payment.
    """
    same = [
        index
        for index, other in enumerate(history)
        if other.payment_id == event.payment_id and abs(other.at - event.at) <= HORIZON
    ]
    is_reversal = event.kind == "reversal"
    if any((history[index].kind == "reversal") == is_reversal for index in same):
        return None
    if not same:
        decision = None if is_reversal else judge(event, history)
        history.append(event)
        return decision
    history.append(event)
    index = same[0] if is_reversal else len(history) - 1
    history[index] = history[index]._replace(kind="reversed")
    return Decision(history[index], "reversed")


def judge(payment: Event, history: Sequence[Event]) -> Decision:
    """Apply the rules to a payment that arrives after the events of a history."""
    near = [each for each in history if each.kind == "payment" and abs(each.at - payment.at) <= HORIZON]
    before = [each for each in near if each.at <= payment.at]
    velocity = 1 + sum(payment.at - each.at < BURST for each in before)
    total = sum(each.amount_cents for each in before)
    mean = total / len(before) if len(before) >= JUMP_PAYMENTS else None
    kmh = _kmh(payment, near)
    broken = {
        "velocity": velocity > BURST_PAYMENTS,
        "amount_jump": mean is not None and payment.amount_cents * len(before) > JUMP_FACTOR * total,
        "impossible_travel": kmh is not None and kmh > TRAVEL_KMH,
    }
    rules = tuple(rule for rule, holds in broken.items() if holds)
    return Decision(payment, "suspected" if rules else "accepted", rules, velocity, mean, kmh)


def unexpired(history: Sequence[Event], watermark_ms: int) -> list[Event]:
    """The events that a payment may still need that is not late."""
    return [event for event in history if event.at + HORIZON >= watermark_ms * 1000]


def _expiry(history: Sequence[Event]) -> int | None:
    """The watermark, in milliseconds, at which every event has expired."""
    return max((event.at + HORIZON) // 1000 + 1 for event in history) if history else None


def _kmh(payment: Event, near: Sequence[Event]) -> int | None:
    """The higher of the speeds from the last payment before and to the first one after."""
    placed = [each for each in reversed(near) if not math.isnan(each.latitude + each.longitude)]
    before = max((each for each in placed if each.at <= payment.at), key=lambda each: each.at, default=None)
    after = min((each for each in placed if each.at > payment.at), key=lambda each: each.at, default=None)
    if math.isnan(payment.latitude + payment.longitude):
        return None
    return max((_speed(payment, each) for each in (before, after) if each is not None), default=None)


def _speed(one: Event, other: Event) -> int:
    """Kilometres per hour on the great circle, by the haversine formula; a journey takes a minute at least."""
    south, north = math.radians(one.latitude), math.radians(other.latitude)
    east = math.radians(other.longitude - one.longitude)
    chord = math.sin((north - south) / 2) ** 2 + math.cos(south) * math.cos(north) * math.sin(east / 2) ** 2
    km = 2 * _EARTH_KM * math.asin(math.sqrt(min(1.0, chord)))
    return 0 if km < TRAVEL_KM else round(km / (max(abs(one.at - other.at), MINUTE) / (60 * MINUTE)))


def _row(card: str, decision: Decision) -> tuple[Any, ...]:
    payment = decision.payment
    given = (payment.payment_id, card, payment.at, payment.amount_cents, payment.country)
    return (*given, decision.decision, list(decision.rules), decision.velocity, decision.mean_cents, decision.kmh)
