"""Classifies the differences between two lists of fields. Needs no JVM.

Two comparisons use it: the declared schema with the one that a checkpoint version was created with, and the fields of a
batch with the declared ones, before any row is written.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from tidegate.schema.ddl import Column, nested_fields, nested_type, quoted, split_top_level
from tidegate.schema.names import AS_THEY_ARE, FieldNames

ChangeKind = Literal["addition", "widening", "narrowing", "removal", "rename_suspect", "case_clash", "type_change"]

SIMILAR = 0.6
"""Minimum ``difflib`` ratio of two names for a new field and a missing field to count as a possible rename."""

_NOT_NULL = " not null"
_ALIASES: Mapping[str, str] = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "bool": "boolean",
    "timestamp_ltz": "timestamp",
}
_WHOLE: Mapping[str, int] = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Maximum number of decimal digits of each integer type."""
_WIDER: frozenset[tuple[str, str]] = frozenset(
    [
        *((small, large) for small in _WHOLE for large in _WHOLE if _WHOLE[small] < _WHOLE[large]),
        *((whole, "double") for whole in ("tinyint", "smallint", "int")),
        *((whole, "float") for whole in ("tinyint", "smallint")),
        ("float", "double"),
        ("date", "timestamp_ntz"),
    ]
)
"""Pairs (narrow, wide) in which the wide type holds every value of the narrow one exactly. The list is that of Delta's type
widening, which excludes BIGINT to DOUBLE."""


@dataclass(frozen=True, kw_only=True)
class SchemaChange:
    """One difference between two lists of fields."""

    kind: ChangeKind
    """``addition``: a new nullable field. ``widening``: every old value fits the new type, or NULL is allowed now.
    ``narrowing``: the reverse, or a new NOT NULL field. ``removal``: a field is missing. ``rename_suspect``: a field is
    missing, and a new one has a similar name and a compatible type. ``case_clash``: the name exists in another case;
    column names in Delta are case-insensitive. ``type_change``: neither type holds all values of the other."""
    field: str
    """The new name; for a removal, the old one."""
    before: str | None = None
    """The old type, with ``not null``; None for an addition or an unknown type."""
    after: str | None = None
    """The new type; None for a removal or an unknown type (text formats have no types)."""
    formerly: str | None = None
    """For a rename suspect, the old name; for a case clash, the name that it clashes with."""

    @property
    def keeps_checkpoint(self) -> bool:
        """Whether a checkpoint version can continue with this change: existing rows need not be derived again."""
        nullable_now = self.kind == "widening" and self.before == f"{self.after}{_NOT_NULL}"
        return self.kind == "addition" or nullable_now

    def summary(self, names: FieldNames = AS_THEY_ARE) -> str:
        """One phrase with names and types, never a value.

        Args:
            names: With which a column is shown that has another name in records.
        """
        field, formerly = names.shown(self.field), names.shown(self.formerly or "")
        types = f" ({self.before or 'unknown'} -> {self.after or 'unknown'})"
        match self.kind:
            case "addition":
                return f"new field {field}" + (f" ({self.after})" if self.after else "")
            case "removal":
                return f"{field} is missing"
            case "rename_suspect":
                return f"{formerly} is missing and {field} is new: renamed?"
            case "case_clash":
                return f"{field} differs from {formerly} only in case"
            case "type_change":
                return f"{field} has another type{types if self.after else f': no value is {self.before}'}"
            case _:
                return f"{field} is {self.kind.replace('ing', 'ed')}{types}"

    def identity(self) -> str:
        """A key of the change: equal changes have equal keys."""
        return json.dumps([self.kind, self.field, self.formerly, self.before, self.after], separators=(",", ":"))

    @classmethod
    def from_identity(cls, identity: str) -> Self:
        """The reverse of `identity`."""
        kind, name, formerly, before, after = json.loads(identity)
        return cls(kind=kind, field=name, formerly=formerly, before=before, after=after)


def compare(old: Sequence[Column], new: Sequence[Column]) -> tuple[SchemaChange, ...]:
    """The changes from ``old`` to ``new``, in the order of the fields of ``new``, then the removals.

    Args:
        old: For example the declared fields, no two of which differ only in case.
        new: For example the fields of a file. An empty type is unknown and matches any type.
    """
    old_by_name, new_by_name = {column.name: column for column in old}, {column.name: column for column in new}
    missing = [column for column in old if column.name not in new_by_name]
    added = [column for column in new if column.name not in old_by_name]
    clashes = {}
    by_lower = {column.name.lower(): column for column in old}
    for column in added:
        if (same_name := by_lower.get(column.name.lower())) is not None:
            clashes[column.name] = same_name
            missing = [other for other in missing if other.name != same_name.name]
    renamed = _renamed(missing, [column for column in added if column.name not in clashes])
    changes: list[SchemaChange] = []
    for column in new:
        if column.name in old_by_name:
            old_column = old_by_name[column.name]
            kind = relation(old_column, column)
            if kind is not None:
                changes.append(
                    SchemaChange(kind=kind, field=column.name, before=_type_text(old_column), after=_type_text(column))
                )
        elif (same_name := clashes.get(column.name)) is not None:
            changes.append(_paired("case_clash", same_name, column))
        elif (former := renamed.get(column.name)) is not None:
            changes.append(_paired("rename_suspect", former, column))
        else:
            changes.append(
                SchemaChange(
                    kind="narrowing" if column.required else "addition", field=column.name, after=_type_text(column)
                )
            )
    former_names = {former.name for former in renamed.values()}
    changes += [
        SchemaChange(kind="removal", field=column.name, before=_type_text(column))
        for column in missing
        if column.name not in former_names
    ]
    return tuple(changes)


