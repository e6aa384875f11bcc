"""The grammar of delimited text (RFC 4180 and its dialects): where a record ends, and which fields it has.

What the standard does not allow is refused: a quote in an unquoted field, text after a closing quote, an unclosed quote.
Input on which parsers differ (``, "a"`` with a space before the quote) is malformed too.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidegate.schema.names import AS_THEY_ARE, FieldNames
from tidegate.spec.formats import Dialect

_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
"""Separators that are tried on a header in which the declared separator finds no declared field."""
_END = r"(?:\r\n|\n|\r)?"


class OpenQuoteError(ValueError):
    """A quote is not closed before the end of the file, so the records after it cannot be separated.

    Attributes:
        line: First line of the record with the quote, from 1.
    """

    def __init__(self, line: int) -> None:
        super().__init__(f"the quote in line {line} is not closed")
        self.line = line


class RecordTooLongError(ValueError):
    """A record is longer than the limit.

    Attributes:
        line: First line of the record, from 1.
    """

    def __init__(self, line: int) -> None:
        super().__init__(f"the record in line {line} is too long")
        self.line = line


@dataclass(frozen=True)
class _Patterns:
    """All but `field` are matched with `fullmatch`. Possessive quantifiers prevent backtracking into matched fields."""

    record: re.Pattern[str]
    """A complete record that keeps the grammar."""
    complete_line: re.Pattern[str]
    """A line that begins and ends a record. A quote inside an unquoted field opens nothing, as in Python's parser: the record
    is refused, but it ends where that parser ends it."""
    opening_line: re.Pattern[str]
    """A line that begins a record and ends inside quotes."""
    quoted_line: re.Pattern[str]
    """A line inside quotes that does not close them."""
    reopening_line: re.Pattern[str]
    """A line that closes the open quotes and ends inside new ones."""
    field: re.Pattern[str]
    """One field of a record with the separator before it, if any; group 1 is a quoted content, group 2 an unquoted one."""


@functools.cache
def _patterns(dialect: Dialect) -> _Patterns:
    separator, quote, escape = map(re.escape, (dialect.separator, dialect.quote, dialect.escape))
    escaped = rf"|{escape}(?s:.)" if escape else rf"|{quote}{quote}"
    inner = rf"(?:[^{quote}{escape}]++{escaped})*+"
    plain = rf"(?:[^{separator}{quote}{escape}\r\n]++{f'|{escape}.' if escape else ''})*+"
    strict = rf"(?:{quote}{inner}{quote}|{plain})"
    loose = rf"(?:[^{separator}{quote}{escape}\r\n]++|{escape}.)" if escape else rf"[^{separator}{quote}\r\n]"
    rest = rf"(?:[^{separator}{escape}\r\n]++{f'|{escape}.' if escape else ''})*+"
    field = rf"(?:{quote}{inner}{quote}|(?:{loose}{rest})?+)"
    more = rf"(?:{separator}{field})*+"
    return _Patterns(
        record=re.compile(rf"{strict}(?:{separator}{strict})*+"),
        complete_line=re.compile(rf"{field}{more}{_END}"),
        opening_line=re.compile(rf"(?:{field}{separator})*?{quote}{inner}"),
        quoted_line=re.compile(inner),
        reopening_line=re.compile(rf"{inner}{quote}(?:{separator}{field})*?{separator}{quote}{inner}"),
        field=re.compile(rf"(?:^|{separator})(?:{quote}({inner}){quote}|({plain}))", re.DOTALL),
    )


def records(lines: Iterable[str], dialect: Dialect, max_length: int) -> Iterator[tuple[int, str]]:
    r"""The records of a text, including the header, each with the number of its first line.

    Args:
        lines: Lines with their line ends: ``\\r\\n``, ``\\n`` or ``\\r``.
        dialect: The grammar. A record that breaks it ends with the line that does.
        max_length: Maximum length of a record in characters.

    Raises:
        OpenQuoteError: The text ends inside quotes.
        RecordTooLongError: A record is longer than ``max_length``.
    """
    quote, comment = dialect.quote, dialect.comment
    skips_blank = dialect.blank_lines == "skip"
    parse = _parser(dialect)
    open_lines: list[str] = []
    first = length = 0
    for number, line in enumerate(lines, start=1):
        if not open_lines:
            if comment and line.startswith(comment):
                continue
            if not quote or quote not in line:
                text = line.rstrip("\r\n")
                if len(text) > max_length:
                    raise RecordTooLongError(number)
                if text or not skips_blank:
                    yield number, text
                continue
            first, length = number, 0
        patterns = _patterns(dialect)
        length += len(line)
        if length > max_length + 2:
            raise RecordTooLongError(first)
        if open_lines:
            ends = quote in line and not (
                patterns.quoted_line.fullmatch(line) or patterns.reopening_line.fullmatch(line)
            )
        else:
            ends = (
                parse(line) is not None
                or bool(patterns.complete_line.fullmatch(line))
                or not patterns.opening_line.fullmatch(line)
            )
        open_lines.append(line)
        if ends:
            yield first, _without_line_end("".join(open_lines))
            open_lines = []
    if open_lines:
        raise OpenQuoteError(first)


class _Feed:
    """Passes one text at a time to a parser that is created once: creating it takes longer than parsing a record."""

    text: str | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        text, self.text = self.text, None
        if text is None:
            raise StopIteration
        return text


def _parser(dialect: Dialect) -> Callable[[str], list[str] | None]:
    """Python's strict parser, several times as fast as the patterns; its result is None where it refuses a text."""
    if dialect.escape or not dialect.quote:
        # Python's parser also accepts escapes where this grammar does not.
        return lambda text: None
    feed = _Feed()
    parser = csv.reader(feed, delimiter=dialect.separator, quotechar=dialect.quote, strict=True)

    def parse(text: str) -> list[str] | None:
        feed.text = text
        try:
            return next(parser)
        except csv.Error:
            return None

    return parse


