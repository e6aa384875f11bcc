"""Drift: compares the row count, null share or mean of a batch with the flow's earlier batches.

The observed value of a rule is recorded in the verdict of its batch, and read from there for later batches. Refused
batches are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar

from great_expectations.compatibility.pydantic import Field, root_validator
from great_expectations.expectations.expectation import BatchExpectation, ColumnAggregateExpectation
from great_expectations.render.renderer_configuration import RendererConfiguration, RendererValueType

from tidegate.formatting import count
from tidegate.spark.gate.custom.sentence import SentenceRenderer
from tidegate.spark.gate.lake_context import current
from tidegate.spark.gate.rules import short_name

_SUCCESS_KEYS = ("tolerance", "batches", "min_batches")


def compare(
    observed: float | None,
    earlier: Sequence[float],
    *,
    tolerance: float,
    relative: bool,
    min_batches: int,
) -> dict[str, Any]:
    """Whether a number is near the average of earlier ones, as a result in GX's format.

    Args:
        observed: The value of this batch; None if it has none, which passes.
        tolerance: The largest allowed difference from the average.
        relative: Whether the tolerance is a share of the average, instead of a value in the unit of the number.
        min_batches: With fewer earlier batches nothing is compared, and the batch passes.
    """
    if observed is None:
        note, success = "the batch has no value to compare", True
    elif len(earlier) < min_batches:
        note, success = (
            f"{observed:,.4g}; passes below {count(min_batches, 'earlier batch', 'earlier batches')} (now {len(earlier)})",
            True,
        )
    else:
        average = fmean(earlier)
        allowed = tolerance * abs(average) if relative else tolerance
        success = abs(observed - average) <= allowed
        note = f"{observed:,.4g}, allowed {average:,.4g} ± {allowed:,.4g} by {count(len(earlier), 'earlier batch', 'earlier batches')}"
    return {"success": success, "result": {"observed_value": observed, "details": {"note": note}}}


def _check_counts(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    if values.get("min_batches", 0) > values.get("batches", 0):
        raise ValueError("min_batches may not exceed batches")
    return values


class NearEarlierBatches(SentenceRenderer):
    """Common part of the drift expectations: compares a number of this batch with those of earlier batches."""

    is_relative: ClassVar[bool] = True
    """Whether the tolerance is a share of the average."""

    def _observed(self, metrics: Mapping[str, Any]) -> float | None:
        raise NotImplementedError

    def _validate(
        self: Any,  # the expectation with this mixin
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        kwargs: Mapping[str, Any] = self.configuration.kwargs
        columns = (str(kwargs["column"]),) if "column" in kwargs else ()
        lake_context = current()
        earlier: Sequence[float] = ()
        if lake_context is not None:
            earlier = lake_context.earlier_values(short_name(self.expectation_type, columns), self.batches)
        return compare(
            self._observed(metrics),
            earlier,
            tolerance=self.tolerance,
            relative=self.is_relative,
            min_batches=self.min_batches,
        )


class ExpectTableRowCountToBeNearEarlierBatches(NearEarlierBatches, BatchExpectation):
    """Expect a row count within a tolerance around the average of earlier batches."""

    tolerance: float = Field(ge=0)
    """A share of the average: 0.5 allows 50 % to 150 % of it."""
    batches: int = Field(default=10, ge=1, le=500)
    """The number of earlier batches in the average."""
    min_batches: int = Field(default=3, ge=1)
    """With fewer earlier batches the batch passes."""

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count",)
    success_keys: ClassVar[tuple[str, ...]] = _SUCCESS_KEYS
    args_keys: ClassVar[tuple[str, ...]] = _SUCCESS_KEYS

    _counts = root_validator(allow_reuse=True, skip_on_failure=True)(_check_counts)

    def _observed(self, metrics: Mapping[str, Any]) -> float | None:
        return float(metrics["table.row_count"])

    @classmethod
    def _prescriptive_template(cls, renderer_configuration: RendererConfiguration[Any]) -> RendererConfiguration[Any]:
        return _sentence(renderer_configuration, "the number of rows", " times that average")


class ExpectColumnNullShareToBeNearEarlierBatches(NearEarlierBatches, ColumnAggregateExpectation):
    """Expect a share of nulls within a tolerance around the average of earlier batches."""

    tolerance: float = Field(ge=0, le=1)
    """A share of the rows: 0.05 allows a difference of 5 percentage points."""
    batches: int = Field(default=10, ge=1, le=500)
    """The number of earlier batches in the average."""
    min_batches: int = Field(default=3, ge=1)
    """With fewer earlier batches the batch passes."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id", "column")
    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.row_count", "column_values.nonnull.unexpected_count")
    success_keys: ClassVar[tuple[str, ...]] = _SUCCESS_KEYS
    args_keys: ClassVar[tuple[str, ...]] = ("column", *_SUCCESS_KEYS)
    is_relative: ClassVar[bool] = False

    _counts = root_validator(allow_reuse=True, skip_on_failure=True)(_check_counts)

    def _observed(self, metrics: Mapping[str, Any]) -> float | None:
        rows, nulls = metrics["table.row_count"], metrics["column_values.nonnull.unexpected_count"]
        return (nulls or 0) / rows if rows else None

    @classmethod
    def _prescriptive_template(cls, renderer_configuration: RendererConfiguration[Any]) -> RendererConfiguration[Any]:
        renderer_configuration.add_param(name="column", param_type=RendererValueType.STRING)
        return _sentence(renderer_configuration, "the share of nulls in $column", "")


class ExpectColumnMeanToBeNearEarlierBatches(NearEarlierBatches, ColumnAggregateExpectation):
    """Expect a mean within a tolerance around the average of earlier batches."""

    tolerance: float = Field(ge=0)
    """A share of the average: 0.2 allows 80 % to 120 % of it."""
    batches: int = Field(default=10, ge=1, le=500)
    """The number of earlier batches in the average."""
    min_batches: int = Field(default=3, ge=1)
    """With fewer earlier batches the batch passes."""

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id", "column")
    metric_dependencies: ClassVar[tuple[str, ...]] = ("column.mean",)
    success_keys: ClassVar[tuple[str, ...]] = _SUCCESS_KEYS
    args_keys: ClassVar[tuple[str, ...]] = ("column", *_SUCCESS_KEYS)

    _counts = root_validator(allow_reuse=True, skip_on_failure=True)(_check_counts)

    def _observed(self, metrics: Mapping[str, Any]) -> float | None:
        mean = metrics["column.mean"]
        return None if mean is None else float(mean)

    @classmethod
    def _prescriptive_template(cls, renderer_configuration: RendererConfiguration[Any]) -> RendererConfiguration[Any]:
        renderer_configuration.add_param(name="column", param_type=RendererValueType.STRING)
        return _sentence(renderer_configuration, "the mean of $column", " times that average")


def _sentence(
    renderer_configuration: RendererConfiguration[Any], measure: str, unit: str
) -> RendererConfiguration[Any]:
    for name in _SUCCESS_KEYS:
        renderer_configuration.add_param(name=name, param_type=RendererValueType.NUMBER)
    renderer_configuration.template_str = (
        f"{measure} must differ from the average of earlier batches by at most $tolerance{unit}."
    )
    return renderer_configuration
