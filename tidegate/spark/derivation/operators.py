"""One rule for each operator of Spark's plans: what its rows are made of, and which sources it follows too little.

What is sought: a change of a row of a source names, by the columns of its scope, what is computed again. So wherever rows are put
together (groups, windows, duplicates, the optional side of a join), they must have the same scope; and each row of another source
must equal, in the columns of its ``on``, a row of the first source beside it.

Longer than 300 lines: it is one rule for each operator, in one class that carries what the rules have found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tidegate.spark.derivation.expressions import Expressions
from tidegate.spark.derivation.plan_tree import Node, column_id
from tidegate.spark.derivation.relation import Cell, Occurrence, Relation, Source, Value, beside
from tidegate.spark.derivation.scopes import Scopes, UndeclaredError

_SAME_ROWS = frozenset(
    (
        "CollectMetrics",
        "CTERelationDef",
        "EventTimeWatermark",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sort",
        "SubqueryAlias",
        "UnresolvedHint",
        "View",
    )
)
"""Operators that keep rows and columns as they are."""
_CONSTANT = frozenset(("LocalRelation", "LogicalRDD", "OneRowRelation", "Range"))
"""Rows that belong to the code."""
_READS = frozenset(("DataSourceV2Relation", "HiveTableRelation", "LogicalRelation"))
"""Tables and files."""
_LIMITS = frozenset(("GlobalLimit", "LocalLimit", "Offset", "Tail"))


class Analysis:
    """The analysis of one plan."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._scopes = Scopes(sources)
        self._expressions = Expressions(self._scopes)
        self._shared: dict[int, Node] = {}
        self._rules: dict[str, Callable[[Node], Relation]] = {
            "Aggregate": self._aggregate,
            "CTERelationRef": self._reference,
            "Deduplicate": self._deduplicate,
            "Distinct": self._distinct,
            "Except": self._except,
            "Expand": self._expand,
            "Filter": self._filter,
            "FlatMapGroupsInArrow": self._function_of_groups,
            "FlatMapGroupsInPandas": self._function_of_groups,
            "Generate": self._generate,
            "Intersect": self._except,
            "Join": self._join,
            "Project": self._project,
            "Union": self._union,
            "Window": self._window,
            "WithCTE": self._with_shared,
        }

    @property
    def doubts(self) -> tuple[str, ...]:
        """What could not be followed, each to follow the name of the transform."""
        return tuple(self._scopes.doubts)

    def check(self, plan: Node, keys: Collection[str]) -> None:
        """Check a whole plan.

        Args:
            keys: The columns of the output that are the scope of the first source.

        Raises:
            UndeclaredError: Its rows depend on more than the declaration names.
        """
        made = self.relation(plan)
        if made.unknown or not set(keys) <= set(made.columns.values()):
            return
        first = [each for each in made.occurrences if each.source == 0]
        if not first:
            self._scopes.doubt(f"returns rows that its plan does not derive from {self._scopes.sources[0].table}")
            return
        for each in made.occurrences:
            if each.source and not self._scopes.is_covered(made, each):
                self._scopes.refuse(made, each, self._scopes.sources[each.source].scope, "", ())
        returned = {key: made.strong(column for column, name in made.columns.items() if name == key) for key in keys}
        for key, classes in returned.items():
            if not any(made.cell(each.number, key) in classes for each in first):
                if made.unknown or any(
                    made.values.get(column, Value()).opaque for column, name in made.columns.items() if name == key
                ):
                    self._scopes.doubt(f"takes the {key} of its rows from a function, an array or a struct")
                    return
                raise UndeclaredError(
                    0, [key], f"returns another {key} than the rows of {self._scopes.sources[0].table} have"
                )
        for each in first:
            if missing := [key for key, classes in returned.items() if made.cell(each.number, key) not in classes]:
                self._scopes.refuse(made, each, missing, "", ())

    def relation(self, node: Node) -> Relation:
        """What is known of the rows of an operator."""
        if (source := node.source) is not None:
            return self._rows_of(source, node.children[0])
        if node.name in _SAME_ROWS:
            return self.relation(node.children[0])
        if node.name in _CONSTANT:
            return Relation(columns=_outputs(node.expressions("output")))
        if node.name in _LIMITS:
            made = self.relation(node.children[0])
            self._scopes.put_together(made, set(), "limits the number of", ())
            return made
        if (rule := self._rules.get(node.name)) is not None:
            return rule(node)
        made = beside(*map(self.relation, node.children))
        what = "reads a table or files that are no source of the flow" if node.name in _READS else f"uses {node.name}"
        return self._not_understood(made, what, node.expressions("output"))

    def _rows_of(self, source: int, project: Node) -> Relation:
        made = Relation(columns=_outputs(project.expressions("projectList")))
        occurrence = Occurrence(number=self._scopes.new(), source=source)
        made.occurrences = (occurrence,)
        for column, name in made.columns.items():
            made.cells[occurrence.number, name] = of = self._scopes.new()
            made.values[column] = Value(of=of)
        return made

    def _project(self, node: Node) -> Relation:
        return self._projected(self.relation(node.children[0]), node.expressions("projectList"))

    def _projected(self, rows: Relation, expressions: Sequence[Node]) -> Relation:
        made = rows.copy()
        made.columns = _outputs(expressions)
        made.values = {column_id(each): self._expressions.value(made, each) for each in expressions}
        return made

    def _filter(self, node: Node) -> Relation:
        made = self.relation(node.children[0]).copy()
        self._expressions.apply(made, node.expressions("condition"))
        return made

    def _generate(self, node: Node) -> Relation:
        made = self.relation(node.children[0]).copy()
        self._add(made, node.expressions("generatorOutput"), Value(opaque=True))
        return made

    def _expand(self, node: Node) -> Relation:
        made = self.relation(node.children[0]).copy()
        rows = [
            [self._expressions.value(made, each) for each in projection] for projection in node.fields["projections"]
        ]
        columns = node.expressions("output")
        made.columns, made.values = _outputs(columns), {}
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            equal = {None if each.of is None or each.branches else made.find(each.of) for each in values}
            made.values[column_id(column)] = values[0] if len(equal) == 1 else Value()
        return made

    def _aggregate(self, node: Node) -> Relation:
        rows = self.relation(node.children[0]).copy()
        grouping, results = node.expressions("groupingExpressions"), node.expressions("aggregateExpressions")
        known = self._grouped(rows, grouping, "groups")
        made = self._scopes.kept(rows, known)
        made.columns, made.values = _outputs(results), {}
        for each in results:
            made.values[column_id(each)] = self._expressions.picked(rows, made, each, known)
        return made

    def _window(self, node: Node) -> Relation:
        rows = self.relation(node.children[0]).copy()
        known = self._grouped(rows, node.expressions("partitionSpec"), "ranks or sums in windows")
        made = rows.copy()
        for each in node.expressions("windowExpressions"):
            function = each.children[0].children[0] if each.children[0].name == "WindowExpression" else each
            made.columns[column_id(each)] = str(each.fields.get("name"))
            made.values[column_id(each)] = self._expressions.picked(rows, made, function, known, optional=True)
        return made

    def _deduplicate(self, node: Node) -> Relation:
        made = self.relation(node.children[0])
        self._grouped(made, node.expressions("keys"), "removes duplicates of")
        return made

    def _distinct(self, node: Node) -> Relation:
        return self._without_duplicates(self.relation(node.children[0]))

    def _without_duplicates(self, rows: Relation) -> Relation:
        names = tuple(rows.columns.values())
        made = self._scopes.kept(
            rows, self._scopes.put_together(rows, rows.strong(rows.columns), "removes duplicates of", names)
        )
        made.columns, made.values = dict(rows.columns), dict(rows.values)
        return made

    def _function_of_groups(self, node: Node) -> Relation:
        made = self.relation(node.children[0]).copy()
        self._grouped(made, node.expressions("groupingAttributes"), "groups")
        return self._not_understood(made, "groups by a function of Python", node.expressions("output"))

    def _with_shared(self, node: Node) -> Relation:
        *shared, plan = node.children
        self._shared |= {each.fields["id"]: each for each in shared}
        return self.relation(plan)

    def _reference(self, node: Node) -> Relation:
        rows = self.relation(self._shared[node.fields["cteId"]])
        columns = _outputs(node.expressions("output"))
        rows.values = {new: rows.values.get(old, Value()) for new, old in zip(columns, rows.columns, strict=True)}
        rows.columns = columns
        return rows

    def _union(self, node: Node) -> Relation:
        parts, split = [self.relation(child) for child in node.children], self._scopes.new_split(len(node.children))
        made = beside(*parts)
        made.constants = {}
        made.columns, made.values = dict(parts[0].columns), {}
        branches = [part.in_branch((split, number)) for number, part in enumerate(parts)]
        made.occurrences = tuple(each for part in branches for each in part.occurrences)
        classes: dict[tuple[int | None, ...], int] = {}
        cells: dict[Cell, int] = {}
        for column, columns in zip(made.columns, zip(*(part.columns for part in parts), strict=True), strict=True):
            of_parts = [part.values.get(each, Value()) for part, each in zip(parts, columns, strict=True)]
            known = tuple(
                None if each.of is None or each.branches else part.find(each.of)
                for part, each in zip(parts, of_parts, strict=True)
            )
            new = self._scopes.new()
            new = new if None in known else classes.setdefault(known, new)
            made.values[column] = Value(of=new)
            if any(each.opaque for each in of_parts):
                made.doubtful.add(new)
            for part, of in zip(parts, known, strict=True):
                if of is not None:
                    cells |= {cell: new for cell in part.cells if part.cell(*cell) == of and cell not in cells}
        made.cells = {**made.cells, **cells}
        return made

    def _except(self, node: Node) -> Relation:
        left, right = map(self.relation, node.children)
        pairs = zip(left.columns, right.columns, strict=True)
        equal = [(left.values.get(ours, Value()), right.values.get(theirs, Value())) for ours, theirs in pairs]
        both = beside(left, right)
        for ours, theirs in equal:
            if ours.of is not None and theirs.of is not None and not ours.branches and not theirs.branches:
                both.same(theirs.of, ours.of)
        made = self._existing(left, right, both) if node.name == "Intersect" else self._optional(left, right, both)[0]
        return made if node.fields["isAll"] else self._without_duplicates(made)

    def _join(self, node: Node) -> Relation:
        left, right = map(self.relation, node.children)
        kind = str(node.fields["joinType"].get("object", "")).rsplit(".", 1)[-1].rstrip("$")
        both = beside(left, right)
        self._expressions.apply(both, node.expressions("condition"))
        if kind in ("Inner", "Cross"):
            return both
        if kind == "LeftSemi":
            return self._existing(left, right, both)
        if kind == "LeftAnti":
            return self._optional(left, right, both)[0]
        if kind == "LeftOuter":
            return beside(*self._optional(left, right, both))
        if kind == "RightOuter":
            made = beside(*self._optional(right, left, both))
            made.columns = {**left.columns, **right.columns}
            return made
        if kind != "FullOuter":
            return self._not_understood(both, f"uses a join of kind {kind}", ())
        checked = (self._optional(left, right, both)[0], self._optional(right, left, both)[0])
        split = self._scopes.new_split(2)
        made = beside(left.in_branch((split, 0)), right.in_branch((split, 1)))
        made.unknown |= any(each.unknown for each in checked)
        _link(made, left, right, both)
        return made

    def _existing(self, rows: Relation, others: Relation, both: Relation) -> Relation:
        """The rows to which others belong."""
        self._check_optional(rows, others, both)
        both.columns = dict(rows.columns)
        return both

    def _check_optional(self, rows: Relation, others: Relation, both: Relation) -> None:
        """Check that rows determine whatever others are made of, because they depend on whether there are any."""
        of_columns = (each.of for each in rows.values.values() if each.of is not None)
        given = {both.find(of) for of in (*of_columns, *rows.cells.values(), *rows.constants.values())}
        self._scopes.put_together(both, given, "", (), only={each.number for each in others.occurrences})

    def _optional(self, rows: Relation, others: Relation, both: Relation) -> tuple[Relation, Relation]:
        """The rows, and others where some belong to a row.

        Args:
            both: Rows and others that belong together.
        """
        self._check_optional(rows, others, both)
        made, optional = rows.copy(), others.in_branch((self._scopes.new_split(2), 0))
        made.unknown |= both.unknown
        made.merged |= others.merged
        made.cells |= others.cells
        made.constants = {**others.constants, **rows.constants}
        made.occurrences += optional.occurrences
        _link(made, rows, others, both)
        optional.occurrences, optional.cells, optional.constants, optional.merged = (), {}, {}, dict(made.merged)
        return made, optional

    def _grouped(self, rows: Relation, grouping: Sequence[Node], what: str) -> set[int]:
        values = [self._expressions.value(rows, each) for each in grouping]
        given = {rows.find(each.of) for each in values if each.of is not None and not each.branches}
        names = tuple(each.fields.get("name") or each.name for each in grouping)
        return self._scopes.put_together(rows, given, what, names, doubtful=any(each.opaque for each in values))

    def _not_understood(self, rows: Relation, what: str, columns: Sequence[Node]) -> Relation:
        self._scopes.doubt(what)
        rows.unknown = True
        if columns:
            rows.columns, rows.values = {}, {}
            self._add(rows, columns, Value(opaque=True))
        return rows

    def _add(self, rows: Relation, columns: Sequence[Node], value: Value) -> None:
        rows.columns |= _outputs(columns)
        rows.values |= {column_id(column): value for column in columns}


def _link(made: Relation, rows: Relation, others: Relation, both: Relation) -> None:
    """Note of others which are in some rows only that, where they are, their classes are those of the rows."""
    made.doubtful |= both.doubtful
    classes = [*rows.cells.values(), *rows.constants.values(), *(each.of for each in rows.values.values())]
    linked = {both.find(of): of for of in classes if of is not None}
    for of in (*others.cells.values(), *(each.of for each in others.values.values())):
        if of is not None and both.find(of) in linked:
            made.same(of, linked[both.find(of)])


def _outputs(expressions: Sequence[Node]) -> dict[int, str]:
    return {column_id(each): str(each.fields.get("name")) for each in expressions}
