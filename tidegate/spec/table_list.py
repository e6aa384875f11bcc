"""Reads a list of tables: a TOML or a CSV file, line by line, so that a line that cannot be read is the error of its entry alone."""

from __future__ import annotations

import csv
import importlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.advice import Edit
from tidegate.errors import FieldError, SpecError
from tidegate.errors.classification import raise_machine
from tidegate.formatting import count

_ALLOWED = "the name of a .toml or .csv file in pipelines/, or a list of dicts"
_FILE = re.compile(r"[A-Za-z0-9][\w.-]*\.(toml|csv)")
_TABLE = re.compile(r"\s*\[\[\s*table\s*\]\]\s*(#.*)?")
_NAME = re.compile(r"\s*name\s*=\s*[\"'](\w+)[\"']")


@dataclass(frozen=True, kw_only=True)
class TableEntry:
    """One entry of a list, as it was written."""

    where: str
    """``pipelines/shop.csv line 7``."""
    values: Mapping[str, object]
    of_text: bool = False
    """Whether all values are texts, which are read as the types of the columns."""
    problem: str = ""
    """Why the line cannot be read; empty if it can."""


def read(entries: str | Sequence[Mapping[str, object]]) -> Iterator[TableEntry]:
    """The entries of a list.

    Raises:
        SpecError: The file does not exist, is no text, or has a beginning that cannot be read.
    """
    if not isinstance(entries, str):
        if isinstance(entries, Mapping) or not isinstance(entries, Iterable):
            raise FieldError("Tables", "entries", entries, _ALLOWED)
        return (_given(number, each) for number, each in enumerate(entries, 1))
    if _FILE.fullmatch(entries) is None:
        raise FieldError("Tables", "entries", entries, _ALLOWED)
    file, lines = f"pipelines/{entries}", _lines(entries)
    return (_toml if entries.endswith(".toml") else _csv)(file, lines)


def _given(number: int, values: object) -> TableEntry:
    where = f"entry {number} of Tables"
    if not isinstance(values, Mapping):
        return TableEntry(where=where, values={}, problem=f"{values!r} is no dict")
    texts = {name: value for name, value in values.items() if isinstance(name, str)}
    others = [name for name in values if name not in texts]
    return TableEntry(where=where, values=texts, problem=f"{others[0]!r} is no name of a column" if others else "")


def _lines(name: str) -> list[str]:
    [folder] = importlib.import_module("pipelines").__path__
    try:
        return (Path(folder) / name).read_bytes().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except FileNotFoundError:
        raise SpecError(
            f"pipelines/{name} does not exist", Edit("create it, or correct the name in Tables(…)", "declaration")
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise_machine(error, f"pipelines/{name}")
        raise SpecError(
            f"pipelines/{name} cannot be read ({type(error).__name__})", Edit("write it as UTF-8", "declaration")
        ) from error


def _toml(file: str, lines: Sequence[str]) -> Iterator[TableEntry]:
    """Each ``[[table]]`` with what follows it is read on its own: its lines are known, and its errors are its own."""
    starts = [number for number, line in enumerate(lines) if _TABLE.fullmatch(line)]
    before = lines[: starts[0]] if starts else lines
    try:
        stray: object = tomllib.loads("\n".join(before) + "\n") or None
    except tomllib.TOMLDecodeError as error:
        stray = str(error)
    if stray is not None:
        raise SpecError(
            f"{file} has something before its first [[table]]: {stray}",
            Edit("begin each table with a line [[table]], and its values below it", "declaration"),
        )
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        where, own = f"{file} line {start + 1}", lines[start:end]
        try:
            content = tomllib.loads("\n".join(own) + "\n")
        except tomllib.TOMLDecodeError as error:
            name = next((match[1] for line in own if (match := _NAME.match(line))), None)
            yield TableEntry(
                where=where,
                values={} if name is None else {"name": name},
                problem=f"it is not TOML: {_of_file(str(error), start)}",
            )
            continue
        [values], others = content.pop("table"), list(content)
        problem = f"[{others[0]}] is no part of a [[table]]; a table in it begins with [table.…]" if others else ""
        yield TableEntry(where=where, values=values, problem=problem)


def _of_file(message: str, start: int) -> str:
    """What tomllib says of a part of a file, with the numbers that lines have in the file."""
    return re.sub(r"line (\d+)", lambda number: f"line {int(number[1]) + start}", message)


def _csv(file: str, lines: Sequence[str]) -> Iterator[TableEntry]:
    """A header and one entry per line; no cell has more than one line."""
    header, *rest = lines
    delimiter = ";" if ";" in header and "," not in header else ","
    try:
        columns = tuple(_cells(header, delimiter))
    except csv.Error as error:
        raise SpecError(f"{file} line 1: it is not CSV: {error}", Edit("correct it", "declaration")) from None
    if repeated := [name for name in columns or ("",) if columns.count(name) > 1 or not name]:
        raise FieldError(f"{file} line 1", "header", repeated[0], "each column once, and with a name")
    for number, line in enumerate(rest, 2):
        if not line.replace(delimiter, "").strip():
            # A spreadsheet writes an empty row as separators.
            continue
        try:
            cells, problem = _cells(line, delimiter), ""
        except csv.Error as error:
            cells, problem = [], f"it is not CSV: {error}"
        if not problem and len(cells) != len(columns):
            problem = f"it has {count(len(cells), 'cell')}, and the header {len(columns)}"
        values = {name: cell for name, cell in zip(columns, cells, strict=False) if cell}
        yield TableEntry(where=f"{file} line {number}", values=values, of_text=True, problem=problem)


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cells in csv.reader([line], delimiter=delimiter, strict=True) for cell in cells]
