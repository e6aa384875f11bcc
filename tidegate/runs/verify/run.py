"""Verifies a table: derives its rows again from its sources, and says which rows differ, by key. Writes no table, takes no lease.

The rows are derived by the flow's own steps 1 and 2, from the version of the source that the table has read
(`tidegate.runs.verify.pins`). Nothing is judged again: rows that quarantine entries keep out of the table are left out.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidegate import json_codec
from tidegate.advice import Edit
from tidegate.checkpoints import checkpoint
from tidegate.errors import RequestError, TidegateError
from tidegate.ops.ledger import LEDGER
from tidegate.reports.report import EFFECTS, DifferingRow, Verification
from tidegate.runs.verify.pins import Pins, pin
from tidegate.spark.driver.failures import translate
from tidegate.spark.lake import comparable, tables
from tidegate.spark.runs import RunCode

if TYPE_CHECKING:
    from tidegate.spark.job import Job, Sides

_SAME = 1e-9
"""The relative difference up to which sums of floating-point numbers are the same: they depend on the order of the rows."""
_CONTENT = tables.JSON | {"ignoreNullFields": "true"}
"""Options for values as JSON: a field of a struct that is NULL is the same as none, because a column may have got it later."""
_NUMBER, _IS, _DIFFERING = "_copy", "_is", "_differing"


def verify(job: Job) -> None:
    """Compare the table of a flow with what its sources make; the report gets the counts, a file beside it the keys.

    Raises:
        RequestError: The flow has written nothing, or its table cannot be derived.
        TidegateError: As for a run.
    """
    started = time.monotonic()
    job.run.report.dry_run = True
    try:
        checkpoint.check_compatible(job.place.layout, job.resolved)
        own = pin(dataclasses.replace(job, gate=None))
        assert isinstance(own.work, Pins)
        try:
            wanted = _wanted(own)
            sides = own.kind.sides(own, own.work)
            job.run.report.verification, rows = compare(own, own.work.version, sides, wanted)
        finally:
            own.release()
        json_codec.write(job.run.place.differences(job.flow.name), rows)
        if rows and _has_other_code(own):
            job.run.report.notes.append(
                f"transform {job.flow.transform!r} was edited after it made some of the rows: a backfill or a full refresh "
                "derives them again"
            )
    except TidegateError:
        raise
    except Exception as error:
        what = f"verification of flow {job.flow.name!r}"
        feeds = list(map(str, job.source_tables))
        raise translate(error, what=what, checkpoint=str(job.place.checkpoint), feeds=feeds) from error
    finally:
        job.run.report.seconds = round(time.monotonic() - started, 3)


def compare(job: Job, version: int, sides: Sides, wanted: Column) -> tuple[Verification, list[DifferingRow]]:
    """Join both sides by key, and compare all columns; one that a side lacks is NULL there.

    Args:
        job: The flow; its request has the limit of the rows that are named.
        version: The version of the table.
        sides: Both sides.
        wanted: A condition on the keys of the rows that are compared.
    """
    names = dict.fromkeys((*sides.expected.columns, *sides.actual.columns))
    columns = [name for name in names if name not in (*sides.keys, *sides.ignored)]
    expected, actual = (
        _comparable(rows.where(wanted), other, sides.keys, columns)
        for rows, other in ((sides.expected, sides.actual), (sides.actual, sides.expected))
    )
    same_key = reduce(and_, [F.col(f"e.`{key}`").eqNullSafe(F.col(f"a.`{key}`")) for key in (*sides.keys, _NUMBER)])
    joined = expected.alias("e").join(actual.alias("a"), same_key, "full_outer")
    differing = F.array_compact(
        F.array(*[F.when(~_same(name, expected, sides), F.lit(name)) for name in columns], F.lit(None).cast("string"))
    )
    effect = (
        F.when(F.col(f"a.{_IS}").isNull(), F.lit("missing"))
        .when(F.col(f"e.{_IS}").isNull(), F.lit("unexpected"))
        .when(F.size(_DIFFERING) > 0, F.lit("different"))
        .otherwise(F.lit("equal"))
    )
    key = F.struct(*[F.coalesce(F.col(f"e.`{name}`"), F.col(f"a.`{name}`")).alias(name) for name in sides.keys])
    rows = joined.withColumn(_DIFFERING, differing).select(
        effect.alias("effect"), F.to_json(key, tables.JSON).alias("key"), _DIFFERING
    )
    rows = rows.persist()
    job.persisted.append(rows)
    counts = {row["effect"]: row["count"] for row in rows.groupBy("effect").count().collect()}
    limit = job.run.request.limit
    named = rows.where("effect <> 'equal'").orderBy("effect", "key")
    result = Verification(
        version=version,
        source=sides.source,
        equal=counts.get("equal", 0),
        not_compared={reason: number for reason, number in sides.not_compared.items() if number},
        **{each: counts.get(each, 0) for each in EFFECTS},
    )
    return result, [
        DifferingRow(
            effect=row["effect"], key=row["key"], columns=tuple(row[_DIFFERING]) if row["effect"] == "different" else ()
        )
        for row in (named if limit is None else named.limit(limit)).collect()
    ]


def _wanted(job: Job) -> Column:
    """The condition on the keys that the request names; raises `RequestError` for a value that the column cannot have."""
    condition, types = F.lit(True), dict(tables.read(job.spark, job.live).dtypes)
    for each in job.run.request.keys:
        name, _, text = each.partition("=")
        value = F.lit(text).try_cast(types[name])
        if job.spark.range(1).where(value.isNull()).count():
            raise RequestError(
                f"key {each!r} is not allowed",
                Edit(
                    f"{text!r} is no {types[name]}, the type of column {name!r} of {job.flow.target.name!r}", "request"
                ),
            )
        condition &= F.col(f"`{name}`") == value
    return condition


def _comparable(rows: DataFrame, other: DataFrame, keys: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Keys and columns of one side, and a number for each of several rows with the same key.

    A column whose type the other side does not have is compared as JSON.
    """
    types, others = dict(rows.dtypes), dict(other.dtypes)

    def value(name: str) -> Column:
        expression = f"`{name}`" if name in types else f"CAST(NULL AS {others[name]})"
        if len({each[name] for each in (types, others) if name in each}) == 1:
            kind = (rows if name in types else other).schema[name].dataType
            return F.expr(comparable.sql(expression, kind)).alias(name)
        column = F.expr(expression)
        return F.when(column.isNotNull(), F.to_json(F.struct(column.alias("v")), _CONTENT)).alias(name)

    side = rows.select(*[F.col(f"`{key}`") for key in keys], *map(value, columns))
    content = F.to_json(F.struct(*[F.col(f"`{name}`") for name in columns]), _CONTENT) if columns else F.lit("")
    copies = Window.partitionBy(*[F.col(f"`{key}`") for key in keys]).orderBy(content)
    return side.withColumn(_NUMBER, F.row_number().over(copies)).withColumn(_IS, F.lit(True))


def _same(name: str, rows: DataFrame, sides: Sides) -> Column:
    left, right = F.col(f"e.`{name}`"), F.col(f"a.`{name}`")
    same = left.eqNullSafe(right)
    if sides.sums and dict(rows.dtypes)[name] in ("float", "double"):
        # Spark's NaN is greater than infinity.
        larger = F.greatest(F.abs(left), F.abs(right))
        near = (larger < F.lit(math.inf)) & (F.abs(left - right) <= F.lit(_SAME) * larger)
        same |= F.coalesce(near, F.lit(False))
    return same


def _has_other_code(job: Job) -> bool:
    """Whether the present checkpoint, or a backfill of it, wrote rows with another fingerprint of the transform's module."""
    present = job.resolved.code_fingerprint()
    ids = f"'{job.place.app_id}', '{job.place.windows_app_id}'"
    lines = LEDGER.read(job.place.of_pipeline, f"app_id IN ({ids}) AND written + upserted > 0")
    return any(line.code_fingerprint not in (None, present) for line in lines)


RUN = RunCode(run=verify, dry_run=verify)
