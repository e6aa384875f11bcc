"""Infers the types of fields from a sample of their values, by the grammar in docs/formats.md. A guess, to be read by a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tidegate.schema.ddl import quoted

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_FRACTION = re.compile(r"[+-]?\d+\.(\d{1,6})", re.ASCII)
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+", re.ASCII)
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(\.\d{1,6}0*)?)?(Z|[+-]\d\d(:?\d\d)?)?", re.ASCII)
_SMALL = 100_000_000
"""A larger number would leave too little room in an INT for those to come."""
_TOO_LONG = "more digits than a BIGINT has"
_DATES = {"dd.MM.yyyy": "%d.%m.%Y", "dd/MM/yyyy": "%d/%m/%Y", "MM/dd/yyyy": "%m/%d/%Y", "yyyy/MM/dd": "%Y/%m/%d"}
_TIMES = {" HH:mm:ss": " %H:%M:%S", " HH:mm": " %H:%M"}
_TIMESTAMPS = {day + time: d + t for day, d in _DATES.items() for time, t in _TIMES.items()}
_SPELLINGS = (("Y", "N"), ("y", "n"), ("yes", "no"), ("Yes", "No"), ("YES", "NO"), ("t", "f"), ("T", "F"))
"""Texts for true and false; 1 and 0 are taken for numbers."""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """The type of a field."""

    type: str
    misfits: tuple[int, ...] = ()
    """Positions of values that do not fit the type: their records would go to quarantine."""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """How the source writes its values: arguments of `tidegate.spec.Formats` that are not the default."""

    values: Mapping[str, Any] = field(default_factory=dict)
    why: tuple[str, ...] = ()


def spelling(columns: Iterable[Sequence[str | None]]) -> Spelling:
    """The formats of a delimited file, from the texts of its fields."""
    values: dict[str, Any] = {}
    why = []
    texts = [[text for text in column if text is not None] for column in columns]
    texts = [column for column in texts if column]
    for name, patterns in (("timestamp", _TIMESTAMPS), ("date", _DATES)):
        fitting = {
            pattern: sum(_mostly(column, _parses(python)) for column in texts) for pattern, python in patterns.items()
        }
        best = max(fitting, key=lambda pattern: fitting[pattern])
        if fitting[best]:
            values[name] = best
            same = [pattern for pattern in fitting if pattern != best and fitting[pattern] == fitting[best]]
            why.append(f"{name}s are {best}" + (f" (they could also be {same[0]})" if same else ""))
    if any(_mostly(column, _COMMA.fullmatch) for column in texts):
        values["decimal_comma"] = True
        why.append("numbers have a decimal comma")
    for true, false in _SPELLINGS:
        if any(set(column) == {true, false} for column in texts):
            values |= {"true": (true,), "false": (false,)}
            why.append(f"{true} and {false} are true and false")
            break
    return Spelling(values=values, why=tuple(why))


def of_texts(texts: Sequence[str | None], formats: Mapping[str, Any], *, numbers: bool = True) -> Guess:
    """The type of a field whose values are texts.

    Args:
        formats: `Spelling.values`.
        numbers: Whether texts may be numbers and truth values, as in CSV; in JSON these have types of their own.
    """
    present = [text for text in texts if text is not None]
    if not present:
        return Guess(type="STRING", why="no value in the sample")
    for kind, fits in _candidates(formats, numbers=numbers):
        if not _mostly(present, fits):
            continue
        good = [text for text in present if fits(text)]
        if kind == "INT" and (why := _why_text(good)):
            return Guess(type="STRING", why=why)
        misfits = tuple(index for index, text in enumerate(texts) if text is not None and not fits(text))
        return Guess(type=_exact(kind, good, formats), misfits=misfits)
    return Guess(type="STRING")


def of_json(values: Sequence[Any]) -> Guess:
    """The type of a field whose values are decoded JSON."""
    present = [value for value in values if value is not None]
    kinds = {_json_kind(value) for value in present}
    if kinds == {"number", "integer"}:
        kinds = {"number"}
    if not kinds:
        return Guess(type="STRING", why="no value in the sample")
    if len(kinds) > 1:
        return Guess(type="STRING", why=f"values of several kinds: {', '.join(sorted(kinds))}")
    (kind,) = kinds
    if kind == "text":
        return of_texts(values, {}, numbers=False)
    if kind == "truth value":
        return Guess(type="BOOLEAN")
    if kind == "integer":
        return Guess(type="STRING", why=_TOO_LONG) if _is_long(present) else Guess(type=_integer(present))
    if kind == "number":
        return Guess(type="DOUBLE")
    if kind == "array":
        return Guess(type=f"ARRAY<{of_json([item for value in present for item in value]).type}>")
    names = list(dict.fromkeys(name for value in present for name in value))
    fields = (f"{quoted(name)}: {of_json([value.get(name) for value in present]).type}" for name in names)
    return Guess(type=f"STRUCT<{', '.join(fields)}>" if names else "STRING")


def _candidates(formats: Mapping[str, Any], *, numbers: bool) -> list[tuple[str, Callable[[str], Any]]]:
    """The types in the order in which they are tried, each with the condition on a text."""
    comma = formats.get("decimal_comma")
    of_numbers: list[tuple[str, Callable[[str], Any]]] = [
        ("INT", _INTEGER.fullmatch),
        ("DOUBLE", (lambda text: _COMMA.fullmatch(text) or _INTEGER.fullmatch(text)) if comma else _NUMBER.fullmatch),
        (
            "BOOLEAN",
            lambda text: (
                text.lower() in ("true", "false") or text in (*formats.get("true", ()), *formats.get("false", ()))
            ),
        ),
    ]
    of_times: list[tuple[str, Callable[[str], Any]]] = [
        ("DATE", _parses(_DATES[formats["date"]]) if "date" in formats else _parses("%Y-%m-%d")),
        ("TIMESTAMP", _parses(_TIMESTAMPS[formats["timestamp"]]) if "timestamp" in formats else _is_instant),
    ]
    return [*(of_numbers if numbers else ()), *of_times]


def _exact(kind: str, texts: Sequence[str], formats: Mapping[str, Any]) -> str:
    """INT or BIGINT; DECIMAL if all fractions have the same length, as amounts of money have; else the kind itself."""
    if kind == "INT":
        return _integer([int(text) for text in texts])
    if kind == "DOUBLE":
        plain = [text.replace(".", "").replace(",", ".") if formats.get("decimal_comma") else text for text in texts]
        lengths = {len(match[1]) for text in plain if (match := _FRACTION.fullmatch(text))}
        if len(lengths) == 1 and all(_FRACTION.fullmatch(text) or _INTEGER.fullmatch(text) for text in plain):
            return f"DECIMAL(18,{lengths.pop()})"
    return kind


def _why_text(digits: Sequence[str]) -> str:
    """Why digits are no number; empty if they are one."""
    if any(re.match(r"[+-]?0\d", text) for text in digits):
        return "leading zeros"
    if all(text.startswith("+") for text in digits):
        return "leading plus signs"
    return _TOO_LONG if _is_long([int(text) for text in digits]) else ""


def _is_long(numbers: Sequence[int]) -> bool:
    return any(not -(2**63) <= number < 2**63 for number in numbers)


def _integer(numbers: Sequence[int]) -> str:
    return "INT" if max(abs(number) for number in numbers) < _SMALL else "BIGINT"


def _mostly(texts: Sequence[str], fits: Callable[[str], Any]) -> bool:
    """Whether all texts fit but one of five or more, or one of ten."""
    misfits = sum(not fits(text) for text in texts)
    return misfits <= max(len(texts) >= 5, len(texts) // 10) and misfits < len(texts)


def _parses(pattern: str) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            # strptime also accepts numbers without leading zeros, which the formats do not.
            return datetime.strptime(text, pattern).strftime(pattern) == text  # noqa: DTZ007  # only its form counts
        except ValueError:
            return False

    return fits


def _is_instant(text: str) -> bool:
    match = _INSTANT.fullmatch(text)
    try:
        return match is not None and bool(date.fromisoformat(match[1])) and match[2] < "24:00"
    except ValueError:
        return False


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth value"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float | Decimal):
        return "number"
    return "text" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
