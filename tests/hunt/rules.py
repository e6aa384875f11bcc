"""What transform and suite of the pipeline `hunt` make of one record, in plain Python. Imports nothing of the product."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

FIELDS = ("id", "at", "day", "amount", "op")


@dataclass(frozen=True, kw_only=True)
class Code:
    """What transform and suite do."""

    factor: int = 1
    """The transform multiplies ``amount`` by it."""
    filtered: int = 6
    """Ids that leave this remainder when divided by 7 are filtered."""
    trap: int = 1000
    """An ``amount`` on which the transform raises."""
    highest: int = 500
    """The highest ``amount`` that the suite accepts, after the transform."""


@dataclass(frozen=True)
class Record:
    """One record of a source, as its row of bronze."""

    row_id: str
    at: tuple[Any, ...]
    """Its coordinates, which order records of one key with the same sequence."""
    fields: Mapping[str, str | None] = field(default_factory=dict)
    """Empty for a message without value: all its fields are NULL and none is required, but it is refused unless filtered or deleted."""
    broken: str = ""
    """The rule that it breaks as a whole, for example ``malformed_line``."""


@dataclass(frozen=True)
class Row:
    """A row of silver."""

    values: tuple[Any, ...]
    """``at``, ``day``, ``amount``, ``ratio``."""
    order: tuple[Any, ...]
    deleted: bool
    row_id: str


@dataclass(frozen=True)
class Output:
    """What today's code makes of a record."""

    rules: frozenset[str] = frozenset()
    filtered: bool = False
    key: int | None = None
    """Also of records that are refused or filtered, and where the transform raises: not in the columns of the key."""
    day: date | None = None
    row: Row | None = None


def output(record: Record, code: Code) -> Output:
    """The transform and the row rules, for one record."""
    if record.broken:
        return Output(frozenset({record.broken}))
    typed: dict[str, Any] = {}
    rules = set()
    for name, read in (("id", whole), ("at", whole), ("day", day_of), ("amount", whole), ("op", str)):
        text = record.fields.get(name)
        typed[name] = None if text is None else read(text)
        if text is not None and typed[name] is None:
            rules.add(f"wrong_type({name})")
    if record.fields and record.fields.get("id") is None:
        rules.add("required(id)")
    number, at, day, amount = (typed[name] for name in ("id", "at", "day", "amount"))
    key = number if number is not None and number >= 0 else None
    if rules:
        return Output(frozenset(rules), key=key, day=day)
    if amount == code.trap:
        return Output(frozenset({"transform_error(DIVIDE_BY_ZERO)"}), key=key, day=day)
    # Spark's remainder has the sign of the dividend.
    filtered = number is not None and math.fmod(number, 7) == code.filtered
    if not filtered:
        rules |= {f"null_{what}" for what, value in (("key(key)", key), ("sequence(at)", at)) if value is None}
    deleted = typed["op"] == "delete"
    if not (record.fields or filtered or deleted):
        rules.add("no_value")
    made = None if amount is None else amount * code.factor
    ratio = None if amount is None else int(1000 / (amount - code.trap))
    if not (rules or filtered or deleted or made is None or 0 <= made <= code.highest):
        rules.add("between(amount)")
    if rules or filtered:
        return Output(frozenset(rules), filtered, key, day)
    order = (at, *record.at)
    return Output(key=key, day=day, row=Row((at, day, made, ratio), order, deleted, record.row_id))


def whole(text: str) -> int | None:
    return int(text) if re.fullmatch("[+-]?[0-9]+", text) and abs(int(text)) < 2**31 else None


def day_of(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    except ValueError:
        return None


def newest(outputs: Iterable[Output]) -> dict[int, Row]:
    """The row with the highest order of each key."""
    best: dict[int, Row] = {}
    for each in outputs:
        if each.row is not None and each.key is not None:
            known = best.get(each.key)
            if known is None or precedes(known.order, each.row.order):
                best[each.key] = each.row
    return best


def precedes(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return one < other
