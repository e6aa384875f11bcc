"""Computes the expected tables of the payments pipeline in plain Python, from the messages of its topic alone.

Deliberately independent of the Spark code, and unlike it: every payment looks at all events of its card that arrived before, so
there is no state, no batch and no pruning. What depends on how the messages were read, which is only which rows are late, follows
from the batches of bronze, as semantics of the watermark say.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from demo.recompute import Message

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DELAY, SKEW = timedelta(minutes=10), timedelta(minutes=5)
DAY = timedelta(days=1)
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z")
_FIELDS = ("payment_id", "kind", "card_id", "occurred_at", "amount_cents", "country", "latitude", "longitude")
_NUMBERS: Mapping[str, type] = {"amount_cents": int, "latitude": float, "longitude": float}


@dataclass(frozen=True, kw_only=True)
class Event:
    """A message that can be parsed."""

    row_id: str
    payment_id: str
    kind: str
    card_id: str
    occurred_at: datetime
    amount_cents: int | None
    country: str | None
    latitude: float | None
    longitude: float | None

    @property
    def is_plausible(self) -> bool:
        """Whether it meets the expectations of ``expectations/payments/silver.json``."""
        amount, country = self.amount_cents, self.country
        return (
            self.kind in ("payment", "reversal")
            and (amount is not None or self.kind == "reversal")
            and (amount is None or 1 <= amount <= 100_000_000)
            and (country is None or re.fullmatch("[A-Z]{2}", country) is not None)
            and (self.latitude is None or abs(self.latitude) <= 90)
            and (self.longitude is None or abs(self.longitude) <= 180)
        )


@dataclass
class Expected:
    """What the tables must hold."""

    ids: list[str] = field(default_factory=list)
    """All messages."""
    quarantined: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    silver: list[Event] = field(default_factory=list)
    """In the order of arrival."""
    decisions: list[dict[str, Any]] = field(default_factory=list)
    watermark: datetime | None = None
    """After the last batch of bronze."""

    @property
    def alerts(self) -> list[dict[str, Any]]:
        """The decisions that make an alert."""
        return [row for row in self.decisions if row["decision"] == "suspected"]


def payments(messages: Iterable[Message], ingested_at: Mapping[str, datetime]) -> Expected:
    """The expected result of the pipeline.

    Args:
        messages: Of its topic, in any order.
        ingested_at: The time of the batch of bronze that brought a message, by its ``_row_id``.
    """
    arrived = sorted(messages, key=lambda each: (ingested_at[_row_id(each)], each.partition, each.offset))
    expected = Expected()
    for at, batch in groupby(arrived, key=lambda each: ingested_at[_row_id(each)]):
        _judge(expected, at, list(batch))
    by_card: defaultdict[str, list[Event]] = defaultdict(list)
    for event in expected.silver:
        by_card[event.card_id].append(event)
    expected.decisions = [row for events in by_card.values() for row in decide(events)]
    return expected


def _judge(expected: Expected, at: datetime, batch: Sequence[Message]) -> None:
    """Distribute the messages of a batch of bronze; the watermark moves for the next one."""
    newest = expected.watermark
    for message in batch:
        row_id = _row_id(message)
        expected.ids.append(row_id)
        record = _record(message.value)
        occurred_at = _instant(record.get("occurred_at"))
        event = None if occurred_at is None or occurred_at > at + SKEW else _parse(row_id, record, occurred_at)
        if event is None or not event.is_plausible:
            expected.quarantined.append(row_id)
            continue
        newest = max(newest or event.occurred_at - DELAY, event.occurred_at - DELAY)
        if expected.watermark is not None and event.occurred_at < expected.watermark:
            expected.late.append(row_id)
        elif not event.card_id.startswith("test"):
            expected.silver.append(event)
    expected.watermark = newest


def decide(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The decisions about the payments of one card, whose events are in the order in which they arrived."""
    first: list[Event] = []
    decisions: dict[str, dict[str, Any]] = {}
    for event in events:
        alike = [each for each in first if each.payment_id == event.payment_id and _apart(each, event) <= DAY]
        if any(each.kind == event.kind for each in alike):
            continue
        if event.kind == "payment" and not alike:
            decisions[event.payment_id] = _decision(event, first)
        elif alike:
            payment = event if event.kind == "payment" else alike[0]
            decisions[event.payment_id] = _row(payment, "reversed", [], None, None, None)
        first.append(event)
    return list(decisions.values())


def _decision(payment: Event, arrived: Sequence[Event]) -> dict[str, Any]:
    reversals = [each for each in arrived if each.kind == "reversal"]
    counted = [
        each
        for each in arrived
        if each.kind == "payment"
        and _apart(each, payment) <= DAY
        and not any(each.payment_id == other.payment_id and _apart(each, other) <= DAY for other in reversals)
    ]
    earlier = [each for each in counted if each.occurred_at <= payment.occurred_at]
    recent = [each for each in earlier if _apart(each, payment) < timedelta(minutes=10)]
    amounts = [each.amount_cents or 0 for each in earlier]
    mean = sum(amounts) / len(amounts) if len(amounts) > 2 else None
    speeds = [_kmh(payment, each) for each in _neighbours(payment, counted)]
    kmh = max(speeds) if speeds and payment.latitude is not None else None
    rules = []
    if len(recent) + 1 > 5:
        rules.append("velocity")
    if mean is not None and (payment.amount_cents or 0) * len(amounts) > 5 * sum(amounts):
        rules.append("amount_jump")
    if kmh is not None and kmh > 900:
        rules.append("impossible_travel")
    return _row(payment, "suspected" if rules else "accepted", rules, len(recent) + 1, mean, kmh)


