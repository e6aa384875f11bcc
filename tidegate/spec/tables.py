"""Declarations of many tables of one shape: a list of them, and a function that makes the flows of one."""

from __future__ import annotations

import difflib
import inspect
import re
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tidegate.advice import Advice, Edit, Either
from tidegate.errors import FieldError, SpecError
from tidegate.errors.classification import raise_machine
from tidegate.json_codec import from_plain
from tidegate.spec.checks import NAME, fits
from tidegate.spec.flow import Flow
from tidegate.spec.table_list import TableEntry, read

_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_NUMBER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class Tables:
    """Many tables of one shape: a list, and the function that makes the flows of one of them.

    The parameters of the function are the columns of the list, with their types and defaults; ``name``, a text, is one of them. An entry
    that is not valid stops itself alone.
    """

    entries: str | Sequence[Mapping[str, object]]
    """A file in ``pipelines/``, or the entries themselves. In a TOML file each begins with a line ``[[table]]``. In a CSV file each is a
    line; a cell without a value takes the default, and several values in a cell are separated by blanks."""
    shape: Callable[..., Flow | tuple[Flow, ...]]
    """Types of its parameters are ``str``, ``int``, ``float``, ``bool``, ``Literal`` of texts, tuples and dicts of these, and None
    beside one of them."""


@dataclass(frozen=True, kw_only=True)
class InvalidTable:
    """An entry of a list that makes no flows."""

    name: str
    """Of the table; ``line_7`` if it has no valid one."""
    where: str
    """``pipelines/shop.csv line 7``."""
    problem: str
    """With the place, the column and what was given."""
    advice: Advice | None

    @property
    def error(self) -> SpecError:
        """What each command reports about it."""
        return SpecError(self.problem, self.advice)


