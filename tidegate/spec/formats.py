"""How a source writes its files and its values, where these differ from the formats of each type in docs/formats.md."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import pendulum

from tidegate.errors import FieldError
from tidegate.schema.changes import normal
from tidegate.schema.contract import Contract
from tidegate.schema.ddl import parse_ddl
from tidegate.schema.names import FieldPath, checked_renames
from tidegate.spec.change_records import ChangeRecords
from tidegate.spec.checks import check_choice, check_texts

_DATE_LETTERS: Mapping[str, range] = {"y": range(1, 5), "M": range(1, 5), "L": range(1, 5), "d": range(1, 3)}
_TIME_LETTERS: Mapping[str, range] = {
    **dict.fromkeys("Hhms", range(1, 3)),
    "S": range(1, 7),
    "a": range(1, 2),
    **dict.fromkeys("Xx", range(1, 6)),
    "z": range(1, 5),
}
_ZONE_LETTERS = "Xxz"


@dataclass(frozen=True, kw_only=True)
class Formats:
    """Additional or other formats of a source than those that every type has (``docs/formats.md``).

    A text that has none of the formats of its type breaks the rule ``wrong_type``. Values of type STRING never change.
    """

    trim: bool = False
    """Ignore blanks, tabs and line breaks around a value. A value of nothing else counts as the empty text."""
    rounding: bool = False
    """DECIMAL accepts more fraction digits than its scale and any exponent, and rounds half up. Without it they break
    ``wrong_type``."""
    decimal_comma: bool = False
    """Numbers are written ``1234,56`` or ``1.234,56``: decimal comma, optional points between groups of three digits.
    ``1.5`` is then invalid, and ``1.234`` is 1234. Only for CSV: numbers of the other formats have a decimal point."""
    true: tuple[str, ...] = ()
    """Texts for true in addition to ``true``, case-sensitive, for example ``("Y", "1")``."""
    false: tuple[str, ...] = ()
    """Texts for false in addition to ``false``, case-sensitive."""
    date: str = ""
    """Pattern of DATE, instead of ``yyyy-MM-dd``: a datetime pattern of Spark with ``y``, ``M``, ``L``, ``d``, for example
    ``dd.MM.yyyy``."""
    timestamp: str = ""
    """Pattern of TIMESTAMP and TIMESTAMP_NTZ, instead of ISO 8601: a datetime pattern of Spark, also with ``H``, ``h``,
    ``m``, ``s``, ``S``, ``a``, ``X``, ``x``, ``z``, for example ``dd.MM.yyyy HH:mm``."""
    timezone: str = ""
    """The IANA zone of a TIMESTAMP that is written without one; empty means UTC. A local time that a clock change skips is
    invalid; for one that occurs twice the earlier instant is taken."""

    def __post_init__(self) -> None:
        for name in ("trim", "rounding", "decimal_comma"):
            if not isinstance(getattr(self, name), bool):
                raise FieldError("Formats", name, getattr(self, name), "True or False")
        self._check_spellings()
        self._check_pattern("date", _DATE_LETTERS)
        self._check_pattern("timestamp", {**_DATE_LETTERS, **_TIME_LETTERS})
        if self.timezone != "":
            allowed = "an IANA zone, as in 'Europe/Paris', or '' for UTC"
            try:
                pendulum.timezone(self.timezone)
            except Exception:
                raise FieldError("Formats", "timezone", self.timezone, allowed) from None
            if not isinstance(self.timezone, str):
                raise FieldError("Formats", "timezone", self.timezone, allowed)

    @property
    def has_zone(self) -> bool:
        """Whether the timestamp pattern contains a zone."""
        return any(letter in _ZONE_LETTERS for letter, _ in _runs(self.timestamp) or ())

    def check_fits(self, owner: str, schema: str) -> None:
        """Refuse a timestamp pattern with a zone if the schema has a TIMESTAMP_NTZ field.

        Raises:
            FieldError: There is such a field.
        """
        local = [column.name for column in parse_ddl(owner, schema) if normal(column.type) == "timestamp_ntz"]
        if self.has_zone and local:
            allowed = f"a pattern without a zone, because {', '.join(local)} is TIMESTAMP_NTZ"
            raise FieldError("Formats", "timestamp", self.timestamp, allowed)

    def _check_spellings(self) -> None:
        for name, other, used in (("true", "false", ()), ("false", "true", self.true)):
            value = getattr(self, name)
            check_texts("Formats", name, value)
            if any(not text or text in used or text.lower() == other for text in value):
                allowed = f"texts that are not empty, not {other!r} in any case, and do not mean {other} too"
                raise FieldError("Formats", name, value, allowed)

    def _check_pattern(self, name: str, letters: Mapping[str, range]) -> None:
        pattern = getattr(self, name)
        if pattern == "":
            return
        runs = _runs(pattern)
        valid = runs is not None and all(count in letters.get(letter, ()) for letter, count in runs)
        used = {letter for letter, _ in runs or ()}
        if not valid or not {"y", "d"} <= used or not used & {"M", "L"} or ("h" in used) != ("a" in used):
            allowed = f"Spark's datetime pattern with year, month and day, of the letters {', '.join(letters)}; as in "
            allowed += "'dd.MM.yyyy'" if name == "date" else "'dd.MM.yyyy HH:mm' ('h' with 'a', at most six 'S')"
            raise FieldError("Formats", name, pattern, allowed)


def _runs(pattern: object) -> list[tuple[str, int]] | None:
    """The runs of equal letters in a datetime pattern, each with its length; None for an invalid pattern."""
    if not isinstance(pattern, str):
        return None
    bare = re.sub(r"'[^']*'", "\0", pattern)
    if re.search(r"['\[\]{}#]", bare) or not pattern.isprintable():
        return None
    return [(match[1], len(match[0])) for match in re.finditer(r"([A-Za-z])\1*", bare)]


DEFAULT_FORMATS = Formats()
"""The formats of a source that declares none."""


def check_contract(declared: object, contract: object, schema: str) -> None:
    """Refuse what is no contract, or one that does not fit the schema."""
    owner = type(declared).__name__
    if not isinstance(contract, Contract):
        raise FieldError(owner, "contract", contract, "a Contract, as in Contract(mode='freeze')")
    contract.check_fits(owner, schema)


def checked_fields(
    declared: object,
    fields: object,
    schema: str,
    contract: Contract,
    changes: ChangeRecords | None,
    dialect: Dialect | None = None,
) -> tuple[tuple[FieldPath, str], ...]:
    """The renames of a source as sorted pairs.

    Args:
        dialect: That of CSV files.

    Raises:
        FieldError: They are no renames, do not fit the schema, or name what other fields of the declaration name too.
    """
    owner = type(declared).__name__
    pairs = checked_renames(owner, fields, schema)
    for original, name in pairs:
        if not isinstance(original, str):
            continue
        if changes is not None and name in changes.paths:
            allowed = f"no rename for {name!r}: its path in changes has the name that the records have"
            raise FieldError(owner, "fields", {original: name}, allowed)
        if original in contract.column_modes() and original != name:
            raise FieldError("Contract", "columns", original, f"{name!r}, the name that fields gives it")
        if dialect is not None and original != original.strip():
            raise FieldError(
                owner, "fields", {original: name}, f"{original.strip()!r}: blanks around names in a header are ignored"
            )
    if pairs and dialect is not None and not dialect.header:
        raise FieldError(
            owner, "fields", dict(pairs), "none without a header: the fields are in the order of the schema"
        )
    return pairs


def check_formats(declared: object, formats: object, schema: str, kind: str) -> None:
    """Refuse what are no formats, or formats that records of this kind cannot have."""
    owner = type(declared).__name__
    if not isinstance(formats, Formats):
        raise FieldError(owner, "formats", formats, "Formats, as in Formats(decimal_comma=True)")
    if formats.decimal_comma and kind != "csv":
        # JSON numbers have a decimal point: 1.234 would become 1234.
        raise FieldError("Formats", "decimal_comma", True, f"False, because the numbers of {kind} have a point")
    formats.check_fits(owner, schema)


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
