"""``expect_column_to_be_fresh``: the newest event time of the batch, or of a table, is not older than a limit."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from great_expectations.compatibility.pydantic import Field, validator
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import ColumnAggregateExpectation
from great_expectations.expectations.metrics.column_aggregate_metric_provider import (
    ColumnAggregateMetricProvider,
    column_aggregate_partial,
)
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.render.renderer_configuration import RendererConfiguration, RendererValueType
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate.spark.gate.custom.lake_table import check_name, column_values
from tidegate.spark.gate.custom.sentence import SentenceRenderer


class ColumnNewest(ColumnAggregateMetricProvider):
    """Metric ``column.newest``: the newest instant of the batch, in microseconds since 1970."""

    metric_name = "column.newest"

    @column_aggregate_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, **kwargs: Any) -> Column:
        return _newest(column)


class LakeNewest(TableMetricProvider):
    """Metric ``lake.newest``: the newest instant of a column of another table, in microseconds since 1970."""

    metric_name = "lake.newest"
    value_keys = ("table", "table_column")

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> int | None:
        column = metric_value_kwargs["table_column"]
        values = column_values(execution_engine.spark, metric_value_kwargs["table"], column)
        row = values.agg(_newest(F.col(column))).first()
        return None if row is None else row[0]


class ExpectColumnToBeFresh(SentenceRenderer, ColumnAggregateExpectation):
    """Expect the newest event time to be at most ``max_age_hours`` old. A batch without rows passes."""

    max_age_hours: float = Field(gt=0)
    table: str | None = None
    """``<layer>.<table>`` whose column is used instead of the batch's."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id", "column")
    success_keys: ClassVar[tuple[str, ...]] = ("max_age_hours", "table")
    args_keys: ClassVar[tuple[str, ...]] = ("column", "max_age_hours", "table")

    @validator("table")
    def _check_table(cls, value: str | None) -> str | None:
        return None if value is None else check_name(value)

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: dict[str, Any] | None = None
    ) -> ValidationDependencies:
        """The newest instant, and the number of rows."""
        dependencies = super().get_validation_dependencies(execution_engine, runtime_configuration)
        if self.table is None:
            newest = MetricConfiguration(ColumnNewest.metric_name, {"column": self.column}, {})
        else:
            newest = MetricConfiguration(LakeNewest.metric_name, {}, {"table": self.table, "table_column": self.column})
        dependencies.set_metric_configuration("newest", newest)
        dependencies.set_metric_configuration("table.row_count", MetricConfiguration("table.row_count", {}, {}))
        return dependencies

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: dict[str, Any] | None = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        newest, rows = metrics["newest"], metrics["table.row_count"]
        if self.table is None and not rows:
            return {"success": True, "result": {"observed_value": None, "details": {"note": "the batch has no rows"}}}
        if newest is None:
            return {
                "success": False,
                "result": {"observed_value": None, "details": {"note": "the column has no value"}},
            }
        hours = round((time.time() - newest / 1_000_000) / 3600, 2)
        note = f"the newest is {hours:,g} h old, allowed {self.max_age_hours:,g} h"
        return {
            "success": hours <= self.max_age_hours,
            "result": {"observed_value": hours, "details": {"note": note}},
        }

    @classmethod
    def _prescriptive_template(cls, renderer_configuration: RendererConfiguration[Any]) -> RendererConfiguration[Any]:
        for name in ("column", "table"):
            renderer_configuration.add_param(name=name, param_type=RendererValueType.STRING)
        renderer_configuration.add_param(name="max_age_hours", param_type=RendererValueType.NUMBER)
        of_table = " of $table" if renderer_configuration.params.table else ""
        renderer_configuration.template_str = (
            f"the newest $column{of_table} must not be older than $max_age_hours hours."
        )
        return renderer_configuration


def _newest(column: Column) -> Column:
    return F.max(F.unix_micros(column.cast("timestamp")))
