"""``expect_column_values_to_be_in_table``: a foreign key into another table of the lake."""

from __future__ import annotations

from typing import Any, ClassVar

from great_expectations.compatibility.pydantic import validator
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import ColumnMapExpectation
from great_expectations.expectations.metrics.map_metric_provider.column_condition_partial import (
    column_condition_partial,
)
from great_expectations.expectations.metrics.map_metric_provider.column_map_metric_provider import (
    ColumnMapMetricProvider,
)
from great_expectations.render.renderer_configuration import RendererConfiguration, RendererValueType
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate.spark.gate.custom.lake_table import LakeColumn, check_name
from tidegate.spark.gate.custom.sentence import SentenceRenderer


class ColumnValuesInTable(ColumnMapMetricProvider):
    """Map metric ``column_values.in_table``: whether a column of another table contains a value."""

    condition_metric_name = "column_values.in_table"
    condition_value_keys = ("table", "table_column")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, table: str, table_column: str, **kwargs: Any) -> Column:
        values = kwargs["_metrics"][LakeColumn.metric_name]
        # Spark plans a plain NOT IN as a nested loop because of possible nulls; there are none here.
        return F.when(column.isin(values), F.lit(True)).otherwise(F.lit(False))

    @classmethod
    def _get_evaluation_dependencies(
        cls,
        metric: MetricConfiguration,
        configuration: Any = None,
        execution_engine: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> dict[str, MetricConfiguration]:
        dependencies: dict[str, MetricConfiguration] = super()._get_evaluation_dependencies(
            metric, configuration, execution_engine, runtime_configuration
        )
        if metric.metric_name == f"{cls.condition_metric_name}.condition":
            dependencies[LakeColumn.metric_name] = MetricConfiguration(
                LakeColumn.metric_name, {}, {key: metric.metric_value_kwargs[key] for key in cls.condition_value_keys}
            )
        return dependencies


class ExpectColumnValuesToBeInTable(SentenceRenderer, ColumnMapExpectation):
    """Expect a column of another table of the lake to contain each value. Nulls pass.

    The table is read at its version when the batch is judged, without tombstones.
    """

    table: str
    """``<layer>.<table>``."""
    table_column: str
    """Its column, of a type that is comparable with the batch's column."""

    map_metric: ClassVar[str | None] = "column_values.in_table"
    success_keys: ClassVar[tuple[str, ...]] = ("table", "table_column", "mostly")
    args_keys: ClassVar[tuple[str, ...]] = ("column", "table", "table_column")

    @validator("table")
    def _check_table(cls, value: str) -> str:
        return check_name(value)

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: dict[str, Any] | None = None, **kwargs: Any
    ) -> ValidationDependencies:
        """GX's dependencies without ``table`` in their domains, which GX would take for a table of its own."""
        dependencies = super().get_validation_dependencies(execution_engine, runtime_configuration, **kwargs)
        for name, metric in dependencies.metric_configurations.items():
            domain = {key: value for key, value in metric.metric_domain_kwargs.items() if key != "table"}
            dependencies.metric_configurations[name] = MetricConfiguration(
                metric.metric_name, domain, metric.metric_value_kwargs
            )
        return dependencies

    @classmethod
    def _prescriptive_template(cls, renderer_configuration: RendererConfiguration[Any]) -> RendererConfiguration[Any]:
        for name in ("column", "table", "table_column"):
            renderer_configuration.add_param(name=name, param_type=RendererValueType.STRING)
        renderer_configuration.template_str = "$column values must be among $table_column of $table."
        return renderer_configuration
