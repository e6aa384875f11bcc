"""Names of fields in records and the names of their columns, where a source declares that they differ."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from tidegate.errors import FieldError
from tidegate.schema.ddl import Column, nested_fields, nested_type, parse_ddl, quoted, split_top_level

FieldPath = str | tuple[str, ...]
"""The name of a field in records; of a nested one the names from the outside to it, without positions in an ARRAY and keys of a MAP."""
Renames = Mapping[FieldPath, str] | tuple[tuple[FieldPath, str], ...]
"""What `tidegate.spec.FileSource.fields` declares."""

COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
"""Names of fields that can become columns."""


@dataclass(frozen=True, kw_only=True)
class FieldNames:
    """The renames of the fields of one record, or of the objects in one field of it."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """The name in records to the declared name; other fields keep theirs."""
    inside: Mapping[str, FieldNames] = field(default_factory=dict)
    """By the declared name of a field: the renames in its objects."""
    containers: tuple[str, ...] = ()
    """``array`` and ``map``: what is around these objects, from the outside."""

    def __bool__(self) -> bool:
        return bool(self.renamed or self.inside)

    def declared(self, name: str) -> str:
        """The declared name of a field."""
        return self.renamed.get(name, name)

    def columns(self, fields: Iterable[Column]) -> tuple[Column, ...]:
        """Fields of records by their declared names, also those inside their types."""
        named = ((self.declared(each.name), each) for each in fields)
        return tuple(
            Column(name, self.inside.get(name, AS_THEY_ARE)._renamed_type(each.type), each.required)
            for name, each in named
        )

    def original(self, name: str) -> str | None:
        """The name in records of a column; None where it is the same."""
        return next((original for original, declared in self.renamed.items() if declared == name), None)

    def shown(self, name: str) -> str:
        """A column, with its name in records where that differs: ``order_id ("Order ID" in the source)``."""
        original = self.original(name)
        return name if original is None else f"{name} ({_text(original)} in the source)"

    def shown_in(self, rules: Iterable[str]) -> list[str]:
        """The columns in rules such as ``wrong_type(order_id)`` that have another name in records, as `shown`, each once."""
        columns = dict.fromkeys(name for rule in rules for name in re.findall(r"\((\w+)\)", rule))
        return [self.shown(name) for name in columns if self.original(name) is not None]

    def description(self, name: str) -> str | None:
        """The comment of a column in Delta: the names in records of it and of what is in it; None where all are the same."""
        original = self.original(name)
        parts = [] if original is None else [f"{_text(original)} in the source"]
        if name in self.inside:
            parts += [f"{path} is {_text(inner)}" for path, inner in self.inside[name].paths(name)]
        return "; ".join(parts) or None

    def paths(self, outer: str) -> list[tuple[str, str]]:
        """The renamed fields: the declared path below ``outer``, with points, and the name in records."""
        own = [(f"{outer}.{declared}", original) for original, declared in self.renamed.items()]
        inner = [names.paths(f"{outer}.{declared}") for declared, names in self.inside.items()]
        return [*own, *chain.from_iterable(inner)]

    def _renamed_type(self, kind: str) -> str:
        if not self:
            return kind
        outer, inner = nested_type(kind)
        if outer == "struct":
            fields = self.columns(Column(*each) for each in nested_fields(inner))
            return f"struct<{','.join(f'{quoted(each.name)}:{each.type}' for each in fields)}>"
        if outer:
            *key, value = split_top_level(inner)
            return f"{outer}<{','.join([*key, self._renamed_type(value)])}>"
        return kind


AS_THEY_ARE = FieldNames()
"""No field is renamed."""


def hashed_name(name: str) -> str:
    """How a name that is not an identifier, and could be data, appears in messages and in the history of schemas."""
    return f"name#{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def field_names(renames: Renames, columns: Iterable[Column]) -> FieldNames:
    """The declared renames of records with these columns.

    Args:
        renames: As `checked_renames` returns them.
        columns: Those of the schema, with declared names also inside their types.
    """
    return _names(
        {_path(path): name for path, name in dict(renames).items()}, {each.name: each.type for each in columns}
    )


def checked_renames(owner: str, renames: object, ddl: str) -> tuple[tuple[FieldPath, str], ...]:
    """The renames as sorted pairs.

    Args:
        owner: The class of the source.
        ddl: Its schema.

    Raises:
        FieldError: They are no renames, the schema does not have a name, or one column would have the values of two fields.
    """
    try:
        pairs = dict(renames)  # type: ignore[call-overload]  # what is declared may be anything
    except (TypeError, ValueError):
        pairs = {None: None}
    texts = (part for path, name in pairs.items() for part in (*_path(path), name))
    if not all(isinstance(part, str) for part in texts) or not all(map(_path, pairs)):
        allowed = (
            "{<name in the records>: <name in the schema>}, as in {'Order ID': 'order_id'}; a nested name is a tuple, as in "
            "{('customer', 'First Name'): 'first_name'}"
        )
        raise FieldError(owner, "fields", renames, allowed)
    columns = {each.name: each.type for each in parse_ddl(owner, ddl)}
    paths = {_path(path): name for path, name in pairs.items()}
    if len(paths) < len(pairs):
        raise FieldError(owner, "fields", renames, "each field once: ('a',) is the same as 'a'")
    _check(owner, paths, columns, ())
    return tuple(sorted(pairs.items(), key=lambda pair: _path(pair[0])))


def _check(owner: str, paths: Mapping[tuple[str, ...], str], types: Mapping[str, str], outer: tuple[str, ...]) -> None:
    """Refuse renames that do not fit the fields of one record or object."""
    own = {path[0]: name for path, name in paths.items() if len(path) == 1}
    for original, name in own.items():
        place = f" in {'.'.join(outer)}" if outer else ""
        if name.startswith("_") and not outer:
            allowed = f"a column of the schema ({', '.join(types)}): names that begin with '_' are those of the platform's columns"
            raise FieldError(owner, "fields", {original: name}, allowed)
        if name not in types:
            allowed = f"a name that the schema has{place}: {', '.join(types)}; or add {name!r} to it, with its type"
            raise FieldError(owner, "fields", {original: name}, allowed)
        if len(both := [each for each in own if own[each] == name]) > 1:
            from tidegate.schema.transliteration import column_name

            allowed = f"one field for {name!r}{place}: give {both[1]!r} a column of its own, as in {column_name(both[1], types)!r}"
            raise FieldError(owner, "fields", dict.fromkeys(both, name), allowed)
        if original != name and original in types and original not in own.values():
            allowed = f"also a field for the column {original!r}{place}, whose own name is taken by this rename; or remove that column"
            raise FieldError(owner, "fields", {original: name}, allowed)
    for first in dict.fromkeys(path[0] for path in paths if len(path) > 1):
        name = own.get(first, first)
        below = {path[1:]: each for path, each in paths.items() if path[0] == first and len(path) > 1}
        inner = _struct(types.get(name, ""))[1]
        if inner is None:
            allowed = f"only fields of a STRUCT that the schema has: {name!r} is {types.get(name, 'no field of it')}"
            raise FieldError(owner, "fields", {(first, *path): each for path, each in below.items()}, allowed)
        _check(owner, below, inner, (*outer, name))


def _names(
    paths: Mapping[tuple[str, ...], str], types: Mapping[str, str], containers: tuple[str, ...] = ()
) -> FieldNames:
    renamed = {path[0]: name for path, name in paths.items() if len(path) == 1}
    inside = {}
    for first in dict.fromkeys(path[0] for path in paths if len(path) > 1):
        name = renamed.get(first, first)
        around, inner = _struct(types[name])
        below = {path[1:]: each for path, each in paths.items() if path[0] == first and len(path) > 1}
        inside[name] = _names(below, inner or {}, around)
    return FieldNames(renamed=renamed, inside=inside, containers=containers)


def _struct(kind: str) -> tuple[tuple[str, ...], dict[str, str] | None]:
    """The ARRAYs and MAPs around a STRUCT, and its fields; None for another type."""
    outer, inner = nested_type(kind)
    if outer == "struct":
        return (), dict(nested_fields(inner))
    if not outer:
        return (), None
    containers, fields = _struct(split_top_level(inner)[-1])
    return (outer, *containers), fields


def _path(path: object) -> tuple[str, ...]:
    return path if isinstance(path, tuple) else (path,)


def _text(original: str) -> str:
    return json.dumps(original, ensure_ascii=False)
