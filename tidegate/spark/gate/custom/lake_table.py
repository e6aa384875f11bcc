"""Access of expectations to other tables of the lake, by name (``<layer>.<table>``), never by path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from tidegate.advice import Edit
from tidegate.errors import FieldError, SpecError
from tidegate.spark.gate.lake_context import current
from tidegate.spec.checks import check_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_name(value: str) -> str:
    """Return a valid table name.

    Raises:
        ValueError: It is invalid; Great Expectations reports this with the name of the argument.
    """
    try:
        check_table(value, "table", value)
    except FieldError as error:
        raise ValueError("allowed: '<layer>.<table>' with the layer bronze, silver or gold") from error
    return value


def column_values(spark: SparkSession, table: str, column: str) -> DataFrame:
    """The values of one column of another table, nulls left out.

    Raises:
        SpecError: There is no lake, no such table or no such column.
    """
    lake_context = current()
    if lake_context is None:
        raise SpecError(
            f"table {table!r} cannot be read here",
            Edit("name a rule without another table: only the gate of a flow has access to the lake", "suite"),
        )
    rows = lake_context.table(spark, table)
    if column not in rows.columns:
        raise SpecError(f"table {table!r} has no column {column!r}", Edit("correct the suite", "suite"))
    return rows.select(rows[column]).where(rows[column].isNotNull())


class LakeColumn(TableMetricProvider):
    """Metric ``lake.column``: the values of a column of another table, as a DataFrame."""

    metric_name = "lake.column"
    value_keys = ("table", "table_column")

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> DataFrame:
        return column_values(execution_engine.spark, metric_value_kwargs["table"], metric_value_kwargs["table_column"])
