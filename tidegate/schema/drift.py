"""How two lists of fields differ, classed before a row is written. Needs no JVM.

Used twice: for the schema that a person declares now against the one that a checkpoint version was made with, and for
the fields that a batch brings against the declared ones.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from tidegate.schema.ddl import Column, split_top_level

ChangeKind = Literal["addition", "widening", "narrowing", "removal", "rename_suspect", "case_clash", "type_change"]

SIMILAR = 0.6
"""From this ratio of ``difflib`` on, a field that came and one that went look like one that was renamed."""

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
"""Decimal digits that a whole number of the type can have."""
_WIDER: frozenset[tuple[str, str]] = frozenset(
    [
        *((small, large) for small in _WHOLE for large in _WHOLE if _WHOLE[small] < _WHOLE[large]),
        *((whole, "double") for whole in ("tinyint", "smallint", "int")),
        *((whole, "float") for whole in ("tinyint", "smallint")),
        ("float", "double"),
        ("date", "timestamp_ntz"),
    ]
)
"""What holds every value of the other exactly; the list is that of Delta's type widening, which leaves BIGINT to
DOUBLE out."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One difference between two lists of fields."""

    kind: ChangeKind
    """``addition``: a nullable field more. ``widening``: every old value fits the new type, or NULL is allowed now.
    ``narrowing``: the reverse, or a field more that must not be NULL. ``removal``: a field less. ``rename_suspect``: one
    went, and one with a similar name and a fitting type came. ``case_clash``: the name is there in another case, and
    Delta cannot tell the two apart. ``type_change``: neither type holds the other's values."""
    field: str
    """The name as it is now; of a removal, as it was."""
    before: str | None = None
    """The type as it was, ``not null`` with it; None for an addition or where nobody knows."""
    after: str | None = None
    """The type as it is now; None for a removal or where nobody knows (text formats have no types)."""
    formerly: str | None = None
    """Of a rename suspect and a case clash: the name that it had, or clashes with."""

    @property
    def keeps_checkpoint(self) -> bool:
        """Whether a checkpoint version can go on with it: rows that are there need not be derived anew."""
        nullable_now = self.kind == "widening" and self.before == f"{self.after}{_NOT_NULL}"
        return self.kind == "addition" or nullable_now

    def told(self) -> str:
        """One phrase for people: names and types, never a value."""
        types = f" ({self.before or 'unknown'} -> {self.after or 'unknown'})"
        match self.kind:
            case "addition":
                return f"new field {self.field}" + (f" ({self.after})" if self.after else "")
            case "removal":
                return f"{self.field} is gone"
            case "rename_suspect":
                return f"{self.formerly} is gone and {self.field} is new: renamed?"
            case "case_clash":
                return f"{self.field} differs from {self.formerly} in case alone"
            case "type_change":
                return f"{self.field} has another type{types if self.after else f': no value is {self.before}'}"
            case _:
                return f"{self.field} is {self.kind.replace('ing', 'ed')}{types}"

    def identity(self) -> str:
        """The same text for the same change, whenever and however often it is seen."""
        return json.dumps([self.kind, self.field, self.formerly, self.before, self.after], separators=(",", ":"))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "kind": self.kind,
            "field": self.field,
            "before": self.before,
            "after": self.after,
            "formerly": self.formerly,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """The reverse of `to_json`."""
        return cls(**{name: plain[name] for name in ("kind", "field", "before", "after", "formerly")})

    @classmethod
    def from_identity(cls, identity: str) -> Self:
        """The reverse of `identity`."""
        kind, name, formerly, before, after = json.loads(identity)
        return cls(kind=kind, field=name, formerly=formerly, before=before, after=after)


def compare(old: Sequence[Column], new: Sequence[Column]) -> tuple[Change, ...]:
    """What is different in ``new``, in the order of the fields: those of ``new``, then what is gone.

    Args:
        old: For example the declared fields. Names differ whatever their case.
        new: For example the fields of a file. An empty type is one that nobody knows, and fits any.
    """
    held, came = {column.name: column for column in old}, {column.name: column for column in new}
    gone = [column for column in old if column.name not in came]
    fresh = [column for column in new if column.name not in held]
    clashes = {}
    by_lower = {column.name.lower(): column for column in old}
    for column in fresh:
        if (twin := by_lower.get(column.name.lower())) is not None:
            clashes[column.name] = twin
            gone = [other for other in gone if other.name != twin.name]
    renamed = _renamed(gone, [column for column in fresh if column.name not in clashes])
    changes: list[Change] = []
    for column in new:
        if column.name in held:
            kind = relation(held[column.name], column)
            if kind is not None:
                changes.append(
                    Change(kind=kind, field=column.name, before=_told(held[column.name]), after=_told(column))
                )
        elif (twin := clashes.get(column.name)) is not None:
            changes.append(_paired("case_clash", twin, column))
        elif (former := renamed.get(column.name)) is not None:
            changes.append(_paired("rename_suspect", former, column))
        else:
            changes.append(
                Change(kind="narrowing" if column.required else "addition", field=column.name, after=_told(column))
            )
    taken = {former.name for former in renamed.values()}
    changes += [
        Change(kind="removal", field=column.name, before=_told(column)) for column in gone if column.name not in taken
    ]
    return tuple(changes)


