"""What the tables of the pipeline `tests.clusters.kinds` must have after its increments, in plain Python."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

AT_ONCE = 40
"""Events of an increment."""
CLICKS = 20
"""Messages of an increment."""
START = datetime(2025, 1, 6, 9, tzinfo=UTC)
Rows = list[tuple[Any, ...]]
COLUMNS = {
    "silver.events": ("id", "version", "card", "amount", "made_by"),
    "silver.history": ("id", "version", "amount", "valid_from", "valid_to", "made_by"),
    "silver.items": ("card", "item", "version", "made_by"),
    "silver.log": ("version", "amount", "made_by"),
    "gold.running": ("version", "card", "events", "amount", "made_by"),
    "gold.days": ("day", "events", "amount"),
    "gold.windows": ("card", "window_start", "events"),
    "silver.names": ("day", "version", "name"),
    "gold.joined": ("id", "name", "amount"),
    "silver.prices": ("id", "price"),
    "silver.price_history": ("id", "price"),
}
"""What is compared of each table; of bronze the number of rows and of their ids. What depends on when a group was computed is left out."""


def event(number: int) -> dict[str, Any]:
    """A record, each of which is newer than all before it."""
    return {
        "id": number % 25,
        "version": number,
        "at": (START + timedelta(minutes=number)).isoformat(),
        "card": f"c{number % 3}",
        "day": number % 5,
        "amount": 10 + number,
    }


def newest_events(count: int) -> dict[int, dict[str, Any]]:
    """The newest record of each id."""
    return {record["id"]: record for record in map(event, range(count))}


def expected(versions: Sequence[str]) -> dict[str, Rows]:
    """The rows of every table after so many increments, with what `COLUMNS` names."""
    count = AT_ONCE * len(versions)
    records = [event(number) for number in range(count)]
    made_by = {number: versions[number // AT_ONCE] for number in range(count)}
    newest = list(newest_events(count).values())
    last_of_card = {record["card"]: record for record in records}
    of_id: dict[int, list[int]] = defaultdict(list)
    for record in records:
        of_id[record["id"]].append(record["version"])
    following = {one: other for each in of_id.values() for one, other in itertools.pairwise(each)}
    running, totals = [], defaultdict[str, list[int]](lambda: [0, 0])
    for record in records:
        total = totals[record["card"]]
        total[0] += 1
        total[1] += record["amount"]
        running.append((record["version"], record["card"], *total, made_by[record["version"]]))
    windows: dict[tuple[str, datetime], int] = defaultdict(int)
    for record in newest:
        at = datetime.fromisoformat(record["at"])
        windows[record["card"], at - timedelta(minutes=at.minute % 15)] += 1
    days = {record["day"] for record in newest}
    increments = range(len(versions))
    names = [(day, number, f"name {day} {number}") for number in increments for day in range(3)]
    current = {day: row for row in names for day in row[:1]}
    prices = sum(10 - number for number in increments)
    rows: dict[str, Rows] = {
        "bronze.events": [(count, count)],
        "silver.events": [
            (each["id"], each["version"], each["card"], each["amount"], made_by[each["version"]]) for each in newest
        ],
        "silver.history": [
            (
                each["id"],
                each["version"],
                each["amount"],
                each["version"],
                following.get(each["version"]),
                made_by[each["version"]],
            )
            for each in records
        ],
        "silver.items": [
            (card, item, each["version"], made_by[each["version"]])
            for card, each in last_of_card.items()
            for item in range(1, each["version"] % 3 + 2)
        ],
        "silver.log": [(each["version"], each["amount"], made_by[each["version"]]) for each in records],
        "gold.running": running,
        "gold.days": [
            (day, len(of_day), sum(each["amount"] for each in of_day))
            for day in days
            for of_day in [[each for each in newest if each["day"] == day]]
        ],
        "gold.windows": [(*group, events) for group, events in windows.items()],
        "bronze.names": [(len(names), len(names))],
        "silver.names": list(current.values()),
        "gold.joined": [
            (each["id"], current[each["day"]][2] if each["day"] in current else None, each["amount"]) for each in newest
        ],
        "bronze.prices": [(prices, prices)],
        "silver.prices": [(key, key * 10 + increments[-1]) for key in range(increments[-1], 10)],
        "silver.price_history": [(key, key * 10 + number) for number in increments for key in range(number, 10)],
        "bronze.messages": [(CLICKS * len(versions),) * 2],
    }
    return {name: sorted(each, key=repr) for name, each in rows.items()}


def lacking_rows(rows: Rows, other: Rows) -> Rows:
    """Some rows that the other list does not have as often."""
    left = list(other)
    lacking = []
    for row in rows:
        if row in left:
            left.remove(row)
        else:
            lacking.append(row)
    return lacking[:5]
