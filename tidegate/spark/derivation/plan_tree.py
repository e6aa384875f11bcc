"""Spark's analysed plan as a tree of names, fields and children, read as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SOURCE = "tidegate_source_"
"""The alias of the rows of a source, by which they are found in the plan; a number follows."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """An operator, or an expression."""

    name: str
    """The name of its class in Spark: ``Project``, ``EqualTo``."""
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    @property
    def id(self) -> int | None:
        """What identifies the column that a reference or an alias stands for; None for other expressions."""
        given = self.fields.get("exprId")
        return given["id"] if isinstance(given, dict) else None

    @property
    def source(self) -> int | None:
        """The number of the source whose rows these are; None for other operators."""
        alias = str(_of_option(self.fields.get("identifier")).get("name", "")) if self.name == "SubqueryAlias" else ""
        return int(alias.removeprefix(_SOURCE)) if alias.startswith(_SOURCE) else None

    def expressions(self, field: str) -> tuple[Node, ...]:
        """The expressions of a field: none, one or several."""
        given = self.fields.get(field) or ()
        return (given,) if isinstance(given, Node) else tuple(given)


def column_id(expression: Node) -> int:
    """The id of an expression that is a column of an operator."""
    # Only what has a name, and so an id, is one.
    assert expression.id is not None
    return expression.id


def mark(rows: DataFrame, source: int) -> DataFrame:
    """The same rows, whose columns are found in the plan as those of a source."""
    return rows.select("*").alias(f"{_SOURCE}{source}")


def read(rows: DataFrame) -> Node:
    """The analysed plan."""
    return _tree(json.loads(rows._jdf.queryExecution().analyzed().toJSON()))


def _tree(nodes: Sequence[Mapping[str, Any]]) -> Node:
    """The tree of nodes that are listed with each before its children."""
    rest = iter(nodes)

    def next_node() -> Node:
        given = next(rest)
        children = tuple(next_node() for _ in range(given["num-children"]))
        fields = {name: _parsed(value) for name, value in given.items()}
        return Node(name=given["class"].rsplit(".", 1)[-1].rstrip("$"), fields=fields, children=children)

    return next_node()


def _parsed(value: Any) -> Any:
    """A field: an expression, a list of them, a list of lists, or what is none of these."""
    if not isinstance(value, list) or not value:
        return value
    is_tree = isinstance(value[0], dict) and "num-children" in value[0]
    return _tree(value) if is_tree else tuple(map(_parsed, value))


def _of_option(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
