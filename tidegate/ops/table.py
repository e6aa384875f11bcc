"""Tidegate's own tables, each declared by the dataclass of its lines: the fields are the columns, and no column is named elsewhere.

A field that is a dataclass has its columns in the table; a tuple of dataclasses is a text of JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tidegate import json_codec
from tidegate.ops import store

if TYPE_CHECKING:
    from tidegate.lake.place import PipelinePlace
    from tidegate.store import Address

T = TypeVar("T")

Small = Annotated[int, "INTEGER"]
"""An integer of 32 bits."""
_TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", datetime: "TIMESTAMPTZ"}
_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_MAP, _TEXTS, _JSON = "MAP(VARCHAR, BIGINT)", "VARCHAR[]", "JSON"


@dataclass(frozen=True)
class OwnTable(Generic[T]):
    """One table of each pipeline."""

    name: str
    """Of its folder (`PipelinePlace.ops`)."""
    line: type[T]

    @property
    def columns(self) -> Mapping[str, str]:
        """The names of the columns, with their types in SQL."""
        return columns_of(self.line)  # type: ignore[arg-type]  # a class is hashable, which mypy does not know of type[T]

    def address(self, place: PipelinePlace) -> Address:
        """The table of a pipeline."""
        return place.ops(self.name)

    def append(self, place: PipelinePlace, lines: Iterable[T], transaction: tuple[str, int] | None = None) -> None:
        """Append lines in one commit, with a transaction id and version as `store.append`; without lines there is no commit."""
        if rows := [row_of(line) for line in lines]:
            store.append(self.address(place), self.columns, rows, transaction)

    def read(self, place: PipelinePlace, where: str = "true", last: int | None = None) -> list[T]:
        """The lines that match a condition, in the order in which they were recorded; none without a table.

        Args:
            where: SQL of DataFusion. Literals must never come from user input.
            last: Only so many, the newest.
        """
        path = self.address(place)
        newest = "" if last is None else f"ORDER BY {store.newest_first(store.ordering(path))} LIMIT {last}"
        # All columns: a table that no newer release has written to lacks some.
        rows = store.select(path, f"SELECT * FROM delta_table WHERE {where} {newest}")
        # Not in SQL: this sort is stable, so the lines of one commit keep the order in which they were written.
        return [line_of(self.line, row) for row in sorted(rows, key=_recorded)]


def _recorded(row: Mapping[str, Any]) -> tuple[int, datetime]:
    """What orders lines, as `store.oldest_first`."""
    sequence = row.get(store.SEQUENCE)
    return (-1, row["recorded_at"]) if sequence is None else (sequence, _ANY_TIME)


@cache
def columns_of(line: type) -> Mapping[str, str]:
    """The columns of a dataclass, with their types in DuckDB."""
    columns: dict[str, str] = {}
    for name, kind in _kinds(line).items():
        columns |= columns_of(kind) if isinstance(kind, type) else {name: "VARCHAR" if kind == _JSON else kind}
    return columns


def row_of(line: Any) -> dict[str, Any]:
    """The values of a line by column."""
    row: dict[str, Any] = {}
    for name, kind in _kinds(type(line)).items():  # type: ignore[arg-type]  # as above
        value = getattr(line, name)
        match kind:
            case type():
                row |= row_of(value)
            case "JSON":
                row[name] = json_codec.encode(value)
            case _:
                row[name] = dict(value) if kind == _MAP else value
    return row


def line_of(line: type[T], row: Mapping[str, Any]) -> T:
    """The reverse of `row_of`; a column that a row lacks, or that is NULL in lines of earlier releases, has its default."""
    return json_codec.from_plain(_values(line, row), line)


def _values(line: type, row: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    kinds = _kinds(line)
    for each in dataclasses.fields(line):
        kind, value = kinds[each.name], row.get(each.name)
        if isinstance(kind, type):
            values[each.name] = _values(kind, row)
        elif value is not None:
            # Arrow returns a map as a list of pairs.
            values[each.name] = dict(value) if kind == _MAP else json.loads(value) if kind == _JSON else value
        elif each.default_factory is MISSING:
            values[each.name] = None if each.default is MISSING else each.default
    return values


@cache
def _kinds(line: type) -> Mapping[str, Any]:
    """The fields of a dataclass with the types of their columns; of a field that is a dataclass, that."""
    hints = get_type_hints(line, include_extras=True)
    return {each.name: _kind(hints[each.name]) for each in dataclasses.fields(line)}


def _kind(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (kind,) = {_kind(each) for each in arguments if each is not NoneType}
        return kind
    if origin is Annotated:
        return arguments[1]
    if origin is Literal:
        return "VARCHAR"
    if origin is tuple:
        return _TEXTS if arguments[0] is str else _JSON
    if origin is not None and issubclass(origin, Mapping):
        return _MAP
    return hint if dataclasses.is_dataclass(hint) else _TYPES[hint]
