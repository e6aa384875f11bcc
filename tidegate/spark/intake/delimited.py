"""The grammar of delimited text (RFC 4180 and its dialects): where a record ends, and which fields it has. No Spark.

What the standard does not allow is refused, never guessed: a quote in a field without quotes, text behind a closing quote,
a quote that is not closed. Where parsers differ (``, "a"`` with a space before the quote) the record is malformed, too.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidegate.spec.dialect import Dialect

_END = r"(?:\r\n|\n|\r)?"


class OpenQuoteError(ValueError):
    """A quote is open at the end of the file, so nothing behind it can be told apart.

    Attributes:
        line: Of the record in which it was opened, from 1.
    """

    def __init__(self, line: int) -> None:
        super().__init__(f"the quote in line {line} is not closed")
        self.line = line


class RecordTooLongError(ValueError):
    """A record is longer than any record is.

    Attributes:
        line: In which the record begins, from 1.
    """

    def __init__(self, line: int) -> None:
        super().__init__(f"the record in line {line} is too long")
        self.line = line


@dataclass(frozen=True)
class _Patterns:
    """All are matched against whole texts; none backtracks over what it has read."""

    record: re.Pattern[str]
    """A whole record that keeps the grammar."""
    closed: re.Pattern[str]
    """A line at the beginning of a record, which it ends. A quote within a field without quotes opens nothing, as Python's
    parser has it: the record is refused, but it ends where that parser ends it."""
    opened: re.Pattern[str]
    """One that ends within quotes."""
    within: re.Pattern[str]
    """A line within quotes, which stay open."""
    reopened: re.Pattern[str]
    """One within quotes that closes them and ends within others."""
    field: re.Pattern[str]
    """One field of a record, with the separator before it, which the first has not; group 1 is what stands in quotes."""


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
        closed=re.compile(rf"{field}{more}{_END}"),
        opened=re.compile(rf"(?:{field}{separator})*?{quote}{inner}"),
        within=re.compile(inner),
        reopened=re.compile(rf"{inner}{quote}(?:{separator}{field})*?{separator}{quote}{inner}"),
        field=re.compile(rf"(?:^|{separator})(?:{quote}({inner}){quote}|({plain}))", re.DOTALL),
    )


def records(lines: Iterable[str], dialect: Dialect, longest: int) -> Iterator[tuple[int, str]]:
    r"""The records of a text, the header among them, each with the number of its first line.

    Args:
        lines: With their ends: ``\\r\\n``, ``\\n`` or ``\\r``.
        dialect: Its grammar. A record that breaks it ends with the line in which it does.
        longest: Characters that a record may have.

    Raises:
        OpenQuoteError: The text ends within quotes.
        RecordTooLongError: One is longer.
    """
    quote, comment = dialect.quote, dialect.comment
    skips_blank = dialect.blank_lines == "skip"
    parse = _parser(dialect)
    held: list[str] = []
    first = length = 0
    for number, line in enumerate(lines, start=1):
        if not held:
            if comment and line.startswith(comment):
                continue
            if not quote or quote not in line:
                text = line.rstrip("\r\n")
                if len(text) > longest:
                    raise RecordTooLongError(number)
                if text or not skips_blank:
                    yield number, text
                continue
            first, length = number, 0
        patterns = _patterns(dialect)
        length += len(line)
        if length > longest + 2:
            raise RecordTooLongError(first)
        if held:
            ends = quote in line and not (patterns.within.fullmatch(line) or patterns.reopened.fullmatch(line))
        else:
            ends = (
                parse(line) is not None or bool(patterns.closed.fullmatch(line)) or not patterns.opened.fullmatch(line)
            )
        held.append(line)
        if ends:
            yield first, _without_end("".join(held))
            held = []
    if held:
        raise OpenQuoteError(first)


class _Feed:
    """Gives one text at a time to a parser that is made once: making it takes longer than a record."""

    text: str | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        text, self.text = self.text, None
        if text is None:
            raise StopIteration
        return text


def _parser(dialect: Dialect) -> Callable[[str], list[str] | None]:
    """Python's strict parser, several times as fast as the patterns; None for a text that it does not take as one record."""
    if dialect.escape or not dialect.quote:
        # Its escape works in other places, too.
        return lambda text: None
    feed = _Feed()
    parser = csv.reader(feed, delimiter=dialect.separator, quotechar=dialect.quote, strict=True)

    def one(text: str) -> list[str] | None:
        feed.text = text
        try:
            return next(parser)
        except csv.Error:
            return None

    return one


def _without_end(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text[:-1] if text.endswith(("\n", "\r")) else text


Cells = tuple[list[str], frozenset[int]]
"""The texts of a record's fields, and the places of those that are empty quotes: ``""`` is a text, nothing is no value."""

_NONE: frozenset[int] = frozenset()


def splitter(dialect: Dialect) -> Callable[[str], Cells | None]:
    """A function that gives the fields of one record, or None if the record breaks the grammar."""
    separator, quote, escape = dialect.separator, dialect.quote, dialect.escape
    if not quote:
        return lambda text: (text.split(separator), _NONE)
    patterns, parse = _patterns(dialect), _parser(dialect)
    doubled = quote + quote
    unescaped = functools.partial(re.compile(rf"{re.escape(escape)}(.)", re.DOTALL).sub, r"\1") if escape else None

    def split(text: str) -> Cells | None:
        if quote not in text and not (escape and escape in text):
            return text.split(separator), _NONE
        cells = parse(text)
        # It takes a quote within a field without quotes, and does not tell empty quotes from nothing.
        if cells is not None and doubled not in text and quote not in separator.join(cells):
            return cells, _NONE
        if not patterns.record.fullmatch(text):
            return None
        cells, empty = [], set()
        for place, match in enumerate(patterns.field.finditer(text)):
            inside = match[1]
            cell = match[2] if inside is None else inside
            if inside == "":
                empty.add(place)
            if unescaped is not None:
                cell = unescaped(cell)
            elif inside is not None:
                cell = cell.replace(doubled, quote)
            cells.append(cell)
        return cells, frozenset(empty)

    return split
