"""Small frames as local relations: the rows are part of the query plan, so queries on them do not read the source again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

ROWS = 10_000
"""A frame with at most this many rows is collected to the driver."""


def collect(frame: DataFrame, limit: int | None = None) -> pyarrow.Table | None:
    """The rows of a frame, read with one query.

    Args:
        frame: Evaluated once.
        limit: The greatest number of rows to collect; `ROWS` by default.

    Returns:
        None when there are more rows, or a column has a type without Arrow equivalent.
    """
    maximum = ROWS if limit is None else limit
    try:
        to_arrow_schema(frame.schema, timezone="UTC")
    except PySparkTypeError:
        return None
    rows = frame.limit(maximum + 1).toArrow()
    return rows if rows.num_rows <= maximum else None


def to_frame(spark: SparkSession, rows: pyarrow.Table, schema: StructType) -> DataFrame:
    """A frame of rows that `collect` returned; ``schema`` is that of the collected frame."""
    return spark.createDataFrame(rows, schema)


def from_rows(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """A frame of values that the driver has. From a list, Spark would make an RDD that Python workers evaluate.

    Args:
        rows: One value per column.
    """
    columns = StructType.fromDDL(schema)
    assert isinstance(columns, StructType)
    records = [dict(zip(columns.names, row, strict=True)) for row in rows]
    table = pyarrow.Table.from_pylist(records, schema=to_arrow_schema(columns, timezone="UTC"))
    return to_frame(spark, table, columns)
