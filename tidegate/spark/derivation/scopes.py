"""The two rules: rows that are put together have one scope, and a row of another source has one of the first source beside it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from tidegate.spark.derivation.relation import Branches, Occurrence, Relation, Source, of_class


class UndeclaredError(Exception):
    """A row depends on rows of a source that the declaration does not name.

    Args:
        source: The number of the source.
        missing: Its columns by which the rows are not limited.
        text: What the transform does, to follow its name.
    """

    def __init__(self, source: int, missing: Sequence[str], text: str) -> None:
        super().__init__(text)
        self.source = source
        self.missing = tuple(missing)
        self.text = text


class Scopes:
    """Checks the rows of operators. `doubts` has what could not be followed, each once, to follow the name of the transform."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.doubts: list[str] = []
        self.sources = sources
        self._numbers = itertools.count()
        self._parts: dict[int, int] = {}

    def new(self) -> int:
        """The number of a new class or occurrence."""
        return next(self._numbers)

    def new_split(self, parts: int) -> int:
        """The number of a new split, of so many parts."""
        split = next(self._numbers)
        self._parts[split] = parts
        return split

    def put_together(
        self,
        rows: Relation,
        given: Collection[int],
        what: str,
        by: Sequence[str],
        *,
        only: Collection[int] | None = None,
        doubtful: bool = False,
    ) -> set[int]:
        """Check that rows which have the same values of some classes are made of rows of the same scope.

        Args:
            what: What is done with them, to be followed by a table; empty for a join.
            by: The names of the columns.
            only: The numbers of occurrences to check; by default all.
            doubtful: Whether opaque values belong to what is given.

        Returns:
            The classes that are the same in all these rows.
        """
        known = {*given, *(rows.find(of) for of in rows.constants.values())}
        for each in rows.occurrences:
            unique = self.sources[each.source].unique
            if unique and all(rows.cell(each.number, column) in known for column in unique):
                known |= {rows.find(of) for (number, _), of in rows.cells.items() if number == each.number}
        if rows.unknown:
            return known
        for each in rows.occurrences:
            if (only is not None and each.number not in only) or (each.source and self.is_covered(rows, each)):
                continue
            scope = self.sources[each.source].scope
            missing = [column for column in scope if rows.cell(each.number, column) not in known]
            if missing and doubtful:
                self.doubt("groups by what a function, an array or a struct gives")
                rows.unknown = True
                return known
            if missing:
                self.refuse(rows, each, missing, what, by)
        return known

    def is_covered(self, rows: Relation, other: Occurrence) -> bool:
        """Whether a row of another source equals, by ``on``, one of the first source wherever it is."""
        on = self.sources[other.source].on

        def equals(first: Occurrence) -> bool:
            pairs = [(rows.cell(first.number, ours), rows.cell(other.number, theirs)) for ours, theirs in on.items()]
            return all(ours is not None and ours == theirs for ours, theirs in pairs)

        firsts = [each.branches for each in rows.occurrences if not each.source and equals(each)]

        return self.is_always(firsts, other.branches)

    def is_always(self, parts: Sequence[Branches], given: Branches) -> bool:
        """Whether every row that came through the given branches came through those of one of the parts as well."""
        if any(each <= given for each in parts):
            return True
        splits = {split for each in parts for split, _ in each} - {split for split, _ in given}
        return any(
            all(self.is_always(parts, given | {(split, part)}) for part in range(self._parts[split]))
            for split in splits
        )

    def refuse(self, rows: Relation, each: Occurrence, missing: Sequence[str], what: str, by: Sequence[str]) -> None:
        """Raise, or only doubt where a missing column may equal an opaque value."""
        source = self.sources[each.source]
        if any(rows.is_doubtful(rows.cell(each.number, column)) for column in source.scope):
            self.doubt(f"compares {source.table} with what a function, an array or a struct gives")
            rows.unknown = True
            return
        joined, on = self._joined(rows, each), source.on.items()
        if each.source and (not what or any(not other.source for other in rows.occurrences)):
            missing = [theirs for ours, theirs in on if (ours, theirs) not in joined] or list(source.scope)
            text = (
                f"joins {source.table} by {', '.join(f'{ours} = {theirs}' for ours, theirs in joined) or 'no column'}"
            )
            raise UndeclaredError(each.source, missing, text)
        columns = ", ".join(missing)
        if what:
            by_columns = f" by {', '.join(by)}" if by else ""
            text = " ".join((what, f"rows of {source.table}{by_columns} without {columns}"))
        else:
            text = f"joins rows of {source.table} with others of it without {columns}"
        raise UndeclaredError(each.source, missing, text)

    def _joined(self, rows: Relation, other: Occurrence) -> list[tuple[str, str]]:
        """Which columns of the first source equal which of a row of another one, each pair once."""
        pairs = {
            (column, theirs)
            for (number, theirs), _ in rows.cells.items()
            if number == other.number
            for first in rows.occurrences
            if not first.source
            for (of, column), _ in rows.cells.items()
            if of == first.number and rows.cell(of, column) == rows.cell(number, theirs)
        }
        return sorted(pairs)

    def kept(self, rows: Relation, known: Collection[int]) -> Relation:
        """What stays known of rows that were put together: what is the same in all of them."""
        made = rows.copy()
        made.columns, made.values = {}, {}
        made.cells = {cell: of for cell, of in rows.cells.items() if rows.find(of) in known}
        covered = {each for each in rows.occurrences if each.source and self.is_covered(rows, each)}
        made.occurrences = tuple(each for each in rows.occurrences if each not in covered)
        return made

    def class_of_some_row(self, rows: Relation, made: Relation, of: int, known: Collection[int]) -> int | None:
        """The class of a value that some row of the same scope of the first source has: that row is one more occurrence."""
        for each in rows.occurrences:
            columns = [column for number, column in rows.cells if number == each.number]
            scope = {column: rows.cell(each.number, column) for column in self.sources[each.source].scope}
            equal = [column for column in columns if rows.cell(each.number, column) == of]
            if each.source or not equal or not all(cell in known for cell in scope.values()):
                continue
            picked, value = (
                Occurrence(number=next(self._numbers), source=0, branches=each.branches),
                next(self._numbers),
            )
            made.occurrences += (picked,)
            made.cells |= {(picked.number, column): of_class(cell) for column, cell in scope.items()}
            made.cells |= {(picked.number, column): value for column in equal}
            return value
        return None

    def doubt(self, doubt: str) -> None:
        """Note what could not be followed."""
        if doubt not in self.doubts:
            self.doubts.append(doubt)
