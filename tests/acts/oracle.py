"""What each table of the pipeline `acts` must hold, in plain Python, from what landed, what ran, and what was done to the tables.

Imports nothing of the product. A `World` is the state after a history of events; the events are functions that change it.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple


class Record(NamedTuple):
    """A record of a file, as its row of the append-only table."""

    id: int
    at: datetime
    day: int
    amount: int


Contents = dict[str, Counter[Any]]
"""By flow: the rows of its table, or what its sink holds."""
Event = Callable[["World"], None]


@dataclass
class World:
    """What the tables and the sink hold, and how far each flow has read."""

    landed: dict[str, tuple[Record, ...]] = field(default_factory=dict)
    """By the name of the file."""
    read: set[str] = field(default_factory=set)
    """The files that bronze has read."""
    bronze: list[Record] = field(default_factory=list)
    unread: dict[str, list[Record]] = field(default_factory=lambda: {"silver": [], "rows": [], "firsts": []})
    """By flow: rows of its source that it has not read."""
    silver: dict[int, Record] = field(default_factory=dict)
    gold: dict[int, tuple[int, int]] = field(default_factory=dict)
    grouped: dict[int, Record] = field(default_factory=dict)
    """Silver as gold has read it."""
    sink: dict[int, Record] = field(default_factory=dict)
    sent: dict[int, Record] = field(default_factory=dict)
    """Silver as the sink's flow has read it."""
    rows: list[Record] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    """The ids in the state of the stateful flow."""

    def copy(self) -> World:
        """Another world with the same contents."""
        return copy.deepcopy(self)

    def land(self, name: str, records: Iterable[Record]) -> None:
        """A file lands."""
        self.landed[name] = tuple(records)

    def run(self, flows: Sequence[str]) -> None:
        """These flows read all that is new, in this order."""
        for flow in flows:
            getattr(self, f"_run_{flow}")()

    def contents(self) -> Contents:
        """What each flow has written."""
        return {
            "bronze": Counter(self.bronze),
            "silver": Counter(self.silver.values()),
            "gold": Counter((day, *group) for day, group in self.gold.items()),
            "sink": Counter(self.sink.values()),
            "rows": Counter(self.rows),
            "firsts": Counter(self.firsts),
        }

    def add_to_bronze(self, records: Iterable[Record]) -> None:
        """Rows are appended to bronze, by its flow or by another writer."""
        for record in records:
            self.bronze.append(record)
            self.unread["silver"].append(record)
            self.unread["rows"].append(record)

    def add_to_rows(self, records: Iterable[Record]) -> None:
        """Rows are appended to the append-only table."""
        for record in records:
            self.rows.append(record)
            self.unread["firsts"].append(record)

    def _run_bronze(self) -> None:
        for name in sorted(set(self.landed) - self.read):
            self.read.add(name)
            self.add_to_bronze(self.landed[name])

    def _run_silver(self) -> None:
        for record in self._next("silver"):
            if record.id not in self.silver or self.silver[record.id].at < record.at:
                self.silver[record.id] = record

    def _run_gold(self) -> None:
        ids = {id for id in {*self.grouped, *self.silver} if self.grouped.get(id) != self.silver.get(id)}
        days = {rows[id].day for rows in (self.grouped, self.silver) for id in ids if id in rows}
        for day in days:
            amounts = [record.amount for record in self.silver.values() if record.day == day]
            self.gold.pop(day, None)
            if amounts:
                self.gold[day] = (len(amounts), sum(amounts))
        self.grouped = dict(self.silver)

    def _run_sink(self) -> None:
        for id in {*self.sent, *self.silver}:
            before, after = self.sent.get(id), self.silver.get(id)
            if before != after:
                self.sink.pop(id, None)
                if after is not None:
                    self.sink[id] = after
        self.sent = dict(self.silver)

    def _run_rows(self) -> None:
        self.add_to_rows(self._next("rows"))

    def _run_firsts(self) -> None:
        for record in self._next("firsts"):
            if record.id not in self.known:
                self.known.add(record.id)
                self.firsts.append(record.id)

    def _next(self, flow: str) -> list[Record]:
        records, self.unread[flow] = self.unread[flow], []
        return records


def record_of(values: Mapping[str, Any]) -> Record:
    """The record of a row, or of the JSON of a line."""
    at = values["at"]
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    return Record(values["id"], moment.astimezone(UTC), values["day"], values["amount"])


def differences(
    expected: Mapping[str, Counter[Any]], actual: Mapping[str, Counter[Any]], flows: Iterable[str]
) -> list[str]:
    """What the tables of some flows have too little (``-``) and too much (``+``) of."""
    return [
        f"{flow}: - {_shown(expected[flow] - actual[flow])} + {_shown(actual[flow] - expected[flow])}"
        for flow in flows
        if expected[flow] != actual[flow]
    ]


def _shown(rows: Counter[Any]) -> str:
    return str(sorted(rows.elements())[:4])
