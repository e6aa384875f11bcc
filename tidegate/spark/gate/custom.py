"""Tidegate's own expectation for Great Expectations, ``expect_column_values_to_be_in_table``; suites use it like a built-in one.

Importing this module registers it. It imports Great Expectations, which takes seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from great_expectations.compatibility.pydantic import validator
from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import ColumnMapExpectation
from great_expectations.expectations.metrics.map_metric_provider.column_condition_partial import (
    column_condition_partial,
)
from great_expectations.expectations.metrics.map_metric_provider.column_map_metric_provider import (
    ColumnMapMetricProvider,
)
from great_expectations.render.components import LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer
from great_expectations.render.renderer_configuration import RendererConfiguration, RendererValueType
from great_expectations.validator.metric_configuration import MetricConfiguration
from great_expectations.validator.validator import ValidationDependencies
from pyspark.sql import functions as F

from tidegate.advice import Edit
from tidegate.errors import FieldError, SpecError
from tidegate.spark.gate.lake_context import current
from tidegate.spec.checks import check_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class ColumnValuesInTable(ColumnMapMetricProvider):
    """Map metric ``column_values.in_table``: whether a column of another table contains a value."""

    condition_metric_name = "column_values.in_table"
    condition_value_keys = ("table", "table_column")

    @column_condition_partial(engine=SparkDFExecutionEngine)
    def _spark(cls, column: Column, table: str, table_column: str, **kwargs: Any) -> Column:
        values = _column_values(kwargs["_table"].sparkSession, table, table_column)
        # Spark plans a plain NOT IN as a nested loop because of possible nulls; there are none here.
        return F.when(column.isin(values), F.lit(True)).otherwise(F.lit(False))


class ExpectColumnValuesToBeInTable(ColumnMapExpectation):
    """Expect a column of another table of the lake to contain each value. Nulls pass.

    The table is read at its version when the batch is judged, without tombstones.
    """

    table: str
    """``<layer>.<table>``: a name, never a path."""
    table_column: str
    """Its column, of a type that is comparable with the batch's column."""

    map_metric: ClassVar[str | None] = "column_values.in_table"
    success_keys: ClassVar[tuple[str, ...]] = ("table", "table_column", "mostly")
    args_keys: ClassVar[tuple[str, ...]] = ("column", "table", "table_column")

    @validator("table")
    def _check_table(cls, value: str) -> str:
        try:
            check_table(value, "table", value)
        except FieldError as error:
            # Great Expectations reports a ValueError with the name of the argument.
            raise ValueError("allowed: '<layer>.<table>' with the layer bronze, silver or gold") from error
        return value

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

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls,
        configuration: Any = None,
        result: Any = None,
        runtime_configuration: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[RenderedStringTemplateContent]:
        """The same sentence for GX's legacy renderer; GX's newer renderers use `_prescriptive_template` by themselves."""
        renderer_configuration: RendererConfiguration[Any] = RendererConfiguration(
            configuration=configuration, result=result, runtime_configuration=runtime_configuration or {}
        )
        sentence = cls._prescriptive_template(renderer_configuration)
        params = {name: param["value"] for name, param in sentence.params.dict().items() if param}
        template = {"template": sentence.template_str, "params": params, "styling": {}}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=template)]


def _column_values(spark: SparkSession, table: str, column: str) -> DataFrame:
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
