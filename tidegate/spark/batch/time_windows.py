"""Time windows of a group flow: each row of the source is in the windows that contain its time (`tidegate.spec.table`)."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.advice import Edit, Either
from tidegate.errors import SpecError
from tidegate.spec.table import WINDOW_START

if TYPE_CHECKING:
    from tidegate.spark.job import Job


def with_windows(job: Job, rows: DataFrame) -> DataFrame:
    """Each row once per window that contains it, with ``window_start`` and ``_window``, 0 for the first; all rows without windows.

    Raises:
        SpecError: The rows lack the column of the time, or it has another type.
    """
    windows = job.flow.target.windows
    if windows is None:
        return rows
    if windows.time not in rows.columns:
        raise SpecError(
            f"flow {job.flow.name!r}: its source has no column {windows.time!r}, which its time windows need",
            Edit("correct time=… in the declaration", "declaration"),
        )
    if (kind := dict(rows.dtypes)[windows.time]) != "timestamp":
        raise SpecError(
            f"flow {job.flow.name!r}: column {windows.time!r} of its source is of type {kind}, and time "
            "windows need a TIMESTAMP",
            Either(
                Edit("make one in the flow that writes the source", "declaration"),
                Edit("name another column in time=…", "declaration"),
            ),
        )
    seconds, every = F.unix_seconds(windows.time), windows.every_seconds
    last = seconds - F.pmod(seconds, F.lit(every))
    starts = F.sequence(last, last - windows.length_seconds + every, F.lit(-every))
    # NULL is a group like any other: rows without time are kept.
    placed = rows.withColumn("_starts", starts).drop(WINDOW_START)
    exploded = placed.select("*", F.posexplode_outer("_starts").alias("_window", WINDOW_START)).drop("_starts")
    return exploded.withColumns(
        {WINDOW_START: F.timestamp_seconds(WINDOW_START), "_window": F.coalesce("_window", F.lit(0))}
    )


def is_first(rows: DataFrame) -> Column:
    """Whether a row stands for its row of the source, which counts once, in however many windows it is."""
    return F.col("_window") == 0 if "_window" in rows.columns else F.lit(True)


def between(job: Job, key: str, first: object, last: object) -> Column:
    """The predicate on the source that holds for the rows of groups with keys from ``first`` to ``last``."""
    windows = job.flow.target.windows
    if windows is None or key != WINDOW_START:
        if type(first) is date:
            # As text: py4j writes a year before 1000 without its zeros, which Java refuses.
            return F.col(key).between(F.lit(str(first)).cast("date"), F.lit(str(last)).cast("date"))
        return F.col(key).between(F.lit(first), F.lit(last))
    end = F.lit(last) + F.expr(f"INTERVAL {windows.length_seconds} SECONDS")
    return (F.col(windows.time) >= F.lit(first)) & (F.col(windows.time) < end)