def relation(old: Column, new: Column) -> Literal["widening", "narrowing", "type_change"] | None:
    """How the type and nullability change; None when they are the same or a type is unknown."""
    relations = {_type_relation(normal(old.type), normal(new.type))} if old.type and new.type else {"same"}
    if old.required != new.required:
        relations.add("narrowing" if new.required else "widening")
    return _combined(relations)


def normal(kind: str) -> str:
    """The normal form of a type: lower case but for names of nested fields, no blanks, aliases replaced by Spark's own names."""
    outer, inside = nested_type(kind)
    if outer == "struct":
        return f"struct<{','.join(f'{quoted(name)}:{normal(of)}' for name, of in nested_fields(inside))}>"
    if outer:
        return f"{outer}<{','.join(map(normal, split_top_level(inside)))}>"
    plain = re.sub(r"\s+", "", kind.lower())
    if decimal := re.fullmatch(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,(\d+))?\))?", plain):
        return f"decimal({decimal[1] or 10},{decimal[2] or 0})"
    return _ALIASES.get(plain, plain)


def fingerprint(flow: str, changes: Iterable[SchemaChange]) -> str:
    """The id of a set of schema changes of one flow: 12 hex digits, independent of the order of the changes."""
    text = json.dumps([flow, sorted({change.identity() for change in changes})])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _renamed(missing: Sequence[Column], added: Sequence[Column]) -> dict[str, Column]:
    """New name to former field, the most similar pairs first, each field in one pair."""
    candidates = [
        (_similarity(former.name, column.name), former.name, column.name)
        for former in missing
        for column in added
        if relation(former, column) != "type_change"
    ]
    by_name = {column.name: column for column in missing}
    pairs: dict[str, Column] = {}
    for ratio, former_name, name in sorted(candidates, reverse=True):
        if ratio >= SIMILAR and name not in pairs and by_name[former_name] not in pairs.values():
            pairs[name] = by_name[former_name]
    return pairs


def _similarity(one: str, other: str) -> float:
    first, second = sorted(re.sub(r"[\W_]+", "", name.lower()) for name in (one, other))
    return difflib.SequenceMatcher(None, first, second).ratio()


def _paired(kind: ChangeKind, former: Column, column: Column) -> SchemaChange:
    return SchemaChange(
        kind=kind, field=column.name, before=_type_text(former), after=_type_text(column), formerly=former.name
    )


def _type_text(column: Column) -> str | None:
    return f"{normal(column.type)}{_NOT_NULL if column.required else ''}" if column.type else None


def _type_relation(old: str, new: str) -> str:
    if old == new:
        return "same"
    outer_old, inside_old = nested_type(old)
    outer_new, inside_new = nested_type(new)
    if outer_old and outer_old == outer_new:
        if outer_old == "struct":
            return _struct_relation(nested_fields(inside_old), nested_fields(inside_new))
        parts_old, parts_new = split_top_level(inside_old), split_top_level(inside_new)
        if len(parts_old) == len(parts_new):
            pairs = zip(parts_old, parts_new, strict=True)
            return _combined({_type_relation(*pair) for pair in pairs}) or "same"
    if _holds(new, old):
        return "widening"
    return "narrowing" if _holds(old, new) else "type_change"


def _struct_relation(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> str:
    before, now = ([Column(*field) for field in fields] for fields in (old, new))
    classes = {"addition": "widening", "removal": "narrowing", "widening": "widening", "narrowing": "narrowing"}
    return _combined({classes.get(change.kind, "type_change") for change in compare(before, now)}) or "same"


def _combined(relations: set[str]) -> Literal["widening", "narrowing", "type_change"] | None:
    different = relations - {"same"}
    if not different:
        return None
    if different == {"widening"}:
        return "widening"
    return "narrowing" if different == {"narrowing"} else "type_change"


def _holds(wide: str, small: str) -> bool:
    """Whether every value of type ``small`` is a value of type ``wide``."""
    if (small, wide) in _WIDER:
        return True
    # Precision and scale.
    outer, inner = _decimal(wide), _decimal(small)
    if outer is not None:
        if small in _WHOLE:
            return outer[0] - outer[1] >= _WHOLE[small]
        return inner is not None and outer[0] - outer[1] >= inner[0] - inner[1] and outer[1] >= inner[1]
    length, other = _length(wide), _length(small)
    return other is not None and (wide == "string" or (length is not None and length >= other))


def _decimal(kind: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(match[1]), int(match[2])) if match else None


def _length(kind: str) -> int | None:
    match = re.fullmatch(r"(?:var)?char\((\d+)\)", kind)
    return int(match[1]) if match else None