def _without_line_end(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text[:-1] if text.endswith(("\n", "\r")) else text


Cells = tuple[list[str], frozenset[int]]
"""The texts of a record's fields, and the positions of empty quoted ones: ``""`` is an empty text, an empty cell no value."""

_NO_POSITIONS: frozenset[int] = frozenset()


def splitter(dialect: Dialect) -> Callable[[str], Cells | None]:
    """Make a function that splits one record into its fields; its result is None if the record breaks the grammar."""
    separator, quote, escape = dialect.separator, dialect.quote, dialect.escape
    if not quote:
        return lambda text: (text.split(separator), _NO_POSITIONS)
    patterns, parse = _patterns(dialect), _parser(dialect)
    doubled = quote + quote
    unescape = functools.partial(re.compile(rf"{re.escape(escape)}(.)", re.DOTALL).sub, r"\1") if escape else None

    def split(text: str) -> Cells | None:
        if quote not in text and not (escape and escape in text):
            return text.split(separator), _NO_POSITIONS
        cells = parse(text)
        # Python's parser accepts a quote inside an unquoted field, and does not distinguish empty quotes from an empty cell.
        if cells is not None and doubled not in text and quote not in separator.join(cells):
            return cells, _NO_POSITIONS
        if not patterns.record.fullmatch(text):
            return None
        cells, empty = [], set()
        for position, match in enumerate(patterns.field.finditer(text)):
            quoted = match[1]
            cell = match[2] if quoted is None else quoted
            if quoted == "":
                empty.add(position)
            if unescape is not None:
                cell = unescape(cell)
            elif quoted is not None:
                cell = cell.replace(doubled, quote)
            cells.append(cell)
        return cells, frozenset(empty)

    return split


def header_names(header: str, dialect: Dialect, renames: FieldNames = AS_THEY_ARE) -> list[str]:
    """The declared names of the fields in a header, which are stripped; empty if the header breaks the grammar."""
    cells = splitter(dialect)(header)
    return [] if cells is None else [renames.declared(name.strip()) for name in cells[0]]


def header_problem(header: str, dialect: Dialect, declared: set[str], renames: FieldNames = AS_THEY_ARE) -> str | None:
    """The rule that every record of a file breaks because its header is unusable; None for a usable header."""
    names = header_names(header, dialect, renames)
    if declared & set(names):
        return "repeated_header" if len(set(names)) != len(names) else None
    for separator, separator_name in _SEPARATORS.items():
        if separator not in (dialect.separator, dialect.quote, dialect.escape, dialect.comment):
            other = Dialect(separator=separator, quote=dialect.quote, escape=dialect.escape)
            others = header_names(header, other, renames)
            if len(names) < len(others) and declared & set(others):
                return f"other_separator({separator_name})"
    return "unknown_header"
