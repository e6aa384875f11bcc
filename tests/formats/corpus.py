"""Generates delimited files, valid and hostile, with the records that a strict parser reads from them."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass

from tidegate.spec import Dialect

NAMES = ["id", "a", "b", "c"]
TEXTS = [
    "",
    "x",
    "two words",
    " padded ",
    'say ""',
    'a"b',
    '"',
    '""',
    "C:\\dir\\",
    "1.10",
    "é",
    "中文",
    "😀",
    "'",
    "a\\",
    "#",
    "NULL",
]
ENDS = ["\n", "\r\n", "\r"]
SEPARATORS = [",", ";", "\t", "|"]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "cp1252"]


@dataclass(frozen=True)
class Generated:
    """A generated file."""

    content: bytes
    dialect: Dialect
    text: str


def good_file(rng: random.Random, dialect: Dialect | None = None) -> tuple[Generated, list[list[str]]]:
    """A file that conforms to the standard, and its records without the header. By default of a random dialect."""
    dialect = dialect or Dialect(separator=rng.choice(SEPARATORS), encoding=rng.choice(ENCODINGS))
    end = rng.choice(ENDS)
    rows = [[str(number), *(_cell(rng, dialect) for _ in NAMES[1:])] for number in range(rng.randrange(8))]
    lines = [dialect.separator.join(NAMES)]
    lines += [dialect.separator.join(_written(rng, cell, dialect) for cell in row) for row in rows]
    text = end.join(lines) + (end if rng.random() < 0.7 else "")
    return Generated(text.encode(dialect.encoding), dialect, text), rows


def hostile_file(rng: random.Random) -> Generated:
    """A header followed by a random sequence of characters that matter to the grammar."""
    pieces = [",", ",", '"', '"', '""', "\n", "\n", "\r\n", "\r", "x", "1", " ", ";", "\\", ',"', '",', '"\n"', "é"]
    body = "".join(rng.choice(pieces) for _ in range(rng.randrange(60)))
    text = "id,a\n" + body
    return Generated(text.encode(), Dialect(), text)


def strict_rows(text: str, dialect: Dialect) -> list[list[str]]:
    """The records of a text by Python's strict parser, which raises `csv.Error` at the first that breaks the grammar."""
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=dialect.separator, strict=True))


def _cell(rng: random.Random, dialect: Dialect) -> str:
    pieces = [*TEXTS, dialect.separator, "\n", "\r\n", "\r"]
    cell = "".join(rng.choice(pieces) for _ in range(rng.choice([0, 1, 1, 1, 2, 3])))
    return cell.encode(dialect.encoding, "replace").decode(dialect.encoding)


def _written(rng: random.Random, cell: str, dialect: Dialect) -> str:
    needs_quotes = any(character in cell for character in f'"\r\n{dialect.separator}')
    if needs_quotes or rng.random() < 0.2:
        return '"' + cell.replace('"', '""') + '"'
    return cell