def _neighbours(payment: Event, counted: Sequence[Event]) -> list[Event]:
    """The nearest payments with a position, before (of several at the same time the last to arrive) and after."""
    placed = [each for each in counted if each.latitude is not None]
    before: Event | None = None
    after: Event | None = None
    for each in placed:
        if each.occurred_at <= payment.occurred_at:
            if before is None or each.occurred_at >= before.occurred_at:
                before = each
        elif after is None or each.occurred_at <= after.occurred_at:
            after = each
    return [each for each in (before, after) if each is not None]


def _kmh(one: Event, other: Event) -> int:
    """The angle between two unit vectors, on a sphere with the earth's mean radius."""
    if one.latitude is None:
        return 0
    a, b = _vector(one), _vector(other)
    cross = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    km = 6371.0 * math.atan2(math.hypot(*cross), dot)
    hours = max(_apart(one, other), timedelta(minutes=1)) / timedelta(hours=1)
    return round(km / hours) if km >= 100 else 0


def _vector(event: Event) -> tuple[float, float, float]:
    north, east = math.radians(event.latitude or 0), math.radians(event.longitude or 0)
    return math.cos(north) * math.cos(east), math.cos(north) * math.sin(east), math.sin(north)


def _apart(one: Event, other: Event) -> timedelta:
    return abs(one.occurred_at - other.occurred_at)


def _row(
    payment: Event, decision: str, rules: list[str], velocity: int | None, mean: float | None, kmh: int | None
) -> dict[str, Any]:
    return {
        "payment_id": payment.payment_id,
        "card_id": payment.card_id,
        "paid_at": payment.occurred_at,
        "amount_cents": payment.amount_cents,
        "country": payment.country,
        "decision": decision,
        "rules": rules,
        "velocity": velocity,
        "mean_cents": mean,
        "kmh": kmh,
    }


def _row_id(message: Message) -> str:
    return f"{message.source}/{message.partition}/{message.offset}"


def _record(value: bytes | None) -> dict[str, Any]:
    """The fields of a message; none if it is no JSON object."""
    try:
        record = json.loads(value or b"")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _instant(text: Any) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if _INSTANT.fullmatch(text or "") else None


def _parse(row_id: str, record: Mapping[str, Any], occurred_at: datetime) -> Event | None:
    """The event of a message; None if it lacks a required field, or has a value of another type."""
    fields: dict[str, Any] = {name: record.get(name) for name in _FIELDS}
    if any(fields[name] is None for name in _FIELDS[:3]):
        return None
    try:
        for name, kind in _NUMBERS.items():
            if fields[name] is not None:
                fields[name] = kind(fields[name])
    except ValueError:
        return None
    fields["country"] = fields["country"] and fields["country"].upper()
    return Event(row_id=row_id, **(fields | {"occurred_at": occurred_at}))


def as_tables(expected: Expected) -> DuckDBPyConnection:
    """A connection with the tables ``ids``, ``quarantined``, ``late``, ``silver``, ``decisions`` and, without tombstones, ``alerts``."""
    import duckdb
    import pyarrow as pa

    instant = pa.timestamp("us", tz="UTC")
    event = {name: pa.string() for name in _FIELDS} | {"occurred_at": instant, "amount_cents": pa.int64()}
    event |= dict.fromkeys(("latitude", "longitude"), pa.float64())
    decision = dict.fromkeys(("payment_id", "card_id", "country", "decision"), pa.string())
    decision |= {"paid_at": instant, "amount_cents": pa.int64(), "rules": pa.list_(pa.string())}
    decision |= {"velocity": pa.int32(), "mean_cents": pa.float64(), "kmh": pa.int64()}
    alert = {name: kind for name, kind in decision.items() if name != "decision"} | {"_deleted": pa.bool_()}
    ids = {"_row_id": pa.string()}
    tables: dict[str, tuple[Iterable[Mapping[str, Any]], Mapping[str, pa.DataType]]] = {
        "ids": (_ids(expected.ids), ids),
        "quarantined": (_ids(expected.quarantined), ids),
        "late": (_ids(expected.late), ids),
        "silver": ([vars(each) for each in expected.silver], event),
        "decisions": (expected.decisions, decision),
        "alerts": ([row | {"_deleted": False} for row in expected.alerts], alert),
    }
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, (rows, columns) in tables.items():
        chosen = [{column: row[column] for column in columns} for row in rows]
        connection.register("_rows", pa.Table.from_pylist(chosen, pa.schema(list(columns.items()))))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM _rows")
        connection.unregister("_rows")
    return connection


def _ids(ids: Iterable[str]) -> list[dict[str, str]]:
    return [{"_row_id": each} for each in ids]
