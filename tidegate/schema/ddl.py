"""Parses the DDL of a declared schema without Spark."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from tidegate.errors import FieldError

_FIELD = re.compile(r"\s*(`?)([A-Za-z][A-Za-z0-9_]*)\1\s*:?\s+(.+?)(\s+NOT\s+NULL)?\s*", re.IGNORECASE | re.DOTALL)
_TYPES = (
    "tinyint|byte|smallint|short|int|integer|bigint|long|float|real|double|dec|decimal|numeric|date|timestamp|timestamp_ltz|"
    "timestamp_ntz|string|char|character|varchar|binary|boolean|interval|array|map|struct|variant"
)
_TYPED = re.compile(rf"(?:{_TYPES})\b.*", re.IGNORECASE | re.DOTALL)
_OTHER_NAME = re.compile(rf"\s*(?:`((?:[^`]|``)*)`|(.+?))\s*:?\s+((?:{_TYPES})\b.*?)\s*", re.IGNORECASE | re.DOTALL)
"""A field by a name that no column can have: in backticks, or all that is before its type."""
_NESTED_FIELD = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^\s:`]+))(?:\s*:|\s)(.*)", re.DOTALL)

_REFUSED_BY_DELTA = frozenset(" ,;{}()\n\t=")
"""Characters that no column of a Delta table without column mapping has in its name."""


@dataclass(frozen=True)
class Column:
    """One field of a declared schema."""

    name: str
    type: str
    """As written in the DDL, for example ``decimal(10,2)``."""
    required: bool = False
    """Declared ``NOT NULL``."""

    @property
    def is_text(self) -> bool:
        """Whether the type is STRING."""
        return self.type.strip().lower() == "string"


def parse_ddl(owner: str, ddl: str) -> tuple[Column, ...]:
    """Split a DDL schema into its fields. Spark checks the types when a job starts.

    Raises:
        FieldError: A field is not ``<name> <type> [NOT NULL]``.
    """
    columns = []
    for part in split_top_level(ddl) if isinstance(ddl, str) else [""]:
        match, other = _FIELD.fullmatch(part), _OTHER_NAME.fullmatch(part)
        if other is not None and (match is None or not _TYPED.fullmatch(match[3])):
            raise _other_name(owner, part, other)
        if match is None:
            allowed = "'<name> <type> [NOT NULL], …' with names of a letter, then letters, digits and '_'"
            raise FieldError(owner, "schema", part.strip() or ddl, allowed)
        columns.append(Column(match[2], match[3].strip(), match[4] is not None))
    return tuple(columns)


def _other_name(owner: str, part: str, match: re.Match[str]) -> FieldError:
    """The error about a name that no column can have, with the rename to declare."""
    from tidegate.schema.transliteration import column_name

    original = match[2] if match[1] is None else match[1].replace("``", "`")
    name = column_name(original)
    rename = f"fields={{{json.dumps(original, ensure_ascii=False)}: {json.dumps(name)}}}"
    return FieldError(
        owner,
        "schema",
        part.strip(),
        f"'{name} {match[3]}', with {rename} beside it: a column's name is a letter, then letters, digits and '_'",
    )


def split_top_level(ddl: str) -> list[str]:
    """Split a list at its commas, except those inside brackets and quoted names."""
    parts, depth, start, is_quoted = [], 0, 0, False
    for position, letter in enumerate(ddl):
        is_quoted ^= letter == "`"
        if is_quoted:
            continue
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and depth == 0:
            parts.append(ddl[start:position])
            start = position + 1
    return [*parts, ddl[start:]]


def quoted(name: str) -> str:
    """A field's name in a DDL, in backticks where it needs them."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def nested_type(kind: str) -> tuple[str, str]:
    """``array``, ``map`` or ``struct``, and the text between its brackets; two empty texts for other types."""
    match = re.fullmatch(r"\s*(array|map|struct)\s*<(.*)>\s*", kind, re.IGNORECASE | re.DOTALL)
    return (match[1].lower(), match[2]) if match else ("", "")


def nested_fields(inside: str) -> list[tuple[str, str]]:
    """Names and types of the fields of a STRUCT, from the text between its brackets: ``name: type`` or ``name type``."""
    matches = (_NESTED_FIELD.fullmatch(part) for part in split_top_level(inside) if part.strip())
    return [
        (match[1].replace("``", "`") if match[1] is not None else match[2], match[3].strip())
        for match in matches
        if match
    ]


def nested_paths(kind: str) -> frozenset[str]:
    """The paths of the fields of all STRUCTs in a type; ``[0]`` and ``[1]`` are the elements of an ARRAY, or key and value of a MAP."""
    outer, inside = nested_type(kind)
    if outer == "struct":
        parts = nested_fields(inside)
        own = frozenset(name for name, _ in parts)
    else:
        parts = [(f"[{number}]", of) for number, of in enumerate(split_top_level(inside))] if outer else []
        own = frozenset()
    return own.union(*[frozenset(f"{name}.{path}" for path in nested_paths(of)) for name, of in parts])


def can_be_column(kind: str) -> bool:
    """Whether a Delta table can have a column of a type.

    Delta refuses some characters in the names of nested fields, and names that differ only in case. A part of unknown type, as
    of an Avro record that contains itself, cannot be stored.
    """
    outer, inside = nested_type(kind)
    if outer == "struct":
        fields = nested_fields(inside)
        distinct = {name.lower() for name, _ in fields}
        return 0 < len(fields) == len(distinct) and all(
            name and not _REFUSED_BY_DELTA & set(name) and can_be_column(of) for name, of in fields
        )
    return all(map(can_be_column, split_top_level(inside))) if outer else kind != ""
