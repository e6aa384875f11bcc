"""A TOML document with the line of each of its keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tidegate.advice import Edit, OutsideAct
from tidegate.errors import SettingsError

Keys = tuple[str, ...]
"""From the top of a document to a value or a table."""


@dataclass(frozen=True, eq=False)
class TomlDocument:
    """A document.

    Args:
        path: Its file.
        text: Its content.
        values: The same, parsed.
    """

    path: Path
    text: str
    values: Mapping[str, Any]

    def line(self, *keys: str) -> int:
        """The line on which the statement of a key or a table begins; of the nearest table that has one."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 1)

    @cached_property
    def lines(self) -> dict[Keys, int]:
        """Where each key begins. TOML's parser does not say it: a statement ends where what precedes is a document again."""
        lines, begins, known = self.text.split("\n"), 1, dict[Keys, int]()
        for number in range(1, len(lines) + 1):
            try:
                document = tomllib.loads("\n".join(lines[:number]))
            except ValueError:
                continue
            for path in _paths(document):
                known.setdefault(path, begins)
            begins = number + 1
        return known


def read(path: Path) -> TomlDocument:
    """The document in a file. It is read again when it has changed.

    Raises:
        SettingsError: The file cannot be read, or is not TOML.
    """
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise SettingsError(f"it cannot be read: {why}", OutsideAct("let this process read it"), file=path) from None


@lru_cache(maxsize=16)
def _read(path: Path, *changed: int) -> TomlDocument:
    del changed
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SettingsError("it is not in UTF-8", Edit("save it as UTF-8", "setting"), file=path, line=line) from None
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        # Also a number with thousands of digits, which is no error of TOML's.
        at = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error), re.DOTALL)
        what, line = (at[1], int(at[2] or text.count("\n") + 1)) if at else (str(error), 1)
        raise SettingsError(
            f"it is not TOML: {what}", Edit("correct the line", "setting"), file=path, line=line
        ) from None
    except RecursionError:
        raise SettingsError(
            "it is nested too deeply", Edit("write tables of two levels", "setting"), file=path
        ) from None
    return TomlDocument(path, text, document)


def leaves(table: Mapping[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """The values of a table with their keys; an empty table as a value."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


def kind(value: object) -> str:
    """What a value is, for messages."""
    kinds = {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or a time")


def _paths(table: Mapping[str, Any], above: Keys = ()) -> Iterator[Keys]:
    """The keys of all tables and values."""
    for key, value in table.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from _paths(value, (*above, key))
