"""How a source writes its values, where it differs from the formats of each type in docs/formats.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pendulum

from tidegate.errors import FieldError
from tidegate.schema.changes import normal
from tidegate.schema.ddl import parse_ddl
from tidegate.spec.checks import check_texts

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
