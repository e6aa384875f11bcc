"""Which columns of a drafted table are its key, guessed from a sample, with the reasons and the doubts.

A key looks like an identifier, by its name or its values, has a value in all records but few, and differs between records that differ.
Being different in a small sample is no reason alone: so is a price.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tidegate.formatting import count
from tidegate.scaffolding.draft_field import DraftField, sent_to_quarantine

_NAME = re.compile(
    r"(^|_)(id|key|uuid|guid|number|num|no|nr|code|sku|isbn|ean|gtin|iban|vin|email|login|username|slug|kennung)$"
    r"|(nummer|[a-z]{4}nr|(order|customer|client|user|product|article|item|account|session|event|device|transaction|invoice|payment)(id|no))$"
)
_WHOLE_NAMES = ("id", "key", "uuid", "guid")
_CLASS_NAME = re.compile(
    r"(^|_)(zip|postal|post|country|currency|language|lang|status|state|error|response|http|phone|fax|mobile|house|room|area|color|colour"
    r"|promo|coupon|discount|reason|type|category)_?(id|key|number|num|no|nr|code)$"
)
"""Names of what many records have in common."""
_POSITION_NAME = re.compile(r"(^|_)(line|position|pos|item|row|seq|sequence|index|part)(_(no|nr|number|id))?$")
_MEASURE_NAME = re.compile(
    r"(^|_)(amount|price|cost|total|sum|value|quantity|qty|count|weight|size|width|height|length|rate|score|betrag|preis|menge|anzahl|wert)(_|$)"
)
_VALUES = re.compile(
    r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{16,64}|[0-9A-HJKMNP-TV-Z]{26}"
    r"|[A-Za-z]{1,8}[-_/]?\d{2,}([-_/]\d+)*"
)
"""Texts such as a UUID, a hash, a ULID and ``A-1001``."""
_TYPES = ("STRING", "INT", "BIGINT")
_TIMES = ("DATE", "TIMESTAMP")
_UPDATE_NAME = re.compile(r"(^|_)(updated|modified|changed|version|revision)(_|$)")
_FEW_RECORDS = 20
"""With fewer, values that differ say little."""
_NEAR_MISSES = 3


@dataclass(frozen=True, kw_only=True)
class Key:
    """The guessed key of a table."""

    columns: tuple[str, ...]
    """Empty if no columns tell the records apart."""
    why: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Values:
    """The values of some fields in all records."""

    fields: tuple[DraftField, ...]
    rows: int
    missing: tuple[int, ...]
    repeated: tuple[int, ...]
    """Records that are the same as an earlier one."""
    clashes: tuple[tuple[int, int], ...]
    """Two records with the same values that differ otherwise, the first two of each value."""
    distinct: int

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(each.column for each in self.fields)

    @property
    def is_complete(self) -> bool:
        """Whether few records lack one of the values."""
        return _are_few(self.missing, self.rows)

    @property
    def is_unique(self) -> bool:
        return self.is_complete and not self.clashes and self.distinct > 0


def guess_key(fields: Sequence[DraftField], orders: Sequence[DraftField], lines: Callable[[Sequence[int]], str]) -> Key:
    """The key of records.

    Args:
        fields: All fields.
        orders: Those that may order versions of a key, the best first.
        lines: Names the lines of records, by their positions in the sample.
    """
    identifiers = sorted(
        filter(_is_identifier, fields), key=lambda each: (each.column not in _WHOLE_NAMES, not _is_named(each))
    )
    singles = [_values(fields, each) for each in identifiers]
    unique = [each for each in singles if each.is_unique]
    versions = next((each for each in singles if _has_versions(fields, each, orders)), None)
    pairs = (each for each in _pairs(fields, identifiers) if each.is_unique)
    chosen = unique[0] if unique else versions or next(pairs, None)
    if chosen is None:
        return Key(columns=(), why=f"no key: {'; '.join(_reasons(fields, singles, lines))}. Silver keeps every record")
    names = ", ".join(chosen.columns)
    doubts = list(_doubts(chosen, unique, lines))
    if chosen is versions:
        first, second = chosen.clashes[0]
        doubts.append(f"{lines((first, second))} have the same {names}: taken for versions by {orders[0].column}")
        why = f"{chosen.distinct:,} of {count(chosen.rows, 'record')} are different, with {orders[0].column} all"
    else:
        why = f"{count(chosen.rows - len(chosen.missing), 'record')}, all different"
    looks = "its name is" if _is_named(chosen.fields[0]) else "its values are"
    return Key(columns=chosen.columns, why=f"key {names}: {why}; {looks} like an identifier's", doubts=tuple(doubts))


def is_nearly_complete(each: DraftField) -> bool:
    """Whether a column may be one that a table relies on: all records but one of five or more, or one of a hundred, have a value."""
    return _are_few(each.missing, len(each.values))


def _are_few(missing: Sequence[int], rows: int) -> bool:
    return len(missing) <= max(rows >= 5, rows // 100) and len(missing) < rows


def _is_named(each: DraftField) -> bool:
    return _NAME.search(each.column) is not None and _CLASS_NAME.search(each.column) is None


def _is_identifier(each: DraftField) -> bool:
    if each.guess.type not in _TYPES:
        return False
    if _is_named(each):
        return True
    texts = [str(value) for value in each.values if value is not None]
    has_form = each.guess.type == "STRING" and bool(texts) and all(map(_VALUES.fullmatch, texts))
    return has_form and not _MEASURE_NAME.search(each.column) and not _CLASS_NAME.search(each.column)


def _values(all_fields: Sequence[DraftField], *fields: DraftField) -> _Values:
    rows = len(fields[0].values)
    missing = {record for each in fields for record in each.missing}
    first: dict[tuple[str, ...], int] = {}
    repeated: list[int] = []
    clashes: dict[tuple[str, ...], tuple[int, int]] = {}
    for record in range(rows):
        if record in missing:
            continue
        value = tuple(str(each.values[record]) for each in fields)
        earlier = first.setdefault(value, record)
        if earlier == record:
            continue
        if all(each.values[record] == each.values[earlier] for each in all_fields):
            repeated.append(record)
        else:
            clashes.setdefault(value, (earlier, record))
    return _Values(
        fields=fields,
        rows=rows,
        missing=tuple(sorted(missing)),
        repeated=tuple(repeated),
        clashes=tuple(clashes.values()),
        distinct=len(first),
    )


def _has_versions(fields: Sequence[DraftField], values: _Values, orders: Sequence[DraftField]) -> bool:
    """Whether records with the same values are versions: the name of the order says so, or they are few."""
    if (
        not values.is_complete
        or not values.clashes
        or not orders
        or not _is_named(values.fields[0])
        or orders[0] in values.fields
    ):
        return False
    is_likely = _UPDATE_NAME.search(orders[0].column) or 2 * values.distinct >= values.rows
    return bool(is_likely) and _values(fields, *values.fields, orders[0]).is_unique


def _pairs(fields: Sequence[DraftField], identifiers: Sequence[DraftField]) -> Iterator[_Values]:
    """Identifiers with another one, a position such as ``line``, a day or an instant."""
    positions = [each for each in fields if each.guess.type in _TYPES and _POSITION_NAME.search(each.column)]
    times = [each for each in fields if each.guess.type in _TIMES and not _UPDATE_NAME.search(each.column)]
    for index, first in enumerate(identifiers):
        others = {each.column: each for each in (*positions, *identifiers[index + 1 :], *times) if each is not first}
        yield from (_values(fields, first, other) for other in others.values())


def _doubts(chosen: _Values, unique: Sequence[_Values], lines: Callable[[Sequence[int]], str]) -> Iterator[str]:
    names = ", ".join(chosen.columns)
    for each in chosen.fields:
        if each.empty:
            yield f"key {each.column} has no value in {lines(each.empty)}: {sent_to_quarantine(each.empty)}"
    if chosen.repeated:
        yield f"{lines(chosen.repeated)} repeat{'s' if len(chosen.repeated) == 1 else ''} an earlier record: one row of each is kept"
    if chosen.rows < _FEW_RECORDS:
        yield f"only {count(chosen.rows, 'record')}: too few to know that {names} is different in all"
    others = [each.columns[0] for each in unique if each is not chosen]
    if others and len(chosen.fields) == 1:
        yield f"{', '.join(others)} could be the key too"


def _reasons(
    fields: Sequence[DraftField], singles: Sequence[_Values], lines: Callable[[Sequence[int]], str]
) -> Iterator[str]:
    """Why there is none."""
    if not singles:
        possible = [_values(fields, each) for each in fields if each.guess.type in (*_TYPES, *_TIMES)]
        different = [each.columns[0] for each in possible if each.is_unique and not each.repeated][:_NEAR_MISSES]
        verb = "is" if len(different) == 1 else "are"
        yield "no field looks like an identifier" + (
            f" ({', '.join(different)} {verb} different in all records)" if different else ""
        )
    for each in singles[:_NEAR_MISSES]:
        if each.clashes:
            yield f"{each.columns[0]} is the same in {lines(each.clashes[0])}, which differ"
        else:
            yield f"{each.columns[0]} has no value in {lines(each.missing)}"
