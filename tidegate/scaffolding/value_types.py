"""Infers the types of fields from a sample of their values, by the grammar in docs/formats.md. A guess, to be read by a person.

A few values that are unlike the others do not decide: the type becomes wider if one type has them all, else it is that of the others. Both
are `Oddity`s, which a draft prints with their lines.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any

from tidegate.scaffolding.spellings import COMMA, DATES, TIMESTAMPS, few, parses
from tidegate.schema.ddl import quoted

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(\.\d{1,6}0*)?)?(Z|[+-]\d\d(:?\d\d)?)?", re.ASCII)
_INTEGERS = {"INT": 100_000_000, "BIGINT": 2**63, "DECIMAL(38,0)": 10**38}
"""Types of whole numbers, each with the size that is too large for it. A larger number would leave too little room in an INT for those
to come."""
_LONGEST_FRACTION = 6
"""Digits of the fraction of a DECIMAL; numbers with more are measured, and a DOUBLE."""
_TOO_LONG = "more digits than a BIGINT has"


@dataclass(frozen=True, kw_only=True)
class Oddity:
    """A value that is unlike most values of its field."""

    record: int
    """Position of its record in the sample."""
    value: Any
    type: str
    """That of the other values."""
    path: tuple[str, ...] = ()
    """The names from the field to the value that is in it; empty for the field's own value."""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """The type of a field."""

    type: str
    misfits: tuple[Oddity, ...] = ()
    """Values that do not fit the type."""
    wider: tuple[Oddity, ...] = ()
    """Values that fit, and for which the type is wider than the other values need."""
    why: str = ""

    def inside(self, name: str) -> Guess:
        """The guess with paths from the value around it."""
        misfits, wider = (
            tuple(dataclasses.replace(each, path=(name, *each.path)) for each in oddities)
            for oddities in (self.misfits, self.wider)
        )
        return dataclasses.replace(self, misfits=misfits, wider=wider)


Items = Sequence[tuple[int, Any]]
"""Values, each with the position of its record."""


@dataclass(frozen=True, kw_only=True)
class _Family:
    """Types of which one has all values that fit one of them."""

    fits: Callable[[str], Any]
    narrowest: Callable[[Items], Guess]
    """The type of texts that fit."""


def of_texts(texts: Sequence[str | None], formats: Mapping[str, Any]) -> Guess:
    """The type of a field whose values are texts, as in CSV.

    Args:
        formats: `tidegate.scaffolding.spellings.Spelling.values`.
    """
    guess = _of_texts([(record, text) for record, text in enumerate(texts) if text is not None], _families(formats))
    # A family may have read them in another spelling.
    wider = tuple(dataclasses.replace(each, value=texts[each.record]) for each in guess.wider)
    return dataclasses.replace(guess, wider=wider)


def of_json(values: Sequence[Any]) -> Guess:
    """The type of a field whose values are decoded JSON."""
    items = list(enumerate(values))
    if any(not isinstance(value, str | None) for value in values):
        # An empty text is no value, except in a STRING and in a nested value.
        items = [item for item in items if item[1] != ""]
    return _of_json(items)


def _of_texts(present: Items, families: Sequence[_Family]) -> Guess:
    if not present:
        return Guess(type="STRING", why="no value in the sample")
    fitting = [[item for item in present if family.fits(item[1])] for family in families]
    for family, good in zip(families, fitting, strict=True):
        if not few(len(present) - len(good), len(present)):
            continue
        guess = family.narrowest(good)
        rest = [item for item in present if not family.fits(item[1])] if guess.type != "STRING" else []
        return dataclasses.replace(guess, misfits=_oddities(rest, guess.type))
    best = max(range(len(families)), key=lambda index: len(fitting[index]), default=None)
    if best is None or 2 * len(fitting[best]) < len(present):
        return Guess(type="STRING")
    of_most = families[best].narrowest(fitting[best]).type
    rest = [item for item in present if not families[best].fits(item[1])] if of_most != "STRING" else []
    return Guess(type="STRING", wider=_oddities(rest, of_most))


