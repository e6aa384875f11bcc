"""From one raw record to a text per field, exactly as it was written. No Spark.

Numbers are never made: a JSON literal and a CSV cell stay the text that they are until a declared type is known. So silver
has the value that was sent, whatever its size, and a field of type STRING has ``1.10`` and not ``1.1``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

from tidegate.spark.intake.delimited import splitter
from tidegate.spec.dialect import Dialect

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
"""Those that a header is tried with when it does not fit the declared one."""

_WHOLE_DIGITS = 19
"""Of the largest BIGINT."""


@dataclass(frozen=True)
class Texts:
    """One record."""

    declared: Sequence[str | None] = ()
    """By declared field; None where there is no value."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Fields that the schema does not know, if they have a value."""
    malformed: str | None = None
    """The rule that the whole record breaks."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A declared field."""

    name: str
    is_text: bool
    """Its type is STRING."""
    bits: int = 0
    """Of a type of whole numbers, else 0."""


class Reader(Protocol):
    """Reads records of one format."""

    def __call__(self, raw: str, header: str | None, dialect: str | None) -> Texts:
        """Read a record by its file's header and dialect, as bronze holds them."""


def csv_reader(fields: Sequence[Field], null_values: Sequence[str]) -> Reader:
    """Reads records of delimited files."""
    of_header: dict[tuple[str | None, str | None], Callable[[str], Texts]] = {}

    def read(raw: str, header: str | None, dialect: str | None) -> Texts:
        known = of_header.get((header, dialect))
        if known is None:
            known = of_header[header, dialect] = _of_header(fields, null_values, header or "", dialect_of(dialect))
        return known(raw)

    return read


def dialect_of(stored: str | None) -> Dialect:
    """What bronze says of how a file was written."""
    return Dialect.from_json(json.loads(stored)) if stored else Dialect()


def header_names(header: str, dialect: Dialect) -> list[str]:
    """The names in a header, without spaces around them; none if it breaks the grammar."""
    cells = splitter(dialect)(header)
    return [] if cells is None else [name.strip() for name in cells[0]]


def header_problem(header: str, dialect: Dialect, declared: set[str]) -> str | None:
    """The rule that all records of a file break because of its header."""
    names = header_names(header, dialect)
    if declared & set(names):
        return "repeated_header" if len(set(names)) != len(names) else None
    for separator, called in SEPARATORS.items():
        if separator not in (dialect.separator, dialect.quote, dialect.escape, dialect.comment):
            other = Dialect(separator=separator, quote=dialect.quote, escape=dialect.escape)
            if len(names) < len(header_names(header, other)) and declared & set(header_names(header, other)):
                return f"other_separator({called})"
    return "unknown_header"


def _of_header(
    fields: Sequence[Field], null_values: Sequence[str], header: str, dialect: Dialect
) -> Callable[[str], Texts]:
    declared = {each.name: each for each in fields}
    if (problem := header_problem(header, dialect, set(declared))) is not None:
        refused = Texts([None] * len(fields), malformed=problem)
        return lambda raw: refused
    names = header_names(header, dialect)
    split = splitter(dialect)
    places = [(names.index(each.name) if each.name in names else None, each.is_text) for each in fields]
    others = [(place, name) for place, name in enumerate(names) if name not in declared]
    nulls = frozenset(null_values)

    def read(raw: str) -> Texts:
        if not raw:
            return Texts([None] * len(fields), malformed="blank_line")
        found = split(raw)
        if found is None or len(found[0]) != len(names):
            return Texts([None] * len(fields), malformed="malformed_line")
        cells, quoted = found
        values = [
            None if place is None or (cells[place] in nulls and not (is_text and place in quoted)) else cells[place]
            for place, is_text in places
        ]
        unknown = {name: cells[place] for place, name in others if cells[place] or place in quoted}
        return Texts(values, unknown)

    return read


class _Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


class _Fraction(_Number):
    """One with a fraction or an exponent."""

    __slots__ = ()


def json_reader(fields: Sequence[Field], null_values: Sequence[str]) -> Reader:
    """Reads records that are one JSON object each."""
    declared = {each.name for each in fields}
    nulls = frozenset(null_values)
    decoder = json.JSONDecoder(
        object_pairs_hook=_unique, parse_float=_Fraction, parse_int=_Number, parse_constant=_refuse
    )
    refused = [None] * len(fields)

    def read(raw: str, header: str | None, dialect: str | None) -> Texts:
        if not raw or raw.isspace():
            return Texts(refused, malformed="blank_line")
        try:
            record = decoder.decode(raw)
            if not isinstance(record, dict):
                return Texts(refused, malformed="malformed_json")
            if "\\u" in raw:
                # One half of a surrogate pair is no character, and nothing can store it.
                _dumped(record).encode()
            texts = {name: _text(value) for name, value in record.items()}
        except (ValueError, RecursionError):
            return Texts(refused, malformed="malformed_json")
        values = []
        for each in fields:
            text = texts.get(each.name)
            if each.bits and isinstance(record.get(each.name), _Fraction):
                text = _as_whole(record[each.name], each.bits)
            # An empty JSON string is a text, where texts are declared.
            values.append(None if text in nulls and not (each.is_text and text == "") else text)
        unknown = {name: text for name, text in texts.items() if text is not None and name not in declared}
        return Texts(values, unknown)

    return read


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return record


def _as_whole(literal: str, bits: int) -> str:
    """A JSON number such as 7.0 or 1e3 by its digits, where it is a whole number of so many bits; else as it was written."""
    try:
        number = Decimal(literal)
    except InvalidOperation:
        # An exponent of nineteen digits.
        return literal
    if number and not 0 <= number.adjusted() < _WHOLE_DIGITS:
        return literal
    whole = int(number)
    return str(whole) if number == whole and -(1 << (bits - 1)) <= whole < 1 << (bits - 1) else literal


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value) if isinstance(value, str) else _dumped(value)


def _dumped(value: Any) -> str:
    """JSON of what was decoded; numbers as they were written."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{_dumped(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dumped, value)) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
