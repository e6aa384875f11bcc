"""Small frames as local relations: their rows are in the plan, so what is planned on them reads nothing again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ROWS = 10_000
"""Up to here the rows of a frame are brought to the driver."""


def collect(frame: DataFrame, limit: int | None = None) -> pyarrow.Table | None:
    """The rows of a frame, by one query.

    Args:
        frame: Evaluated once.
        limit: The number of rows that are few; `ROWS` without it.

    Returns:
        None when there are more rows, or a column has a type that Arrow does not know.
    """
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_schema

    most = ROWS if limit is None else limit
    try:
        to_arrow_schema(frame.schema, timezone="UTC")
    except PySparkTypeError:
        return None
    rows = frame.limit(most + 1).toArrow()
    return rows if rows.num_rows <= most else None


def to_frame(spark: SparkSession, rows: pyarrow.Table, schema: StructType) -> DataFrame:
    """A frame of rows that `collect` brought; ``schema`` is that of the frame which they come from."""
    return spark.createDataFrame(rows, schema)