def _families(formats: Mapping[str, Any]) -> list[_Family]:
    """In the order in which they are tried."""
    comma = formats.get("decimal_comma")
    truths = ("true", "false", *formats.get("true", ()), *formats.get("false", ()))

    def number(items: Items) -> Guess:
        return _number([(each, text.replace(".", "").replace(",", ".")) for each, text in items] if comma else items)

    return [
        _Family(
            fits=(lambda text: COMMA.fullmatch(text) or _INTEGER.fullmatch(text)) if comma else _is_number,
            narrowest=number,
        ),
        _Family(
            fits=lambda text: text.lower() in ("true", "false") or text in truths,
            narrowest=lambda _: Guess(type="BOOLEAN"),
        ),
        *_times(formats),
    ]


def _times(formats: Mapping[str, Any]) -> list[_Family]:
    is_date = parses(DATES[formats["date"]]) if "date" in formats else parses("%Y-%m-%d")
    is_instant = parses(TIMESTAMPS[formats["timestamp"]]) if "timestamp" in formats else _is_instant
    if "date" in formats or "timestamp" in formats:
        return [
            _Family(fits=is_date, narrowest=lambda _: Guess(type="DATE")),
            _Family(fits=is_instant, narrowest=lambda _: Guess(type="TIMESTAMP")),
        ]

    def narrowest(items: Items) -> Guess:
        instants = [item for item in items if not is_date(item[1])]
        return _wider("TIMESTAMP" if instants else "DATE", instants, "DATE", len(items))

    # A TIMESTAMP also has days.
    return [_Family(fits=lambda text: is_date(text) or is_instant(text), narrowest=narrowest)]


def _number(items: Items) -> Guess:
    """The type of plain numbers."""
    if not all(_INTEGER.fullmatch(text) for _, text in items):
        return _fraction(items)
    zeros = [item for item in items if re.match(r"[+-]?0\d", item[1])]
    if zeros:
        others = [item for item in items if item not in zeros]
        guess = _wider("STRING", zeros, _integer(others).type if others else "STRING", len(items))
        return dataclasses.replace(guess, why="leading zeros")
    if all(text.startswith("+") for _, text in items):
        return Guess(type="STRING", why="leading plus signs")
    return _integer(items)


def _integer(items: Items) -> Guess:
    """INT or BIGINT; DECIMAL if few numbers are longer, and STRING if more are, because these are identifiers."""
    larger = {kind: [item for item in items if abs(int(item[1])) >= size] for kind, size in _INTEGERS.items()}
    kind = next((kind for kind in larger if not larger[kind]), "STRING")
    of_most = next((kind for kind in larger if not larger[kind] or few(len(larger[kind]), len(items))), "STRING")
    if kind not in ("INT", "BIGINT") and of_most not in ("INT", "BIGINT"):
        return Guess(type="STRING", why=_TOO_LONG)
    return _wider(kind, larger[of_most], of_most, len(items))


def _fraction(items: Items) -> Guess:
    """DECIMAL if the fractions of most have the same length, as those of amounts of money have, and none is long; else DOUBLE."""
    fractions = [item for item in items if not _INTEGER.fullmatch(item[1])]
    usual = Counter(_digits(text)[1] for _, text in fractions).most_common(1)[0][0]
    unusual = [item for item in fractions if _digits(item[1])[1] != usual]
    whole, fraction = (max(lengths) for lengths in zip(*(_digits(text) for _, text in items), strict=True))
    is_exact = 0 < fraction <= _LONGEST_FRACTION and whole + fraction <= 38 and few(len(unusual), len(fractions))
    kind = f"DECIMAL({18 if whole + fraction <= 18 else 38},{fraction})" if is_exact else "DOUBLE"
    if few(len(fractions), len(items)):
        whole_numbers = [item for item in items if _INTEGER.fullmatch(item[1])]
        return _wider(kind, fractions, _integer(whole_numbers).type, len(items))
    longer = [item for item in items if _digits(item[1])[1] > usual or _digits(item[1])[0] + usual > 18]
    return _wider(kind, longer, f"DECIMAL(18,{usual})", len(items))


