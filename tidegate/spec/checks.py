"""Checks of the fields of declarations.

All raise `FieldError` with the field, its value and what is allowed. ``declared`` is the object that has the field; the
message names its class.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Literal, get_args

from tidegate.errors import FieldError
from tidegate.schema.ddl import parse_ddl

Layer = Literal["bronze", "silver", "gold"]

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")

_UNSUPPORTED = {
    r"\bMAP\s*<\s*(?!STRING\s*,)": (
        "MAP<STRING, …>: values are parsed as JSON, whose keys are strings. A transform can convert them"
    ),
    r"\bNOT\s+NULL\b": (
        "NOT NULL after the type of a whole field. Inside a STRUCT it would refuse no row: a missing part is NULL. Use an"
        " expectation of the gate"
    ),
    r"\bCOMMENT\s*['\"]": "a name and a type, without COMMENT",
}
"""Patterns of parts of a type that Spark's DDL allows and schemas do not support, and what is allowed instead."""
_SIZE = re.compile(r"[1-9][0-9]*[kmg]")


def fits(pattern: re.Pattern[str], value: object) -> bool:
    """Whether a value is text that matches the whole pattern."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def brackets_closed(glob: str) -> bool:
    """Whether a glob has as many closing as opening brackets."""
    return glob.count("{") == glob.count("}") and glob.count("[") == glob.count("]")


def check_texts(owner: str, name: str, value: object) -> None:
    """Refuse values that are not a tuple of strings."""
    if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
        raise FieldError(owner, name, value, "a tuple of texts")


def check_name(owner: str, name: str, value: str) -> None:
    """Refuse invalid names of pipelines, flows and tables."""
    if not fits(NAME, value):
        raise FieldError(owner, name, value, "a lower-case letter, then letters, digits and '_', at most 63")


def check_unique(owner: str, name: str, values: list[str], what: str) -> None:
    """Refuse a list with duplicates."""
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise FieldError(owner, name, ", ".join(twice), f"different {what}")


def check_table(declared: object, name: str, value: str) -> None:
    """Refuse values that are not ``<layer>.<table>``."""
    layer, _, table = value.partition(".") if isinstance(value, str) else ("", "", "")
    if layer not in get_args(Layer) or not NAME.fullmatch(table):
        raise FieldError(
            type(declared).__name__, name, value, "'<layer>.<table>' with the layer bronze, silver or gold"
        )


def check_folder(declared: object, name: str, value: str) -> None:
    """Refuse values that are not a folder below the landing zone."""
    plain = isinstance(value, str) and value.isprintable() and str(PurePosixPath(value)) == value != "."
    if (
        not plain
        or value.startswith("/")
        or ":" in value
        or any(part in ("..", ".") for part in PurePosixPath(value).parts)
    ):
        raise FieldError(
            type(declared).__name__,
            name,
            value,
            "a folder relative to the landing zone, as in 'shop/orders', without '..'",
        )


def check_choice(declared: object, name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse values that are not among the allowed ones."""
    if value not in allowed:
        raise FieldError(type(declared).__name__, name, value, ", ".join(allowed))


def check_positive(declared: object, name: str, value: object, owner: str | None = None) -> None:
    """Refuse values that are not a whole number from 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise FieldError(owner or type(declared).__name__, name, value, "a whole number from 1")


def check_schema(declared: object, ddl: str) -> None:
    """Refuse DDL that does not parse, declares a field twice, or has a part that schemas do not support."""
    columns = parse_ddl(type(declared).__name__, ddl)
    twice = sorted({c.name.lower() for c in columns if [d.name.lower() for d in columns].count(c.name.lower()) > 1})
    if twice:
        raise FieldError(type(declared).__name__, "schema", ", ".join(twice), "each field once, whatever its case")
    for column in columns:
        plain = re.sub(r"`[^`]*`", "_", column.type)
        for part, allowed in _UNSUPPORTED.items():
            if re.search(part, plain, re.IGNORECASE):
                raise FieldError(type(declared).__name__, "schema", f"{column.name} {column.type}", allowed)


_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
_DURATION = re.compile(rf"([1-9][0-9]{{0,6}}) ({'|'.join(_SECONDS)})s?")


def check_duration(owner: str, name: str, value: object) -> None:
    """Refuse values that are not a duration."""
    if not fits(_DURATION, value):
        raise FieldError(owner, name, value, "a number and seconds, minutes, hours or days, as in '15 minutes'")


def in_seconds(duration: str) -> int:
    """A declared duration in seconds."""
    number, unit = duration.split(" ")
    return int(number) * _SECONDS[unit.removesuffix("s")]


def in_bytes(size: str) -> int:
    """Convert a declared size to bytes: ``256m`` is 256 times 1024 times 1024."""
    return int(size[:-1]) << 10 * ("kmg".index(size[-1]) + 1)


def check_size(declared: object, size: object) -> None:
    """Refuse a size that `in_bytes` cannot convert."""
    if not fits(_SIZE, size):
        raise FieldError(type(declared).__name__, "max_bytes_per_trigger", size, "a size such as '256m' or '1g'")
