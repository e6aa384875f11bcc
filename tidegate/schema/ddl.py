"""Parses the DDL of a declared schema without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidegate.errors import FieldError


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
        match = re.fullmatch(
            r"\s*(`?)([A-Za-z][A-Za-z0-9_]*)\1\s*:?\s+(.+?)(\s+NOT\s+NULL)?\s*", part, re.IGNORECASE | re.DOTALL
        )
        if match is None:
            raise FieldError(
                owner,
                "schema",
                part.strip() or ddl,
                "'<name> <type> [NOT NULL], …' with names that begin with a letter",
            )
        columns.append(Column(match[2], match[3].strip(), match[4] is not None))
    return tuple(columns)


def split_top_level(ddl: str) -> list[str]:
    """Split a list at its commas, except those inside brackets."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(ddl):
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and depth == 0:
            parts.append(ddl[start:position])
            start = position + 1
    return [*parts, ddl[start:]]
