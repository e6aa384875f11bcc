"""Which columns of a flow's first source equal which of another one, as a SELECT joins them."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.advice import Edit, Either
from tidegate.project.statement import Statement, exp


def equalities(statement: Statement, first: str, other: str) -> dict[str, str]:
    """Which columns of the first source equal which of another one wherever rows of the other are joined, as ``on`` declares them.

    Raises:
        SpecError: The statement does not show it.
    """
    reads, firsts = ([each for each in statement.tables if each.name.lower() == name] for name in (other, first))
    if not reads:
        either = Either(Edit("join it", "transform"), Edit("remove it from the sources", "declaration"))
        raise statement.error(0, f"it does not read {other}, a source of the flow", either)
    joins: Sequence[exp.Join] = statement.tree.args.get("joins") or ()
    join = next((each for each in joins if each.this is reads[0]), None)
    pairs = {} if join is None else _pairs(join, statement.alias.lower(), alone=join is joins[0])
    if len(reads) > 1:
        why = f"{other} is read {len(reads)} times"
    elif len(firsts) != 1 or firsts[0] is not statement.relation:
        why = f"{first} is not the one table of FROM"
    elif join is None:
        why = f"{other} is read in a part of the SELECT"
    elif outer := next((each.side for each in joins if each.side in ("RIGHT", "FULL")), ""):
        why = f"{outer} JOIN also makes rows without one of {first}"
    elif pairs:
        return pairs
    else:
        why = f"ON has no {statement.alias}.<column> = {reads[0].alias_or_name}.<column>, joined by AND"
    raise statement.error(
        statement.start_of(reads[0]),
        f"the SELECT does not show which rows of {first} those of {other} belong to: {why}",
        Edit(f"declare ChangeFeed(<layer>.{other}, on={{<column of {first}>: <column of {other}>}})", "declaration"),
    )


def _pairs(join: exp.Join, first: str, *, alone: bool) -> dict[str, str]:
    """Which columns of the first source equal which of the joined table, each of them once.

    Args:
        join: The join.
        first: The name by which columns of the first source are qualified.
        alone: Whether nothing else stands before the join.
    """
    if alone and join.args.get("using"):
        return {each.name: each.name for each in join.args["using"]}
    other, condition = join.this.alias_or_name.lower(), join.args.get("on")
    pairs: dict[str, str] = {}
    for each in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        sides = [each.this, each.expression] if isinstance(each, (exp.EQ, exp.NullSafeEQ)) else []
        columns = {side.table.lower(): side.name for side in sides if isinstance(side, exp.Column)}
        if columns.keys() == {first, other} and columns[other] not in pairs.values():
            pairs.setdefault(columns[first], columns[other])
    return pairs