def relation(old: Column, new: Column) -> Literal["widening", "narrowing", "type_change"] | None:
    """How the new type stands to the old one; None when they are the same or one is unknown."""
    found = {_type_relation(normal(old.type), normal(new.type))} if old.type and new.type else {"same"}
    if old.required != new.required:
        found.add("narrowing" if new.required else "widening")
    return _together(found)


def normal(kind: str) -> str:
    """A type in one spelling: lower case, no blanks, Spark's own names for aliases."""
    plain = re.sub(r"\s+", "", kind.lower())
    if nested := re.fullmatch(r"(array|map|struct)<(.*)>", plain):
        outer, inside = nested[1], split_top_level(nested[2])
        if outer == "struct":
            pairs = (part.partition(":") for part in inside)
            return f"struct<{','.join(f'{name}:{normal(of)}' for name, _, of in pairs)}>"
        return f"{outer}<{','.join(normal(part) for part in inside)}>"
    if decimal := re.fullmatch(r"(?:decimal|dec|numeric)(?:\((\d+)(?:,(\d+))?\))?", plain):
        return f"decimal({decimal[1] or 10},{decimal[2] or 0})"
    return _ALIASES.get(plain, plain)


def fingerprint(flow: str, changes: Iterable[Change]) -> str:
    """The name of one drift of one flow: 12 hex digits, the same for the same changes in whatever order."""
    said = json.dumps([flow, sorted({change.identity() for change in changes})])
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def _renamed(gone: Sequence[Column], fresh: Sequence[Column]) -> dict[str, Column]:
    """New name to former field, the most similar pairs first, each field in one pair."""
    pairs = [
        (_similarity(former.name, column.name), former.name, column.name)
        for former in gone
        for column in fresh
        if relation(former, column) != "type_change"
    ]
    by_name = {column.name: column for column in gone}
    found: dict[str, Column] = {}
    for ratio, former_name, name in sorted(pairs, reverse=True):
        if ratio >= SIMILAR and name not in found and by_name[former_name] not in found.values():
            found[name] = by_name[former_name]
    return found


def _similarity(one: str, other: str) -> float:
    first, second = sorted(re.sub(r"[\W_]+", "", name.lower()) for name in (one, other))
    return difflib.SequenceMatcher(None, first, second).ratio()


def _paired(kind: ChangeKind, former: Column, column: Column) -> Change:
    return Change(kind=kind, field=column.name, before=_told(former), after=_told(column), formerly=former.name)


def _told(column: Column) -> str | None:
    return f"{normal(column.type)}{_NOT_NULL if column.required else ''}" if column.type else None


def _type_relation(old: str, new: str) -> str:
    if old == new:
        return "same"
    outer_old, inside_old = _nested(old)
    outer_new, inside_new = _nested(new)
    if outer_old and outer_old == outer_new:
        if outer_old == "struct":
            return _struct_relation(inside_old, inside_new)
        if len(inside_old) == len(inside_new):
            pairs = zip(inside_old, inside_new, strict=True)
            return _together({_type_relation(*pair) for pair in pairs}) or "same"
    if _holds(new, old):
        return "widening"
    return "narrowing" if _holds(old, new) else "type_change"


def _struct_relation(old: list[str], new: list[str]) -> str:
    before, now = ([Column(*part.partition(":")[::2]) for part in parts] for parts in (old, new))
    classes = {"addition": "widening", "removal": "narrowing", "widening": "widening", "narrowing": "narrowing"}
    return _together({classes.get(change.kind, "type_change") for change in compare(before, now)}) or "same"


def _together(found: set[str]) -> Literal["widening", "narrowing", "type_change"] | None:
    found = found - {"same"}
    if not found:
        return None
    if found == {"widening"}:
        return "widening"
    return "narrowing" if found == {"narrowing"} else "type_change"


def _nested(kind: str) -> tuple[str, list[str]]:
    match = re.fullmatch(r"(array|map|struct)<(.*)>", kind)
    return (match[1], split_top_level(match[2])) if match else ("", [])


def _holds(wide: str, small: str) -> bool:
    """Whether every value of one type is a value of the other."""
    if (small, wide) in _WIDER:
        return True
    room, need = _decimal(wide), _decimal(small)
    if room is not None:
        if small in _WHOLE:
            return room[0] - room[1] >= _WHOLE[small]
        return need is not None and room[0] - room[1] >= need[0] - need[1] and room[1] >= need[1]
    length, other = _length(wide), _length(small)
    return other is not None and (wide == "string" or (length is not None and length >= other))


def _decimal(kind: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(match[1]), int(match[2])) if match else None


def _length(kind: str) -> int | None:
    match = re.fullmatch(r"(?:var)?char\((\d+)\)", kind)
    return int(match[1]) if match else None
