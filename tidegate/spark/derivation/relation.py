"""What is known of the rows of an operator: which rows of the sources each is made of, and which columns equal which.

A row is made of *occurrences*: rows of a source, or, after a group, all rows of one that share the values of some columns. A *class* is
a set of columns, of the operator and of occurrences, that have the same value in every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

Cell = tuple[int, str]
"""A column of an occurrence."""
Branches = frozenset[tuple[int, int]]
"""Parts of unions and outer joins through which a row may have come: each the number of a split and of a part of it."""
ALWAYS: Branches = frozenset()


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source of the flow."""

    table: str
    scope: tuple[str, ...]
    """The columns by whose values a changed row names what is computed again: of the first source the keys, of others those of ``on``."""
    unique: tuple[str, ...] = ()
    """The columns of which no two rows have the same values; empty if that is unknown."""
    on: Mapping[str, str] = field(default_factory=dict)
    """As declared; empty for the first source."""


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """Rows of a source that a row is made of."""

    number: int
    source: int
    branches: Branches = ALWAYS
    """Those through which a row must have come to have it."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """What is known of an expression."""

    of: int | None = None
    """The class of the columns that it equals."""
    branches: Branches = ALWAYS
    """Those through which a row must have come; in others it is NULL."""
    opaque: bool = False
    """It comes from code that the plan does not show, or out of an array or a struct: it may equal any column."""


@dataclass(kw_only=True)
class Relation:
    """The rows of an operator."""

    columns: dict[int, str] = field(default_factory=dict)
    """The names of its columns by Spark's ids, in order."""
    occurrences: tuple[Occurrence, ...] = ()
    values: dict[int, Value] = field(default_factory=dict)
    """By column."""
    cells: dict[Cell, int] = field(default_factory=dict)
    """The class of each column of an occurrence that is known."""
    constants: dict[str, int] = field(default_factory=dict)
    """The classes of literals."""
    merged: dict[int, int] = field(default_factory=dict)
    """A class that was found to be another one."""
    doubtful: set[int] = field(default_factory=set)
    """Classes that were compared with an opaque value."""
    unknown: bool = False
    """It has an operator below that is not understood, so that nothing is checked any more."""

    def find(self, of: int) -> int:
        """The class, by the number that it has now."""
        while of in self.merged:
            of = self.merged[of]
        return of

    def same(self, one: int, other: int) -> None:
        """Note that two classes are one."""
        one, other = self.find(one), self.find(other)
        if one != other:
            self.merged[one] = other

    def cell(self, number: int, column: str) -> int | None:
        """The class of a column of an occurrence; None if nothing equals it."""
        of = self.cells.get((number, column))
        return None if of is None else self.find(of)

    def strong(self, columns: Iterable[int]) -> set[int]:
        """The classes that columns equal."""
        values = (self.values.get(column, Value()) for column in columns)
        return {self.find(each.of) for each in values if each.of is not None and not each.branches}

    def is_doubtful(self, of: int | None) -> bool:
        """Whether an opaque value was compared with a class."""
        return of in {self.find(each) for each in self.doubtful}

    def in_branch(self, branch: tuple[int, int]) -> Relation:
        """Its columns and occurrences where it is a branch of an operator."""
        made = self.copy()
        made.occurrences = tuple(replace(each, branches=each.branches | {branch}) for each in made.occurrences)
        made.values = {column: replace(each, branches=each.branches | {branch}) for column, each in made.values.items()}
        return made

    def came_through(self, branches: Branches) -> None:
        """Note that all rows came through these branches."""
        self.occurrences = tuple(replace(each, branches=each.branches - branches) for each in self.occurrences)
        self.values = {column: replace(each, branches=each.branches - branches) for column, each in self.values.items()}

    def copy(self) -> Relation:
        """A relation that can be changed."""
        return beside(self)

    def names(self, of: int) -> list[str]:
        """The names of columns in a class."""
        return [name for column, name in self.columns.items() if of in self.strong([column])]


def beside(*relations: Relation) -> Relation:
    """The columns and occurrences of all of them."""
    made = Relation(unknown=any(each.unknown for each in relations))
    for each in relations:
        made.columns |= each.columns
        made.occurrences += each.occurrences
        made.values |= each.values
        made.cells |= each.cells
        made.merged |= each.merged
        made.doubtful |= each.doubtful
    for literal, of in [pair for each in relations for pair in each.constants.items()]:
        made.same(of, made.constants.setdefault(literal, of))
    return made


def of_class(of: int | None) -> int:
    """A class that is known."""
    assert of is not None
    return of
