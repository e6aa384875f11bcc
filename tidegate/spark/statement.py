"""Transforms in SQL as functions of DataFrames, as those in Python are.

In a flow of rows, each part of the SELECT list is an expression over one row. A condition of WHERE becomes the rule by which a row is
filtered, and nothing but columns is computed of a row that is filtered. In other flows, Spark gets the statement as it is.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, QueryContextType
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.project import statement_rules, transform_code

if TYPE_CHECKING:
    from tidegate.project.statement import Projection, Statement
    from tidegate.spec import Flow

_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_CARRIED = (hidden.ROW_ID, hidden.ORIGIN, hidden.DELETED, hidden.RESCUED)


def transform_of(flow: Flow) -> Callable[..., DataFrame]:
    """The transform of a flow that declares a file with SQL.

    Raises:
        SpecError: The file cannot be read or parsed; and the function, where Spark does not understand it. The message has the line and
            the column.
    """
    statement = statement_rules.of_flow(flow, transform_code.file_of(str(flow.transform)))
    if not flow.kind.has_groups:
        return lambda rows: select_rows(statement, rows)
    names = [feed.name for feed in flow.feeds]
    return lambda first, **others: select(statement, {names[0]: first, **others})


def select_rows(statement: Statement, rows: DataFrame) -> DataFrame:
    """One row for each row, or for each element of one, with the rule of the first condition that does not hold.

    Args:
        statement: One of a flow of rows.
        rows: The input of a transform (`tidegate.spark.intake.parse`).

    Raises:
        SpecError: Spark does not understand it.
    """
    named = rows.alias(statement.alias)

    parts = [(each.start, partial(lambda text: named.where(F.expr(text)), each.text)) for each in statement.conditions]
    values = [each for each in statement.projections if not each.is_star]
    parts += [(each.start, partial(lambda text: named.select(F.expr(text)), each.text)) for each in values]
    with _errors_with_place(statement, statement.text, 0, parts):
        rule = F.lit(None).cast("string")
        for condition in reversed(statement.conditions):
            # A condition that is NULL does not hold either.
            rule = F.when(~F.coalesce(F.expr(condition.text), F.lit(False)), F.lit(condition.rule)).otherwise(rule)
        # A delete must reach the table, and a message without value the quarantine, whatever their columns have.
        is_row = F.col(f"{hidden.ORIGIN}.raw").isNotNull()
        if hidden.DELETED in rows.columns:
            is_row &= ~F.coalesce(hidden.DELETED, F.lit(False))
        flagged = named.withColumn(hidden.FILTERED, F.when(is_row, rule))
        made = [column for each in statement.projections for column in _columns(each, flagged)]
        own = {name for each in statement.projections for name in each.names}
        carried = [name for name in _CARRIED if name in rows.columns and name not in own]
        return flagged.select(*carried, hidden.FILTERED, *made)


def _columns(projection: Projection, rows: DataFrame) -> Iterator[Column]:
    if projection.is_star:
        names = [name for name in rows.columns if not name.startswith("_")]
        yield from (rows[f"`{name}`"] for name in names if name.lower() not in projection.excepted)
    elif projection.is_generator:
        yield F.expr(projection.text)
    else:
        value = F.expr(projection.text)
        kept = value if projection.is_column else F.when(F.col(hidden.FILTERED).isNull(), value)
        yield kept.alias(*projection.names)


def select(statement: Statement, sources: Mapping[str, DataFrame]) -> DataFrame:
    """What the statement makes of the rows of its sources: their columns that do not begin with an underscore.

    Args:
        statement: One of a flow of groups.
        sources: The rows by the names of the sources.

    Raises:
        SpecError: Spark does not understand it.
    """
    session = next(iter(sources.values())).sparkSession
    views = {name: f"_tidegate_{name}_{uuid.uuid4().hex}" for name in sources}
    head = "WITH " + ", ".join(f"`{name}` AS (SELECT * FROM `{view}`)" for name, view in views.items())
    # A statement that begins with names of its own goes on with them.
    start = statement.end_of_with
    head += "," if start else "\n"
    text = head + statement.text[start:]
    for name, view in views.items():
        rows = sources[name]
        rows.select([f"`{each}`" for each in rows.columns if not each.startswith("_")]).createOrReplaceTempView(view)
    try:
        with _errors_with_place(statement, text, start - len(head)):
            return session.sql(text)
    finally:
        for view in views.values():
            session.catalog.dropTempView(view)


@contextmanager
def _errors_with_place(
    statement: Statement, text: str, moved: int, parts: Sequence[tuple[int, Callable[[], DataFrame]]] = ()
) -> Iterator[None]:
    """Say in which line and column of the file Spark does not understand the statement.

    Args:
        statement: The statement.
        text: What Spark has of it.
        moved: What is added to a place in that text to get the one in the file.
        parts: What analyses each part of the statement alone, for an error without a place, with the place of the part.
    """
    try:
        yield
    except AnalysisException as error:
        place, reason = _place_of(error, text), error
        if place is None:
            own = ((start, raised) for start, analyse in parts if (raised := _raised_by(analyse)) is not None)
            place, reason = next(own, (-moved, error))
        # Other lines of the message quote the text that Spark has.
        problem = re.sub(r" SQLSTATE.*", "", str(reason).strip().partition("\n")[0]).rstrip(".")
        correct = Edit("correct it", "transform")
        raise statement.error(max(place + moved, 0), f"Spark refuses it: {problem}", correct) from error


def _place_of(error: AnalysisException, text: str) -> int | None:
    """The place in Spark's text that an error names; None if it names none."""
    contexts = [each for each in error.getQueryContext() if each.contextType() == QueryContextType.SQL]
    if contexts:
        return contexts[0].startIndex()
    if (parsed := _PLACE.search(str(error))) is None:
        return None
    return len("".join(text.splitlines(keepends=True)[: int(parsed[1]) - 1])) + int(parsed[2])


def _raised_by(analyse: Callable[[], DataFrame]) -> AnalysisException | None:
    """The error of one part; None if there is none, or if it only lacks a name that another part gives."""
    try:
        analyse()
    except AnalysisException as error:
        return None if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN") else error
    return None
