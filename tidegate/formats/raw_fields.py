"""Splits one raw record into one text per field, exactly as written.

Numbers are not converted: a JSON literal or a CSV cell stays text until it is cast to its declared type. So silver has the
exact value of any size, and a STRING field keeps ``1.10`` instead of ``1.1``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Protocol

from tidegate import json_codec
from tidegate.formats import exact_json
from tidegate.formats.delimited import header_names, header_problem, splitter
from tidegate.formats.envelopes import Envelope
from tidegate.formats.renaming import RepeatedNameError, renamed_record, renamed_text
from tidegate.schema.names import AS_THEY_ARE, FieldNames
from tidegate.spec.formats import Dialect

_MAX_INTEGER_DIGITS = 19
"""Digits of the largest BIGINT."""


@dataclass(frozen=True)
class RawFields:
    """One record, split."""

    declared: Sequence[str | None] = ()
    """One text per declared field; None for no value."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Undeclared fields that have a value, by name."""
    malformed: str | None = None
    """The rule that the record as a whole breaks."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A declared field."""

    name: str
    is_text: bool
    """Whether its type is STRING."""
    bits: int = 0
    """Size of an integer type in bits; 0 for other types."""


class RecordReader(Protocol):
    """Splits records of one format."""

    def __call__(self, raw: str, header: str | None, dialect: str | None) -> RawFields:
        """Split a record by its file's header and dialect, as stored in bronze."""


def csv_reader(fields: Sequence[Field], null_values: Sequence[str], names: FieldNames = AS_THEY_ARE) -> RecordReader:
    """Make a reader for records of delimited files, whose headers have other names where they are declared."""
    splitters: dict[tuple[str | None, str | None], Callable[[str], RawFields]] = {}

    def read(raw: str, header: str | None, dialect: str | None) -> RawFields:
        split = splitters.get((header, dialect))
        if split is None:
            split = splitters[header, dialect] = _csv_splitter(
                fields, null_values, header or "", dialect_of(dialect), names
            )
        return split(raw)

    return read


def dialect_of(stored: str | None) -> Dialect:
    """The dialect of a file, from its JSON in bronze; the default dialect where there is none."""
    return json_codec.decode(stored, Dialect) if stored else Dialect()


def _csv_splitter(
    fields: Sequence[Field], null_values: Sequence[str], header: str, dialect: Dialect, renames: FieldNames
) -> Callable[[str], RawFields]:
    declared = {field.name: field for field in fields}
    if (problem := header_problem(header, dialect, set(declared), renames)) is not None:
        refused = RawFields([None] * len(fields), malformed=problem)
        return lambda raw: refused
    names = header_names(header, dialect, renames)
    split = splitter(dialect)
    positions = [(names.index(field.name) if field.name in names else None, field.is_text) for field in fields]
    undeclared = [(position, name) for position, name in enumerate(names) if name not in declared]
    nulls = frozenset(null_values)
    nested = [renames.inside.get(field.name) for field in fields]

    def read(raw: str) -> RawFields:
        if not raw:
            return RawFields([None] * len(fields), malformed="blank_line")
        record = split(raw)
        if record is None or len(record[0]) != len(names):
            return RawFields([None] * len(fields), malformed="malformed_line")
        cells, quoted = record
        values = [
            None if index is None or (cells[index] in nulls and not (is_text and index in quoted)) else cells[index]
            for index, is_text in positions
        ]
        if renames.inside:
            try:
                values = [
                    value if value is None or inside is None else renamed_text(value, inside)
                    for value, inside in zip(values, nested, strict=True)
                ]
            except RepeatedNameError as error:
                return RawFields([None] * len(fields), malformed=f"repeated_field({error.name})")
        unknown = {name: cells[index] for index, name in undeclared if cells[index] or index in quoted}
        return RawFields(values, unknown)

    return read


def json_reader(
    fields: Sequence[Field],
    null_values: Sequence[str],
    envelope: Envelope | None = None,
    names: FieldNames = AS_THEY_ARE,
) -> RecordReader:
    """Make a reader for records that are one JSON object each; of an envelope the row and the columns outside it are read."""
    declared = {field.name for field in fields}
    nulls = frozenset(null_values)
    refused = [None] * len(fields)

    def read(raw: str, header: str | None, dialect: str | None) -> RawFields:
        if not raw or raw.isspace():
            return RawFields(refused, malformed="blank_line")
        try:
            record = exact_json.decode(raw)
            if not isinstance(record, dict):
                return RawFields(refused, malformed="malformed_json")
            if "\\u" in raw:
                # A lone surrogate cannot be encoded as UTF-8; encode() raises UnicodeEncodeError, a ValueError.
                exact_json.as_text(record).encode()
            if envelope is None:
                record = renamed_record(record, names)
            else:
                record, problem = envelope(record)
                if problem is not None:
                    return RawFields(refused, malformed=problem)
            texts = {name: _text(value) for name, value in record.items()}
        except RepeatedNameError as error:
            return RawFields(refused, malformed=f"repeated_field({error.name})")
        except (ValueError, RecursionError):
            return RawFields(refused, malformed="malformed_json")
        values = []
        for declared_field in fields:
            text = texts.get(declared_field.name)
            if declared_field.bits and isinstance(record.get(declared_field.name), exact_json.Fraction):
                text = _integer_text(record[declared_field.name], declared_field.bits)
            # In a STRING field an empty JSON string is a value.
            values.append(None if text in nulls and not (declared_field.is_text and text == "") else text)
        unknown = {name: text for name, text in texts.items() if text is not None and name not in declared}
        return RawFields(values, unknown)

    return read


def _integer_text(literal: str, bits: int) -> str:
    """The digits of a JSON number such as 7.0 or 1e3, if it is an integer of that size; else the literal unchanged."""
    try:
        number = Decimal(literal)
    except InvalidOperation:
        # Decimal refuses exponents of about nineteen digits.
        return literal
    if number and not 0 <= number.adjusted() < _MAX_INTEGER_DIGITS:
        return literal
    integer = int(number)
    return str(integer) if number == integer and -(1 << (bits - 1)) <= integer < 1 << (bits - 1) else literal


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value) if isinstance(value, str) else exact_json.as_text(value)
