"""The order of the changes of a key: the ``sequence_by`` columns by their meaning, then the source's own coordinates.

It is stored in the row as ``_order`` and compared as a struct, so each field has a type that compares as it is meant. A text does
not say that: ``bin.999999`` is above ``bin.1000000``. So a text is in the order only as the table declares it (``text_order``), and
of the paths of files the numbers in them count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as F

from tidegate import hidden
from tidegate.advice import Edit
from tidegate.checkpoints import checkpoint
from tidegate.errors import SpecError
from tidegate.spec.table import no_text_order

if TYPE_CHECKING:
    from tidegate.spark.job import Job


_ORDERED = (types.NumericType, types.BooleanType, types.DateType, types.TimestampType, types.TimestampNTZType)
_PARTS = r"'([0-9]+|[^0-9]+)'"
_SIGNIFICANT = "trim(LEADING '0' FROM part)"


def check(job: Job, output: DataFrame) -> None:
    """Check that each ``sequence_by`` column has a type with one order, or that the table declares how its text compares.

    Raises:
        SpecError: One does not, or ``text_order`` names a column that is no text.
    """
    target = job.flow.target
    for name in target.sequence_by:
        kind = output.schema[name].dataType
        is_text = isinstance(kind, types.StringType)
        if is_text and name not in target.text_order:
            problem, advice = no_text_order(name)
        elif is_text or (isinstance(kind, _ORDERED) and name not in target.text_order):
            continue
        elif name in target.text_order:
            problem = f"text_order names {name!r}, which is {kind.simpleString()} and compares as such"
            advice = Edit("remove it there", "declaration")
        else:
            problem = f"sequence_by has {name!r}, which is {kind.simpleString()}"
            advice = Edit("return a number, a date or a timestamp", "transform")
        raise SpecError(f"flow {job.flow.name!r}: table {target.name!r}: {problem}", advice)


def broken_rules(job: Job, output: DataFrame) -> list[Column]:
    """The rule ``null_sequence(column)`` of each column, for rows that have no place in the order. NaN would be above all others."""
    rules = []
    for name in job.flow.target.sequence_by:
        missing = F.col(name).isNull()
        if isinstance(output.schema[name].dataType, types.FloatType | types.DoubleType):
            missing |= F.isnan(name)
        rules.append(F.when(missing, F.lit(f"null_sequence({name})")))
    return rules


def of_rows(job: Job, rows: DataFrame) -> Column:
    """The order of rows, with the fields of ``_origin.at`` after the declared columns."""
    coordinates = rows.schema[hidden.ORIGIN].dataType["at"].dataType.names  # type: ignore[index]  # a struct of structs
    if hidden.PATH not in coordinates or not _orders_paths_by_numbers(job):
        return F.struct(*declared(job), F.col(f"{hidden.ORIGIN}.at.*"))
    path = by_numbers(f"{hidden.ORIGIN}.at.{hidden.PATH}").alias(hidden.PATH)
    return F.struct(
        *declared(job), *[path if name == hidden.PATH else F.col(f"{hidden.ORIGIN}.at.{name}") for name in coordinates]
    )


def declared(job: Job) -> list[Column]:
    """The ``sequence_by`` columns of rows, as they compare."""
    target = job.flow.target
    return [
        by_numbers(f"`{name}`").alias(name) if target.text_order.get(name) == "numbers" else F.col(name)
        for name in target.sequence_by
    ]


def by_numbers(text: str) -> Column:
    """A text that compares as another one does by the numbers in it, without leading zeros, and of equal ones by their characters.

    Before each number is the number of its digits. ``a9`` is ``a00019`` and ``a10`` is ``a000210``, both followed by the text itself.
    """
    return F.expr(
        f"concat(array_join(transform(regexp_extract_all({text}, {_PARTS}, 1), part -> "
        f"if(part < ':' AND part >= '0', concat(lpad(length({_SIGNIFICANT}), 4, '0'), {_SIGNIFICANT}), part)), ''), '\\u0001', {text})"
    )


def _orders_paths_by_numbers(job: Job) -> bool:
    sidecar = checkpoint.versions(job.place).get(job.place.version)
    return sidecar is None or sidecar.paths_by_numbers
