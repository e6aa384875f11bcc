"""How a source writes its values, where that is not what docs/formats.md says of each type."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pendulum

from tidegate.errors import FieldError
from tidegate.schema.ddl import parse_ddl
from tidegate.schema.drift import normal
from tidegate.spec.fields import check_texts

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
    """Which spellings a source has besides, or instead of, those that every type has (``docs/formats.md``).

    Nothing is converted without it: a text that does not fit is ``wrong_type``. Texts (STRING) are never changed.
    """

    trim: bool = False
    """Blanks, tabs and line breaks around a value do not count. A value of nothing else means what the empty text means."""
    rounding: bool = False
    """DECIMAL takes more digits than it has room for and any exponent, and rounds half up. Otherwise they do not fit."""
    decimal_comma: bool = False
    """Numbers are written ``1234,56`` or ``1.234,56``: the comma is before the fraction, groups of three may have points.
    ``1.5`` does not fit then, and ``1.234`` is 1234. For CSV alone: numbers of the other formats have a point."""
    true: tuple[str, ...] = ()
    """Texts that are true besides ``true``, in just this case, for example ``("Y", "1")``."""
    false: tuple[str, ...] = ()
    """Texts that are false besides ``false``, in just this case."""
    date: str = ""
    """How a DATE is written, instead of ``yyyy-MM-dd``: Spark's pattern of ``y``, ``M``, ``L``, ``d``, for example
    ``dd.MM.yyyy``."""
    timestamp: str = ""
    """How a TIMESTAMP and a TIMESTAMP_NTZ are written, instead of ISO 8601: Spark's pattern, with ``H``, ``h``, ``m``,
    ``s``, ``S``, ``a``, ``X``, ``x``, ``z`` too, for example ``dd.MM.yyyy HH:mm``."""
    timezone: str = ""
    """The IANA zone of a TIMESTAMP that is written without one; empty means UTC. A time that the clocks skip does not fit,
    one that they show twice is the earlier."""

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
        """Whether the pattern for times names a zone."""
        return any(letter in _ZONE_LETTERS for letter, _ in _runs(self.timestamp) or ())

    def check_fits(self, owner: str, schema: str) -> None:
        """Refuse a pattern with a zone for a field that has none.

        Raises:
            FieldError: There is such a field.
        """
        local = [column.name for column in parse_ddl(owner, schema) if normal(column.type) == "timestamp_ntz"]
        if self.has_zone and local:
            allowed = f"a pattern without a zone, because {', '.join(local)} is TIMESTAMP_NTZ"
            raise FieldError("Formats", "timestamp", self.timestamp, allowed)

    def to_json(self) -> dict[str, Any]:
        """As plain values: what was declared, without the rest."""
        declared = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in declared.items()}
        return {name: value for name, value in plain.items() if value not in (False, "", [])}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """The reverse of `to_json`."""
        declared: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in plain.items()}
        return cls(**declared)

    def _check_spellings(self) -> None:
        for name, other, taken in (("true", "false", ()), ("false", "true", self.true)):
            value = getattr(self, name)
            check_texts("Formats", name, value)
            if any(not text or text in taken or text.lower() == other for text in value):
                allowed = f"texts that are not empty, not {other!r} in any case, and do not mean {other} too"
                raise FieldError("Formats", name, value, allowed)

    def _check_pattern(self, name: str, letters: Mapping[str, range]) -> None:
        pattern = getattr(self, name)
        if pattern == "":
            return
        runs = _runs(pattern)
        known = runs is not None and all(count in letters.get(letter, ()) for letter, count in runs)
        found = {letter for letter, _ in runs or ()}
        if not known or not {"y", "d"} <= found or not found & {"M", "L"} or ("h" in found) != ("a" in found):
            allowed = f"Spark's datetime pattern with year, month and day, of the letters {', '.join(letters)}; as in "
            allowed += "'dd.MM.yyyy'" if name == "date" else "'dd.MM.yyyy HH:mm' ('h' with 'a', at most six 'S')"
            raise FieldError("Formats", name, pattern, allowed)


def _runs(pattern: object) -> list[tuple[str, int]] | None:
    """The letters of a datetime pattern, each with how often it stands in a row; None of what is no pattern."""
    if not isinstance(pattern, str):
        return None
    bare = re.sub(r"'[^']*'", "\0", pattern)
    if re.search(r"['\[\]{}#]", bare) or not pattern.isprintable():
        return None
    return [(found[1], len(found[0])) for found in re.finditer(r"([A-Za-z])\1*", bare)]


PLAIN = Formats()
"""What a source has that declares none."""