def check_invalid(owner: str, value: object) -> None:
    """Refuse what is not a tuple of invalid tables."""
    if not isinstance(value, tuple) or not all(isinstance(each, InvalidTable) for each in value):
        raise FieldError(owner, "invalid_tables", value, "none: they are those of Tables(…) that made no flows")


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A parameter of the shape."""

    kind: Any
    allowed: str
    """What it may be, in words."""
    required: bool

    def read(self, value: object, *, of_text: bool) -> object:
        """A value as the parameter has it; raises ValueError for another type."""
        return from_plain(_typed(value, self.kind) if of_text and isinstance(value, str) else value, self.kind)


def make_flows(
    tables: Tables, own: Sequence[Flow], check: Callable[[tuple[Flow, ...]], None]
) -> tuple[tuple[Flow, ...], tuple[InvalidTable, ...]]:
    """The flows of the valid entries, in the order of the list, and the others.

    Args:
        tables: The list.
        own: The other flows of the pipeline.
        check: Raises `SpecError` if the pipeline cannot have the flows of an entry.

    Raises:
        SpecError: The list as a whole, or the shape, is not valid.
    """
    columns = _columns(tables.shape)
    by_name = defaultdict[str, list[TableEntry]](list)
    for entry in read(tables.entries):
        by_name[_name(entry)].append(entry)
    if not by_name and not own:
        where = f"pipelines/{tables.entries}" if isinstance(tables.entries, str) else "the list of Tables(…)"
        raise SpecError(f"{where} has no entry", Edit("give it one table or more", "declaration"))
    made: dict[str, tuple[Flow, ...]] = {}
    errors: dict[str, SpecError] = {}
    for name, same in by_name.items():
        try:
            made[name] = _flows_of_one(same, columns, tables.shape, check)
        except SpecError as error:
            errors[name] = error
    owners = Counter(each for flows in (own, *made.values()) for each in _names(flows))
    for name, flows in made.items():
        if shared := [each for each in _names(flows) if owners[each] > 1]:
            errors[name] = SpecError(
                f"{_label(by_name[name][0])}: another flow of the pipeline has the name or the target {shared[0]!r} too",
                Either(
                    Edit("give the table another name", "declaration"),
                    Edit("make names and targets from the name of the table in the shape", "declaration"),
                ),
            )
    invalid = [
        InvalidTable(name=name, where=by_name[name][0].where, problem=error.problem, advice=error.advice)
        for name, error in errors.items()
    ]
    return tuple(flow for name, flows in made.items() if name not in errors for flow in flows), tuple(invalid)


def _flows_of_one(
    same: Sequence[TableEntry],
    columns: Mapping[str, _Column],
    shape: Callable[..., Flow | tuple[Flow, ...]],
    check: Callable[[tuple[Flow, ...]], None],
) -> tuple[Flow, ...]:
    """The flows of a table; raises if it has several entries, or one that is not valid."""
    entry, *others = same
    if others:
        places = ", ".join(each.where.removeprefix("pipelines/") for each in others)
        raise SpecError(
            f"{_label(entry)}: the same name is in {places} too, and none of them runs",
            Edit("give each table its own name, or remove what is there twice", "declaration"),
        )
    values = _values(entry, columns)
    try:
        flows = shape(**values)
        flows = (flows,) if isinstance(flows, Flow) else flows
        if not isinstance(flows, tuple) or not flows or not all(isinstance(each, Flow) for each in flows):
            raise FieldError(f"shape {shape.__name__!r}", "its result", flows, "a Flow, or a tuple of one Flow or more")
        check(flows)
    except SpecError as error:
        raise SpecError(f"{_label(entry)}: {error.problem}", error.advice) from error
    except Exception as error:
        raise_machine(error, _label(entry))
        raise SpecError(
            f"{_label(entry)}: shape {shape.__name__!r} raises {type(error).__name__}: {error}{_line(error, shape)}",
            Either(Edit("correct the entry", "declaration"), Edit("correct the shape", "declaration")),
        ) from error
    return flows


def _values(entry: TableEntry, columns: Mapping[str, _Column]) -> dict[str, object]:
    """The arguments of the shape for an entry."""
    if entry.problem:
        raise SpecError(f"{_label(entry)}: {entry.problem}", Edit("correct the entry", "declaration"))
    for name, value in entry.values.items():
        if name not in columns:
            raise FieldError(_label(entry), name, value, _among(name, columns))
    if missing := [name for name, each in columns.items() if each.required and name not in entry.values]:
        raise SpecError(
            f"{_label(entry)}: {missing[0]} is missing",
            Edit(f"give it {columns[missing[0]].allowed}", "declaration", missing[0]),
        )
    values = {}
    for name, value in entry.values.items():
        try:
            values[name] = columns[name].read(value, of_text=entry.of_text)
        except ValueError:
            raise FieldError(_label(entry), name, value, columns[name].allowed) from None
    if not fits(NAME, values["name"]):
        allowed = "a lower-case letter, then letters, digits and '_', at most 63"
        raise FieldError(_label(entry), "name", values["name"], allowed)
    return values


def _columns(shape: Callable[..., object]) -> dict[str, _Column]:
    """The columns of a list, from the parameters of its shape."""
    owner = f"shape {getattr(shape, '__name__', shape)!r}"
    try:
        kinds = get_type_hints(shape)
        parameters = inspect.signature(shape).parameters
    except (NameError, TypeError, ValueError) as error:
        raise SpecError(
            f"{owner} cannot be read: {error}", Edit("declare a function with types", "declaration")
        ) from None
    columns = {}
    for name, parameter in parameters.items():
        kind = _without_none(kinds.get(name))
        words = _words(kind)
        if words is None or parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise FieldError(
                owner,
                name,
                kinds.get(name),
                "str, int, float, bool, Literal of texts, tuple[…, ...] or dict[str, …] of them",
            )
        columns[name] = _Column(kind=kind, allowed=words, required=parameter.default is parameter.empty)
    if "name" not in columns or columns["name"].kind is not str or not columns["name"].required:
        raise SpecError(
            f"{owner} has no parameter name: str", Edit("declare it; it tells the tables apart", "declaration")
        )
    return columns


def _without_none(kind: Any) -> Any:
    kinds = [each for each in get_args(kind) if each is not NoneType]
    return kinds[0] if get_origin(kind) in (Union, UnionType) and len(kinds) == 1 else kind


def _words(kind: Any) -> str | None:
    """What a value of a type is, in words; None for a type that no column has."""
    arguments = get_args(kind)
    if get_origin(kind) is Literal and all(isinstance(each, str) for each in arguments):
        return " or ".join(map(repr, arguments))
    if get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _phrase("several values, each {}", arguments[0])
    if get_origin(kind) in (dict, Mapping) and arguments[0] is str:
        return _phrase("names with values (not in CSV), each {}", arguments[1])
    return _WORDS.get(kind) if isinstance(kind, type) else None


def _phrase(words: str, part: Any) -> str | None:
    inner = _words(part)
    return None if inner is None else words.format(inner)


def _typed(text: str, kind: Any) -> object:
    """The text of a cell as a value of the column's type; if it is none, the text, which the column refuses."""
    if get_origin(kind) is tuple:
        return [_typed(part, get_args(kind)[0]) for part in text.split()]
    if kind is int and _NUMBER.fullmatch(text):
        return int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            return text
    return {"true": True, "false": False}.get(text.lower(), text) if kind is bool else text


def _name(entry: TableEntry) -> str:
    """The name of a table; of an entry without a valid one, its place."""
    name = entry.values.get("name")
    return (
        name
        if isinstance(name, str) and fits(NAME, name)
        else re.sub(r"\W+", "_", entry.where.partition("/")[2] or entry.where)
    )


def _label(entry: TableEntry) -> str:
    name = entry.values.get("name")
    return entry.where if name is None else f"{entry.where}, table {name!r}"


def _names(flows: Sequence[Flow]) -> Iterator[str]:
    """The names of flows and of their targets, which have a dot."""
    for flow in flows:
        yield flow.name
        yield flow.target.name


def _among(name: str, columns: Mapping[str, _Column]) -> str:
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"the parameters of the shape, {', '.join(columns)}{hint}"


def _line(error: Exception, shape: Callable[..., object]) -> str:
    file = inspect.unwrap(shape).__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" (line {lines[-1]} of {file.rpartition('/')[2]})" if lines else ""
