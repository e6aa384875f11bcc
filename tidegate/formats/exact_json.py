"""JSON without loss: numbers keep their literal, and an object that has one name twice is refused."""

from __future__ import annotations

import json
from typing import Any


class Number(str):
    """The literal of a JSON number."""

    __slots__ = ()


class Fraction(Number):
    """A number with a fraction or an exponent."""

    __slots__ = ()


def decode(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: It is not valid JSON, or an object in it has one name twice.
        RecursionError: It is nested too deep.
    """
    return _DECODER.decode(text)


def as_text(value: Any) -> str:
    """A decoded value as JSON."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{as_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_text, value)) + "]"
    return _quoted(value)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("an object has one name twice")
    return record


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not valid JSON")


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_names, parse_float=Fraction, parse_int=Number, parse_constant=_refuse_constant
)
