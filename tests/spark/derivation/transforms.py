"""Random transforms over three small tables: as plans of Spark, and evaluated in plain Python.

A transform is a tree of `Step`. Every step gives its columns names of their own, so that no name is ambiguous.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.spark.derivation.plan_tree import Node

Row = dict[str, Any]
Rows = list[Row]
COLUMNS = (("id", "a", "b", "c"), ("u", "v", "w"), ("p", "q"))
"""Of each source; ``id`` is unique."""
HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti")


@dataclass(frozen=True, kw_only=True)
class Step:
    """An operator with its inputs."""

    kind: str
    inputs: tuple[Step, ...] = ()
    columns: tuple[str, ...]
    """The names of its output."""
    given: Any = None
    """What the kind needs."""


class Transforms:
    """Makes random transforms."""

    def __init__(self, chance: random.Random, keys: Sequence[str], ons: Sequence[Mapping[str, str]]) -> None:
        self._chance, self._keys, self._ons = chance, keys, ons
        self._names = itertools.count()

    def transform(self) -> Step:
        """A transform that returns the keys and one more column, one row per key."""
        made = self._source(0)
        for _ in range(self._chance.randint(1, 4)):
            made = self._next(made)
        renamed = []
        for key in self._keys:
            own = [name for name in made.columns if name.startswith(f"{key}_")]
            renamed.append(self._chance.choice(own if own and self._chance.random() < 0.9 else made.columns))
        measured = self._chance.choice(made.columns)
        named = tuple(zip(renamed, self._keys, strict=True))
        functions = (("sum", measured, "m"), ("count", measured, "n"))
        return Step(kind="result", inputs=(made,), columns=(*self._keys, "m", "n"), given=(named, functions))

    def _next(self, rows: Step) -> Step:
        steps = (self._filter, self._group, self._window, self._distinct, self._union, self._equal, self._computed)
        if self._chance.random() < 0.5:
            return self._join(rows)
        return self._chance.choice(steps)(rows)

    def _other(self) -> Step:
        number = self._chance.choice((0, 1, 1, 1, 2, 2))
        made = self._source(number)
        if self._chance.random() < 0.3:
            made = self._chance.choice((self._filter, self._group, self._distinct, self._window))(made)
        return made

    def _source(self, number: int) -> Step:
        mark = next(self._names)
        return Step(kind="source", columns=tuple(f"{name}_{mark}" for name in COLUMNS[number]), given=number)

    def _join(self, rows: Step) -> Step:
        other = self._other()
        wanted = {f: f for f in self._keys}
        for on in self._ons:
            wanted |= {theirs: ours for ours, theirs in on.items()}
        pairs = []
        for theirs in other.columns:
            ours = [name for name in rows.columns if name.startswith(f"{wanted.get(theirs.split('_')[0], '?')}_")]
            if ours and self._chance.random() < 0.85:
                pairs.append((self._chance.choice(ours), theirs))
        if not pairs or self._chance.random() < 0.2:
            pairs.append((self._chance.choice(rows.columns), self._chance.choice(other.columns)))
        how = self._chance.choice(HOWS)
        columns = rows.columns if how in ("left_semi", "left_anti") else (*rows.columns, *other.columns)
        return Step(kind="join", inputs=(rows, other), columns=columns, given=(tuple(pairs), how))

    def _filter(self, rows: Step) -> Step:
        column = self._chance.choice(rows.columns)
        test = self._chance.choice(("present", "present", 0, 1))
        return Step(kind="filter", inputs=(rows,), columns=rows.columns, given=(column, test))

    def _equal(self, rows: Step) -> Step:
        pair = (self._chance.choice(rows.columns), self._chance.choice(rows.columns))
        return Step(kind="equal", inputs=(rows,), columns=rows.columns, given=pair)

    def _some(self, rows: Step) -> tuple[str, ...]:
        wanted = {*self._keys, *(name for on in self._ons for pair in on.items() for name in pair)}
        return tuple(
            name for name in rows.columns if self._chance.random() < (0.85 if name.split("_")[0] in wanted else 0.2)
        )

    def _group(self, rows: Step) -> Step:
        by, mark = self._some(rows), next(self._names)
        functions: list[tuple[str, str, str]] = []
        for column in rows.columns:
            if column not in by and self._chance.random() < 0.5:
                function = self._chance.choice(("max", "sum", "count"))
                name = column.split("_")[0] if function == "max" else function
                functions.append((function, column, f"{name}_{mark}x{len(functions)}"))
        functions = functions or [("count", rows.columns[0], f"count_{mark}")]
        columns = (*by, *(name for *_, name in functions))
        return Step(kind="group", inputs=(rows,), columns=columns, given=(by, tuple(functions)))

    def _window(self, rows: Step) -> Step:
        by, column = self._some(rows), self._chance.choice(rows.columns)
        function = self._chance.choice(("max", "sum", "count"))
        name = f"{column.split('_')[0] if function == 'max' else function}_{next(self._names)}"
        given = (by, (function, column, name))
        return Step(kind="window", inputs=(rows,), columns=(*rows.columns, name), given=given)

    def _distinct(self, rows: Step) -> Step:
        columns = self._some(rows) or rows.columns[:1]
        return Step(kind="distinct", inputs=(rows,), columns=columns)

    def _computed(self, rows: Step) -> Step:
        column = self._chance.choice(rows.columns)
        kind = self._chance.choice(("half", "coalesce", "coalesce", "alias"))
        second = self._chance.choice([name for name in rows.columns if name.split("_")[0] == column.split("_")[0]])
        name = f"{column.split('_')[0]}_{next(self._names)}"
        return Step(kind=kind, inputs=(rows,), columns=(*rows.columns, name), given=(column, second, name))

    def _union(self, rows: Step) -> Step:
        other = self._source(0) if self._chance.random() < 0.7 else self._other()
        number = min(len(rows.columns), len(other.columns), 3)
        ours, theirs = [], []
        for column in other.columns:
            fitting = [n for n in rows.columns if n.split("_")[0] == column.split("_")[0] and n not in ours]
            if fitting:
                ours.append(fitting[0])
                theirs.append(column)
        if not ours:
            ours, theirs = list(rows.columns[:number]), list(other.columns[:number])
        return Step(kind="union", inputs=(rows, other), columns=tuple(ours), given=tuple(theirs))


class Plans:
    """Renders transforms as Spark's analysed plans, as `tidegate.spark.derivation.plan_tree.read` reads them."""

    def __init__(self) -> None:
        self._ids = itertools.count()

    def plan(self, step: Step) -> Node:
        """The plan of a transform."""
        return self._made(step)[0]

    def _made(self, step: Step) -> tuple[Node, dict[str, int]]:
        """The plan, and the ids of its columns by their names."""
        if step.kind == "source":
            own = {name: next(self._ids) for name in COLUMNS[step.given]}
            project = _node("Project", projectList=[_column(name, own[name]) for name in own])
            source = _node("SubqueryAlias", project, identifier={"name": f"tidegate_source_{step.given}"})
            pairs = zip(own.items(), step.columns, strict=True)
            return self._project(source, [(name, _column(*column)) for column, name in pairs])
        inputs = [self._made(each) for each in step.inputs]
        (first, names), *others = inputs
        if step.kind == "join":
            pairs, how = step.given
            names = {**names, **others[0][1]}
            equal = [_node("EqualTo", _column(a, names[a]), _column(b, names[b])) for a, b in pairs]
            kind = f"plans.{_KINDS[how]}$"
            joined = _node("Join", first, others[0][0], joinType={"object": kind}, condition=_all(equal))
            return joined, {name: names[name] for name in step.columns}
        if step.kind == "filter":
            column, test = step.given
            tested = _column(column, names[column])
            condition = _node("IsNotNull", tested) if test == "present" else _node("EqualTo", tested, _literal(test))
            return _node("Filter", first, condition=condition), names
        if step.kind == "equal":
            equal = [_node("EqualTo", *[_column(name, names[name]) for name in step.given])]
            return _node("Filter", first, condition=_all(equal)), names
        if step.kind == "group":
            return self._aggregate(first, names, *step.given)
        if step.kind == "window":
            by, (function, column, alias) = step.given
            spec = [_column(name, names[name]) for name in by]
            over = _node("WindowExpression", _function(function, _column(column, names[column])), _node("Spec"))
            new = next(self._ids)
            window = _node("Window", first, windowExpressions=[_alias(alias, new, over)], partitionSpec=spec)
            return window, {**names, alias: new}
        if step.kind == "distinct":
            project, made = self._project(first, [(name, _column(name, names[name])) for name in step.columns])
            return _node("Distinct", project), made
        if step.kind == "union":
            ours, made = self._project(first, [(name, _column(name, names[name])) for name in step.columns])
            theirs = others[0][1]
            other, _ = self._project(others[0][0], [(name, _column(name, theirs[name])) for name in step.given])
            return _node("Union", ours, other), made
        kept = [(name, _column(name, of)) for name, of in names.items()]
        if step.kind == "result":
            named, wanted = step.given
            rows, made = self._project(first, kept + [(key, _column(column, names[column])) for column, key in named])
            return self._aggregate(rows, made, [key for _, key in named], wanted)
        column, second, alias = step.given
        one, two = _column(column, names[column]), _column(second, names[second])
        computed = {
            "half": _node("IntegralDivide", one, _literal(2)),
            "coalesce": _node("Coalesce", one, two),
            "alias": one,
        }
        return self._project(first, [*kept, (alias, computed[step.kind])])

    def _project(self, rows: Node, columns: Sequence[tuple[str, Node]]) -> tuple[Node, dict[str, int]]:
        made = [_alias(name, next(self._ids), value) for name, value in columns]
        ids = {name: _known(each) for (name, _), each in zip(columns, made, strict=True)}
        return _node("Project", rows, projectList=made), ids

    def _aggregate(
        self, rows: Node, names: Mapping[str, int], by: Sequence[str], wanted: Sequence[tuple[str, str, str]]
    ) -> tuple[Node, dict[str, int]]:
        keys = [_column(name, names[name]) for name in by]
        functions = [_function(function, _column(column, names[column])) for function, column, _ in wanted]
        made = [_alias(each[2], next(self._ids), value) for each, value in zip(wanted, functions, strict=True)]
        ids = {name: names[name] for name in by} | {
            each[2]: _known(node) for each, node in zip(wanted, made, strict=True)
        }
        return _node("Aggregate", rows, groupingExpressions=keys, aggregateExpressions=[*keys, *made]), ids


