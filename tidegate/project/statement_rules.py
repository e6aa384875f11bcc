"""Which SELECTs may be transforms, by the kind of flow, without Spark. Each refusal has its place and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import hidden
from tidegate.advice import Edit, Either
from tidegate.errors import SpecError
from tidegate.project.statement import Statement, TokenType, exp
from tidegate.project.statement_functions import check_determinism
from tidegate.project.statement_joins import equalities

if TYPE_CHECKING:
    from tidegate.spec import Flow

_OF_GROUPS = "declare it in a flow whose target has keys alone: its transform gets all rows of the groups that changed"
_JOIN = "join tables in a flow with sources=(…, ChangeFeed(<table>, on={…})) and a target that has keys alone"
_CLAUSES: Mapping[str, tuple[tuple[TokenType, ...], str, str]] = {
    "with_": (
        (TokenType.WITH,),
        "names parts of itself (WITH)",
        "write one SELECT of the source: a name of its list may be used further on in the list",
    ),
    "hint": ((TokenType.HINT,), "has a hint", "remove it"),
    "distinct": (
        (TokenType.DISTINCT,),
        "removes rows that are equal in their batch (DISTINCT)",
        "remove it: of the rows with the same keys the table keeps the newest",
    ),
    "joins": ((TokenType.JOIN,), "joins other rows, which may drop or multiply those of the source (JOIN)", _JOIN),
    "laterals": (
        (TokenType.LATERAL,),
        "joins rows (LATERAL)",
        "write explode_outer(…) AS <name> in the SELECT list, which keeps rows without elements",
    ),
    "group": ((TokenType.GROUP_BY,), "groups the rows of its batch (GROUP BY)", _OF_GROUPS),
    "having": ((TokenType.HAVING,), "filters groups of its batch (HAVING)", _OF_GROUPS),
    "windows": ((TokenType.WINDOW,), "computes over other rows of its batch (WINDOW)", _OF_GROUPS),
    "qualify": ((TokenType.QUALIFY,), "computes over other rows of its batch (QUALIFY)", _OF_GROUPS),
    "order": ((TokenType.ORDER_BY,), "orders rows, which a table does not (ORDER BY)", "remove it"),
    "sort": ((TokenType.SORT_BY,), "orders rows, which a table does not (SORT BY)", "remove it"),
    "cluster": ((TokenType.CLUSTER_BY,), "distributes rows (CLUSTER BY)", "remove it"),
    "distribute": ((TokenType.DISTRIBUTE_BY,), "distributes rows (DISTRIBUTE BY)", "remove it"),
    "limit": (
        (TokenType.LIMIT, TokenType.FETCH),
        "drops rows without a rule (LIMIT)",
        "write a condition of WHERE, by which the rows are counted as filtered",
    ),
    "offset": (
        (TokenType.OFFSET,),
        "drops rows without a rule (OFFSET)",
        "write a condition of WHERE, by which the rows are counted as filtered",
    ),
}
"""What a SELECT of a flow of rows must not have, by its name in the tree: tokens by which it is found, what it does, what to write."""
_BEGINS = (TokenType.SELECT, TokenType.VALUES)
_UNITS = frozenset(
    ("year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second", "millisecond", "microsecond")
)
"""Words that are arguments of functions of time, and no columns."""


def check(flow: Flow, path: Path | None, columns: Collection[str] | None) -> None:
    """Check the transform of a flow.

    Args:
        flow: A flow whose transform is SQL.
        path: The file; None if there is none.
        columns: The declared fields of the records that it parses; None where Spark alone knows the columns of the source.

    Raises:
        SpecError: It cannot be parsed, reads what is not declared, does not return what the target needs, or does what a flow of this
            kind must not; the message has the line and the column.
    """
    statement = of_flow(flow, path)
    check_determinism(statement)
    _check_tables(statement, flow)
    if flow.state is not None:
        raise statement.error(
            0, "a flow with state needs an operator of PySpark", Edit("write the transform in Python", "transform")
        )
    if not flow.kind.has_groups:
        _check_rows(statement, flow)
        if columns is not None:
            _check_columns(statement, flow, columns)
    _check_outputs(statement, flow)
    completed(flow, path)


def completed(flow: Flow, path: Path | None) -> Flow:
    """The flow with ``on`` of each source that does not declare it, as the statement shows it.

    Raises:
        SpecError: As `equalities` and `of_flow`.
    """
    statement, first, *others = of_flow(flow, path), *flow.feeds
    shown = [feed if feed.on else replace(feed, on=equalities(statement, first.name, feed.name)) for feed in others]
    return replace(flow, sources=(first, *shown)) if others else flow


def of_flow(flow: Flow, path: Path | None) -> Statement:
    """The statement that a flow declares; raises as `Statement.read`, and where there is no file."""
    assert flow.transform is not None
    if path is None:
        raise SpecError(
            f"transform {flow.transform!r}: spark_jobs/{flow.transform} does not exist",
            Either(Edit("create it", "transform"), Edit("correct the transform", "declaration")),
        )
    return Statement.read(flow.transform, path)


def _check_tables(statement: Statement, flow: Flow) -> None:
    sources = [feed.name for feed in flow.feeds]
    if shadowed := statement.own_names.intersection(sources):
        raise statement.error(
            statement.start_of(next(statement.tree.find_all(exp.CTE))),
            f"WITH gives the name of a source again: {', '.join(shadowed)}",
            Edit("write another name", "transform"),
        )
    if (own := statement.tree.args.get("with_")) is not None and own.recursive:
        raise statement.error(
            statement.start_of(own), "it is recursive", Edit("write the transform in Python", "transform")
        )
    for each in statement.tables:
        start = statement.start_of(each)
        if each.args.get("version") or each.args.get("sample") or each.args.get("when"):
            raise statement.error(
                start,
                f"it reads some rows of {each.name or 'a table'} only, by a version or a sample",
                Edit("read the table as it is given", "transform"),
            )
        if each.db or each.name.lower() not in sources:
            name = ".".join(part.name for part in each.parts) or "rows of a function"
            declared = "its source is" if len(sources) == 1 else "its sources are"
            raise statement.error(
                start,
                f"it reads {name}, which is not declared: {declared} {', '.join(sources)}",
                Either(Edit(f"name {' or '.join(sources)}", "transform"), Edit(_JOIN, "declaration")),
            )
    if script := next(statement.tree.find_all(exp.QueryTransform), None):
        raise statement.error(
            statement.start_of(script),
            "it runs a program (TRANSFORM … USING)",
            Edit("write the transform in Python", "transform"),
        )
    limit = next(statement.tree.find_all(exp.Limit, exp.Fetch, exp.Offset), None)
    if limit is not None and flow.kind.has_groups:
        raise statement.error(
            statement.start_of_token(TokenType.LIMIT, TokenType.FETCH, TokenType.OFFSET) or 0,
            "it limits the number of rows, so that they depend on all others (LIMIT)",
            Edit("write max_by or min_by of the group, or a condition of WHERE", "transform"),
        )


def _check_rows(statement: Statement, flow: Flow) -> None:
    """Check that each row is made of one row of the source, and that none is dropped without a rule."""
    tree, source = statement.tree, flow.feeds[0].name
    of = "in a flow of rows it"
    if not isinstance(tree, exp.Select):
        raise statement.error(
            statement.start_of_token(TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT) or 0,
            f"{of} puts several SELECTs together (UNION, INTERSECT or EXCEPT)",
            Edit(
                "write one SELECT with CASE; tables with the same columns are written by flows of their own",
                "transform",
            ),
        )
    known = {"expressions", "from_", "where"}
    for name, given in tree.args.items():
        if given and name not in known:
            kinds, problem, remedy = _CLAUSES.get(name, ((), f"has {name.strip('_').upper()}", "remove it"))
            place = statement.start_of_token(*kinds)
            if place is None:
                # A comma joins, too.
                place = statement.start_of(given[0] if isinstance(given, list) else given)
            raise statement.error(place, f"{of} {problem}", Edit(remedy, "transform"))
    for inner in tree.find_all(exp.Select, exp.SetOperation, exp.Values):
        if inner is not tree:
            before = statement.start_of(inner)
            start = max(each.start for each in statement.tokens if each.start <= before and each.token_type in _BEGINS)
            raise statement.error(start, f"{of} reads rows in a subquery", Edit(_JOIN, "declaration"))
    relation = statement.relation
    if relation is None or relation.args.get("pivots") or relation.alias_column_names:
        raise statement.error(0, f"{of} must read {source} as it is", Edit(f"write FROM {source}", "transform"))
    for window in tree.find_all(exp.Window, exp.AggFunc):
        problem = _CLAUSES["windows" if isinstance(window, exp.Window) else "group"][1].partition(" (")[0]
        raise statement.error(statement.start_of(window), f"{of} {problem}", Edit(_OF_GROUPS, "transform"))
    for each, after in pairwise(statement.tokens):
        if each.text.lower() in ("explode", "posexplode", "inline") and after.token_type is TokenType.L_PAREN:
            raise statement.error(
                each.start,
                f"{each.text} drops a row without elements",
                Edit(f"write {each.text.lower()}_outer", "transform"),
            )
    _ = statement.conditions


def _check_columns(statement: Statement, flow: Flow, columns: Collection[str]) -> None:
    """Check that what it names is declared: a field of the source, or a name that its list has given before."""
    relations = {flow.feeds[0].name, statement.alias.lower()}
    named = [each for each in statement.projections if isinstance(each.expression, (exp.Alias, exp.Aliases))]
    fields = {name.lower() for name in columns}
    given = {name.lower() for each in named for name in each.names}
    for each in statement.tree.find_all(exp.Column):
        if isinstance(each.this, exp.Star):
            continue
        parts = [part for part in each.parts if isinstance(part, exp.Identifier)]
        if len(parts) > 1 and parts[0].name.lower() in relations:
            parts = parts[1:]
        name = parts[0].name.lower() if parts else ""
        # WHERE comes before the list.
        known = fields if each.find_ancestor(exp.Where) else fields | given
        if not name or name in known or name.startswith("_") or (name in _UNITS and isinstance(each.parent, exp.Func)):
            continue
        near = difflib.get_close_matches(name, sorted(known), n=1)
        text = f"it reads {parts[0].name}, which is no declared field of {flow.source_tables[0]}"
        way = f"write {near[0]}" if near else f"write one of {', '.join(sorted(columns))}"
        raise statement.error(
            statement.start_of(parts[0]), text, Either(Edit(way, "transform"), Edit("declare it", "declaration"))
        )


def _check_outputs(statement: Statement, flow: Flow) -> None:
    """Check that each column has one name, and that the target's keys and order are among them."""
    projections, known = statement.projections, set()
    for each in projections:
        if not each.is_star and not each.names:
            raise statement.error(
                each.start, "a column of its result has no name", Edit("write AS <name>", "transform")
            )
        for name in each.names:
            if name.startswith("_") and name != hidden.DELETED:
                remedy = {
                    hidden.FILTERED: "write a condition of WHERE, with `-- rule: <name>` beside it",
                    hidden.ROW_ID: "remove it: it is carried",
                    hidden.ORIGIN: "remove it: it is carried",
                }.get(name, "name it otherwise: names that begin with '_' are reserved")
                raise statement.error(each.start, f"its result has a column {name}", Edit(remedy, "transform"))
            if name.lower() in known:
                raise statement.error(
                    each.start, f"its result has {name} twice", Edit("write AS <another name>", "transform")
                )
            known.add(name.lower())
    if any(each.is_star for each in projections):
        return
    needed = dict.fromkeys((*flow.target.keys, *flow.target.sequence_by))
    if missing := [name for name in needed if name.lower() not in known]:
        raise statement.error(
            0,
            f"its result has no column {', '.join(missing)}, which the keys or the order of {flow.target.name} need",
            Either(Edit("return it", "transform"), Edit("declare others", "declaration")),
        )
