"""The dialect of delimited text files: separator, quotes, header, encoding."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Literal, get_args

from tidegate.errors import FieldError
from tidegate.spec.checks import check_choice

BlankLines = Literal["refuse", "skip"]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The grammar of CSV files; by default RFC 4180. For JSON files only ``encoding`` and ``blank_lines`` apply.

    It is stored with each file in bronze, so that a backfill parses an old file with the dialect it was read with.
    """

    separator: str = ","
    """One character between fields: ``","``, ``";"``, a tab, ``"|"``."""
    quote: str = '"'
    """Encloses fields with separators, quotes or line breaks; ``""`` if the files have no quotes."""
    escape: str = ""
    """Precedes a quote within quotes, or a separator; ``""`` if a quote is doubled instead, as in RFC 4180."""
    header: bool = True
    """Whether the first record names the fields. Without a header, fields are in the order of the schema."""
    comment: str = ""
    """Lines that begin with this character are ignored; ``""`` for none."""
    blank_lines: BlankLines = "refuse"
    """``refuse``: an empty line is a record that breaks the rule ``blank_line``. ``skip``: empty lines are ignored."""
    encoding: str = "utf-8"
    """Python's name of the encoding: ``utf-8``, ``utf-16``, ``latin-1``, ``cp1252``. A byte order mark is dropped."""

    def __post_init__(self) -> None:
        for name, optional in (("separator", False), ("quote", True), ("escape", True), ("comment", True)):
            value = getattr(self, name)
            if not isinstance(value, str) or len(value) > 1 or value in ("\r", "\n", "\0") or not (value or optional):
                raise FieldError("Dialect", name, value, "one character" + (" or ''" if optional else ""))
        used = [value for value in (self.separator, self.quote, self.escape, self.comment) if value]
        if len(set(used)) < len(used):
            raise FieldError("Dialect", "separator", self.separator, "another character than quote, escape and comment")
        if self.escape and not self.quote:
            raise FieldError("Dialect", "escape", self.escape, "'' where there are no quotes")
        if not isinstance(self.header, bool):
            raise FieldError("Dialect", "header", self.header, "True, False")
        check_choice(self, "blank_lines", self.blank_lines, get_args(BlankLines))
        try:
            "a".encode(self.encoding if isinstance(self.encoding, str) else "")
        except (LookupError, UnicodeError):
            raise FieldError("Dialect", "encoding", self.encoding, "a text encoding of Python") from None

    @property
    def codec(self) -> str:
        """Python's codec, which drops a byte order mark."""
        return "utf-8-sig" if codecs.lookup(self.encoding).name == "utf-8" else self.encoding

    @property
    def undecodable(self) -> str:
        """The quarantine rule of files that are not in this encoding: ``not_utf8``, ``not_utf16``."""
        return "not_" + codecs.lookup(self.encoding).name.replace("-", "").replace("_", "")


RFC_4180 = Dialect()