_KINDS = {
    "inner": "Inner",
    "left": "LeftOuter",
    "right": "RightOuter",
    "full": "FullOuter",
    "left_semi": "LeftSemi",
    "left_anti": "LeftAnti",
}


def _node(kind: str, /, *children: Node, **fields: Any) -> Node:
    return Node(name=kind, fields=fields, children=children)


def _column(name: str, number: int) -> Node:
    return _node("AttributeReference", name=name, exprId={"id": number})


def _alias(name: str, number: int, value: Node) -> Node:
    return _node("Alias", value, name=name, exprId={"id": number})


def _literal(value: int) -> Node:
    return _node("Literal", value=str(value))


def _function(name: str, column: Node) -> Node:
    return _node("AggregateExpression", _node(name.capitalize(), column))


def _all(conditions: Sequence[Node]) -> Node:
    return functools.reduce(lambda one, other: _node("And", one, other), conditions)


def _known(node: Node) -> int:
    assert node.id is not None
    return node.id


def evaluate(step: Step, sources: Sequence[Rows]) -> Rows:
    """The rows of the transform."""
    if step.kind == "source":
        return [dict(zip(step.columns, row.values(), strict=True)) for row in sources[step.given]]
    first, *others = [evaluate(each, sources) for each in step.inputs]
    if step.kind == "join":
        return list(_joined(step, first, others[0]))
    if step.kind == "filter":
        column, test = step.given
        return [row for row in first if (row[column] is not None if test == "present" else row[column] == test)]
    if step.kind == "equal":
        one, other = step.given
        return [row for row in first if row[one] is not None and row[one] == row[other]]
    if step.kind == "group":
        by, wanted = step.given
        return _grouped(first, by, wanted)
    if step.kind == "window":
        by, wanted = step.given
        totals = {tuple(row[name] for name in by): row for row in _grouped(first, by, [wanted])}
        return [{**row, wanted[2]: totals[tuple(row[name] for name in by)][wanted[2]]} for row in first]
    if step.kind == "distinct":
        return [
            dict(zip(step.columns, values, strict=True))
            for values in dict.fromkeys(tuple(row[n] for n in step.columns) for row in first)
        ]
    if step.kind == "union":
        renamed = [dict(zip(step.columns, (row[name] for name in step.given), strict=True)) for row in others[0]]
        return [{name: row[name] for name in step.columns} for row in first] + renamed
    if step.kind == "result":
        named, wanted = step.given
        rows = [{**row, **{key: row[column] for column, key in named}} for row in first]
        return _grouped(rows, [key for _, key in named], wanted)
    column, second, alias = step.given
    return [{**row, alias: _computed(step.kind, row[column], row[second])} for row in first]


