"""What is known of expressions, and what their being true says of the columns."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from tidegate.spark.derivation.plan_tree import Node, column_id
from tidegate.spark.derivation.relation import ALWAYS, Relation, Value, of_class
from tidegate.spark.derivation.scopes import Scopes

_PICKS = frozenset(("AnyValue", "First", "Lag", "Last", "Lead", "Max", "MaxBy", "Min", "MinBy", "Mode", "NthValue"))
"""Functions whose result is the value of a row among several."""
_OPAQUE = frozenset(
    (
        "ArrayMax",
        "ArrayMin",
        "CollectList",
        "CollectSet",
        "ElementAt",
        "GetArrayItem",
        "GetArrayStructFields",
        "GetMapValue",
        "GetStructField",
        "PythonUDAF",
        "PythonUDF",
        "ScalaUDF",
    )
)
"""Expressions whose value may be that of any column."""
_SUBQUERIES = frozenset(("Exists", "InSubquery", "LateralSubquery", "ListQuery", "ScalarSubquery"))
_WRAPPERS = frozenset(("Alias", "KnownNotNull", "KnownNullable"))
_INTEGERS = ("byte", "short", "integer", "long")


class Expressions:
    """Evaluates expressions of the columns of relations."""

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes

    def picked(
        self, rows: Relation, made: Relation, expression: Node, known: Collection[int], *, optional: bool = False
    ) -> Value:
        """The value of a result of rows that were put together, which may be that of one of them.

        Args:
            optional: Whether it may be NULL as well.
        """
        function = expression
        while function.name in ("Alias", "AggregateExpression") and function.children:
            optional |= function.name == "AggregateExpression" and len(function.children) > 1
            function = function.children[0]
        is_pick = function.name in _PICKS
        value = self.value(rows, function.children[0] if is_pick else function)
        branches = value.branches | ({(self._scopes.new_split(2), 0)} if is_pick and optional else ALWAYS)
        if value.of is None or rows.find(value.of) in known:
            return Value(of=value.of, branches=branches, opaque=value.opaque)
        if not is_pick:
            return Value()
        return Value(of=self._scopes.class_of_some_row(rows, made, rows.find(value.of), known), branches=branches)

    def value(self, rows: Relation, expression: Node) -> Value:
        """What is known of an expression of the columns of some rows."""
        if expression.name == "AttributeReference":
            return rows.values.get(column_id(expression), Value())
        if expression.name in _WRAPPERS or (expression.name == "Cast" and _is_lossless(expression)):
            return self.value(rows, expression.children[0])
        if expression.name == "Literal":
            if (literal := expression.fields.get("value")) is None:
                return Value()
            return Value(of=rows.constants.setdefault(str(literal), self._scopes.new()))
        if expression.name in _SUBQUERIES:
            self._scopes.doubt("has a subquery in an expression")
            rows.unknown = True
        values = [self.value(rows, child) for child in expression.children]
        if expression.name == "Coalesce" and None not in {each.of for each in values}:
            classes = {rows.find(of_class(each.of)) for each in values}
            if len(classes) == 1:
                is_present = self._scopes.is_always([each.branches for each in values], ALWAYS)
                return Value(
                    of=values[0].of, branches=ALWAYS if is_present else frozenset({(self._scopes.new_split(2), 0)})
                )
        return Value(opaque=expression.name in _OPAQUE or any(each.opaque for each in values))

    def apply(self, rows: Relation, conditions: Sequence[Node]) -> None:
        """Note what is true of rows for which conditions are."""
        self._note(rows, conditions)
        always = (each for each in rows.occurrences if not each.branches)
        for one, other in itertools.combinations(always, 2):
            # Equal in what is unique, they are the same row.
            unique = self._scopes.sources[one.source].unique if one.source == other.source else ()
            if unique and all(
                rows.cell(one.number, each) in {rows.cell(other.number, each)} - {None} for each in unique
            ):
                for number, column in list(rows.cells):
                    if number == one.number and (other.number, column) in rows.cells:
                        rows.same(rows.cells[one.number, column], rows.cells[other.number, column])

    def _note(self, rows: Relation, conditions: Sequence[Node]) -> None:
        for condition in conditions:
            if condition.name == "And":
                self._note(rows, condition.children)
            elif condition.name == "IsNotNull":
                self._is_present(rows, condition.children[0])
            elif condition.name == "EqualTo":
                self._are_equal(rows, *condition.children)
            elif condition.name == "EqualNullSafe":
                one, other = (self.value(rows, each) for each in condition.children)
                if not one.branches and not other.branches:
                    self._are_equal(rows, *condition.children)
            else:
                # For subqueries.
                self.value(rows, condition)

    def _are_equal(self, rows: Relation, *sides: Node) -> None:
        for each in sides:
            self._is_present(rows, each)
        one, other = (self.value(rows, each) for each in sides)
        if one.of is not None and other.of is not None:
            rows.same(one.of, other.of)
        for value, side, opposite in ((one, sides[0], other), (other, sides[1], one)):
            if opposite.of is None or value.of is not None:
                continue
            if value.opaque:
                rows.doubtful.add(opposite.of)
            elif side.name == "AttributeReference":
                rows.values[column_id(side)] = Value(of=opposite.of)

    def _is_present(self, rows: Relation, expression: Node) -> None:
        """Note that an expression is not NULL: its columns come from rows that are there."""
        rows.came_through(self.value(rows, expression).branches)


def _is_lossless(cast: Node) -> bool:
    """Whether different values stay different."""
    before, after = cast.children[0].fields.get("dataType"), cast.fields.get("dataType")
    if before in _INTEGERS and after in _INTEGERS:
        return _INTEGERS.index(str(before)) <= _INTEGERS.index(str(after))
    return before == after or (after == "string" and before in (*_INTEGERS, "boolean", "date"))
