"""Names of columns for the fields of a sample, nested ones too."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tidegate.schema.ddl import nested_fields, nested_type, quoted, split_top_level
from tidegate.schema.names import COLUMN, FieldPath
from tidegate.schema.transliteration import column_name

_NESTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of nested fields that need no backticks."""


def declared_names(names: Iterable[str]) -> set[str]:
    """The fields that keep their names in the schema: of those that differ in case only, the first."""
    chosen: dict[str, str] = {}
    for name in names:
        if COLUMN.fullmatch(name):
            chosen.setdefault(name.lower(), name)
    return set(chosen.values())


def columns_of(names: Iterable[str], declared: Collection[str], reserved: Iterable[str]) -> dict[str, str]:
    """The column of each field. Of those that would have the same, declared ones keep it; the others get a number.

    A field that is renamed has its column's name in the schema, which therefore is not the name of another field there.
    """
    columns: dict[str, str] = {}
    used = set(reserved)
    in_schema = {name.lower() for name in declared}
    for name in sorted(names, key=lambda name: name not in declared):
        columns[name] = column_name(name, used if name in declared else used | in_schema)
        used.add(columns[name])
    return columns


def renamed_types(kind: str, path: tuple[str, ...]) -> tuple[str, dict[FieldPath, str]]:
    """A type whose nested fields all have names that a table can have, and the renames for it.

    Args:
        kind: A type with the names in records.
        path: The names in records from the outside to the field of this type.
    """
    outer, inner = nested_type(kind)
    if outer == "struct":
        renames: dict[FieldPath, str] = {}
        fields = nested_fields(inner)
        kept = {name.lower(): name for name, _ in reversed(fields) if _NESTED.fullmatch(name)}
        used = {*kept}
        parts = []
        for name, of in fields:
            declared = name
            if kept.get(name.lower()) != name:
                declared = renames[*path, name] = column_name(name, used)
                used.add(declared)
            of, deeper = renamed_types(of, (*path, name))
            renames |= deeper
            parts.append(f"{quoted(declared)}: {of}")
        return f"STRUCT<{', '.join(parts)}>", renames
    if outer:
        *key, value = split_top_level(inner)
        value, renames = renamed_types(value, path)
        return f"{outer.upper()}<{', '.join([*map(str.strip, key), value.strip()])}>", renames
    return kind, {}