def _computed(kind: str, one: Any, other: Any) -> Any:
    if kind == "half":
        return None if one is None else int(one / 2)
    return one if kind == "alias" or one is not None else other


def _joined(step: Step, left: Rows, right: Rows) -> Iterator[Row]:
    pairs, how = step.given
    no_left, no_right = (dict.fromkeys(each.columns) for each in step.inputs)

    def belong(one: Row, other: Row) -> bool:
        return all(one[ours] is not None and one[ours] == other[theirs] for ours, theirs in pairs)

    for one in left:
        matches = [other for other in right if belong(one, other)]
        if (how == "left_semi" and matches) or (how == "left_anti" and not matches):
            yield one
        elif how in ("inner", "left", "right", "full"):
            yield from ({**one, **other} for other in matches)
            if not matches and how in ("left", "full"):
                yield {**one, **no_right}
    if how in ("right", "full"):
        yield from ({**no_left, **other} for other in right if not any(belong(one, other) for one in left))


def _grouped(rows: Rows, by: Sequence[str], wanted: Sequence[tuple[str, str, str]]) -> Rows:
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    if not by and not groups:
        groups[()] = []
    made = []
    for key, members in groups.items():
        row = dict(zip(by, key, strict=True))
        for function, column, alias in wanted:
            values = [each[column] for each in members if each[column] is not None]
            row[alias] = (
                len(values)
                if function == "count"
                else (max(values) if function == "max" else sum(values))
                if values
                else None
            )
        made.append(row)
    return made
