"""How a delimited file writes days, instants, decimals and truth values, guessed from the texts of its fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+", re.ASCII)
"""A number with a decimal comma."""
DATES = {"dd.MM.yyyy": "%d.%m.%Y", "dd/MM/yyyy": "%d/%m/%Y", "MM/dd/yyyy": "%m/%d/%Y", "yyyy/MM/dd": "%Y/%m/%d"}
"""Patterns of `tidegate.spec.Formats`, with those of Python."""
_TIMES = {" HH:mm:ss": " %H:%M:%S", " HH:mm": " %H:%M"}
TIMESTAMPS = {day + time: d + t for day, d in DATES.items() for time, t in _TIMES.items()}
_TRUTH_VALUES = (
    *(("Y", "N"), ("y", "n"), ("yes", "no"), ("Yes", "No"), ("YES", "NO"), ("t", "f"), ("T", "F")),
    *(("ja", "nein"), ("Ja", "Nein"), ("JA", "NEIN"), ("oui", "non"), ("Oui", "Non"), ("OUI", "NON")),
)
"""Texts for true and false; 1 and 0 are taken for numbers."""


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
    for name, patterns in (("timestamp", TIMESTAMPS), ("date", DATES)):
        fitting = {
            pattern: sum(mostly(column, parses(python)) for column in texts) for pattern, python in patterns.items()
        }
        best = max(fitting, key=lambda pattern: fitting[pattern])
        if fitting[best]:
            values[name] = best
            same = [pattern for pattern in fitting if pattern != best and fitting[pattern] == fitting[best]]
            why.append(f"{name}s are {best}" + (f" (they could also be {same[0]})" if same else ""))
    if any(mostly(column, COMMA.fullmatch) for column in texts):
        values["decimal_comma"] = True
        why.append("numbers have a decimal comma")
    used = [
        pair
        for pair in _TRUTH_VALUES
        if any({*pair} <= {*column} and mostly(column, pair.__contains__) for column in texts)
    ]
    if used:
        values["true"], values["false"] = zip(*used, strict=True)
        why += [f"{true} and {false} are true and false" for true, false in used]
    return Spelling(values=values, why=tuple(why))


def few(number: int, total: int) -> bool:
    """Whether so many of the values are exceptions: one of five or more, or one of ten."""
    return number <= max(total >= 5, total // 10) and number < total


def mostly(texts: Sequence[str], fits: Callable[[str], Any]) -> bool:
    """Whether the texts fit with few exceptions."""
    return few(sum(not fits(text) for text in texts), len(texts))


def parses(pattern: str) -> Callable[[str], bool]:
    """The condition that a text is a time in a pattern of Python."""

    def fits(text: str) -> bool:
        try:
            # strptime also accepts numbers without leading zeros, which the formats do not.
            return datetime.strptime(text, pattern).strftime(pattern) == text  # noqa: DTZ007  # only its form counts
        except ValueError:
            return False

    return fits
