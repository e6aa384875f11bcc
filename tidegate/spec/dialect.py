"""How a delimited text file is written: separator, quotes, header, encoding."""

from __future__ import annotations

import codecs
import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from tidegate.errors import FieldError
from tidegate.spec.fields import check_choice

BlankLines = Literal["refuse", "skip"]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The grammar of CSV files; by default RFC 4180. JSON files know ``encoding`` and ``blank_lines`` only.

    It is stored with each file in bronze, so that a backfill reads an old file as it was declared when it arrived.
    """

    separator: str = ","
    """One character between fields: ``","``, ``";"``, a tab, ``"|"``."""
    quote: str = '"'
    """Around a field that holds separators, quotes or line breaks; ``""`` if the files know no quotes."""
    escape: str = ""
    """Before a quote within quotes, or before a separator; ``""`` where a quote is doubled instead, as RFC 4180 says."""
    header: bool = True
    """Whether the first record names the fields. Without one, fields have the order of the schema."""
    comment: str = ""
    """Lines that begin with this character are no records; ``""`` for none."""
    blank_lines: BlankLines = "refuse"
    """``refuse``: an empty line is a record that breaks the rule ``blank_line``. ``skip``: it is no record."""
    encoding: str = "utf-8"
    """Python's name of it: ``utf-8``, ``utf-16``, ``latin-1``, ``cp1252``. A byte order mark at the beginning is left out."""

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
            raise FieldError("Dialect", "encoding", self.encoding, "a text encoding that Python knows") from None

    @property
    def codec(self) -> str:
        """Python's codec, which leaves a byte order mark out."""
        return "utf-8-sig" if codecs.lookup(self.encoding).name == "utf-8" else self.encoding

    @property
    def undecodable(self) -> str:
        """The rule of a file that is not in this encoding: ``not_utf8``, ``not_utf16``."""
        return "not_" + codecs.lookup(self.encoding).name.replace("-", "").replace("_", "")

    def to_json(self) -> dict[str, Any]:
        """The fields that differ from the defaults."""
        default = Dialect()
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(default, field.name)
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        return cls(**stored)


RFC_4180 = Dialect()