def _digits(text: str) -> tuple[int, int]:
    """How many digits a number has before and after the point."""
    number = Decimal(text)
    return max(1, number.adjusted() + 1), max(0, -int(number.as_tuple().exponent))


def _of_json(items: Items) -> Guess:
    present = [item for item in items if item[1] is not None]
    for kind, of_nested in ((dict, _struct), (list, _array)):
        nested = [item for item in present if isinstance(item[1], kind)]
        if 2 * len(nested) > len(present):
            guess = of_nested(nested)
            rest = [item for item in present if not isinstance(item[1], kind)] if guess.type != "STRING" else []
            return dataclasses.replace(guess, misfits=guess.misfits + _oddities(rest, guess.type.partition("<")[0]))
    kinds = Counter(_json_kind(value) for _, value in present)
    guess = _of_texts([(record, _text(value)) for record, value in present], _json_families(kinds, len(present)))
    if guess.type != "STRING" or len(kinds) == 1 or guess.wider or guess.why:
        return guess
    most = kinds.most_common(1)[0][0]
    of_most = _of_json([item for item in present if _json_kind(item[1]) == most]).type
    rest = [item for item in present if _json_kind(item[1]) != most] if of_most != "STRING" else []
    return dataclasses.replace(guess, wider=_oddities(rest, of_most))


def _struct(items: Items) -> Guess:
    fields = {
        name: _of_json([(record, value.get(name)) for record, value in items]).inside(name)
        for name in dict.fromkeys(name for _, value in items for name in value)
    }
    types = ", ".join(f"{quoted(name)}: {guess.type}" for name, guess in fields.items())
    return Guess(
        type=f"STRUCT<{types}>" if fields else "STRING",
        misfits=tuple(chain.from_iterable(guess.misfits for guess in fields.values())),
        wider=tuple(chain.from_iterable(guess.wider for guess in fields.values())),
    )


def _array(items: Items) -> Guess:
    guess = _of_json([(record, item) for record, value in items for item in value])
    return dataclasses.replace(guess, type=f"ARRAY<{guess.type}>", why="")


def _json_families(kinds: Counter[str], total: int) -> list[_Family]:
    """A text is a number or a truth value only if most values of the field are, and a time only in a field of texts."""
    if 2 * (kinds["integer"] + kinds["number"]) >= total:
        return [_Family(fits=_is_number, narrowest=_json_number)]
    if 2 * kinds["truth value"] >= total:
        return [_Family(fits=lambda text: text.lower() in ("true", "false"), narrowest=lambda _: Guess(type="BOOLEAN"))]
    return _times({}) if 2 * kinds["text"] >= total else []


def _json_number(items: Items) -> Guess:
    """The type of numbers of JSON: their fractions say nothing, because programs leave zeros out."""
    fractions = [item for item in items if not _INTEGER.fullmatch(item[1])]
    if not fractions:
        return _number(items)
    others = [item for item in items if item not in fractions]
    return _wider("DOUBLE", fractions, _integer(others).type if others else "DOUBLE", len(items))


def _wider(kind: str, odd: Items, of_most: str, total: int) -> Guess:
    """A type that few values need."""
    return Guess(type=kind, wider=_oddities(odd, of_most) if kind != of_most and few(len(odd), total) else ())


def _oddities(items: Items, kind: str) -> tuple[Oddity, ...]:
    return tuple(Oddity(record=record, value=value, type=kind) for record, value in items)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _is_number(text: str) -> bool:
    # A larger one fits no type.
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _is_instant(text: str) -> bool:
    match = _INSTANT.fullmatch(text)
    if match is None:
        return False
    day, time, seconds, _, zone, _ = match.groups()
    hours, minutes = (zone or "Z")[1:3], (zone or "Z")[3:].strip(":")
    offset = 60 * int(hours or 0) + int(minutes or 0)
    try:
        datetime.fromisoformat(f"{day}T{time}{(seconds or '')[:3]}")
    except ValueError:
        return False
    return offset <= 18 * 60 and int(minutes or 0) < 60


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth value"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float | Decimal):
        return "number"
    return "text" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
