"""Drift: a batch compared with the flow's earlier batches, by row count, null share and mean of a column.

What a rule observed is kept with its verdict, and the verdicts of earlier batches are what it compares with. A batch
that was refused is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar

from great_expectations.compatibility.pydantic import Field, root_validator
from great_expectations.expectations.expectation import BatchExpectation, ColumnAggregateExpectation
from great_expectations.render.renderer_configuration import RendererConfiguration, RendererValueType

from tidegate.spark.gate.own.sentence import Sentence
from tidegate.spark.gate.rules import short_name
from tidegate.spark.gate.surroundings import current

_SUCCESS_KEYS = ("tolerance", "batches", "min_batches")


def compare(
    observed: float | None,
    earlier: Sequence[float],
    *,
    tolerance: float,
    relative: bool,
    min_batches: int,
) -> dict[str, Any]:
    """A result in GX's form: is a number near the average of earlier ones?

    Args:
        observed: Of this batch; None when it has no value, which passes.
        earlier: Of the batches before.
        tolerance: How far off it may be.
        relative: Whether the tolerance is a share of the average, or in the number's own unit.
        min_batches: With fewer earlier batches nothing is compared, and the batch passes.
    """
    if observed is None:
        note, success = "the batch has no value to compare", True
    elif len(earlier) < min_batches:
        note, success = (
            f"{observed:,.4g}; passes until {min_batches} earlier batches are known ({len(earlier)} are)",
            True,
        )
    else:
        average = fmean(earlier)
        allowed = tolerance * abs(average) if relative else tolerance
        success = abs(observed - average) <= allowed
        note = f"{observed:,.4g}, allowed {average:,.4g} ± {allowed:,.4g} by {len(earlier)} earlier batches"
    return {"success": success, "result": {"observed_value": observed, "details": {"note": note}}}


def _check_counts(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    if values.get("min_batches", 0) > values.get("batches", 0):
        raise ValueError("min_batches may not exceed batches")
    return values


class NearEarlierBatches(Sentence):
    """What the three have in common: a number of this batch beside those of earlier ones."""

    is_relative: ClassVar[bool] = True
    """Whether the tolerance is a share of the average."""

    def _observed(self, metrics: Mapping[str, Any]) -> float | None:
        raise NotImplementedError

    def _validate(
        self: Any,  # an expectation that this is mixed into
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        kwargs: Mapping[str, Any] = self.configuration.kwargs
        columns = (str(kwargs["column"]),) if "column" in kwargs else ()
        surroundings = current()
        earlier: Sequence[float] = ()
        if surroundings is not None:
            earlier = surroundings.earlier(short_name(self.expectation_type, columns), self.batches)
        return compare(
            self._observed(metrics),
            earlier,
            tolerance=self.tolerance,
            relative=self.is_relative,
            min_batches=self.min_batches,
        )


class ExpectTableRowCountToBeNearEarlierBatches(NearEarlierBatches, BatchExpectation):
    """Expect as many rows as earlier batches had, give or take a share of their average."""

    tolerance: float = Field(ge=0)
    """A share of the average: 0.5 allows half as many to half as many again."""
    batches: int = Field(default=10, ge=1, le=500)
    """How many earlier batches are compared with."""
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
        return _sentence(renderer_configuration, "the number of rows", " times their average")


class ExpectColumnNullShareToBeNearEarlierBatches(NearEarlierBatches, ColumnAggregateExpectation):
    """Expect the share of nulls that earlier batches had, give or take a share of the rows."""

    tolerance: float = Field(ge=0, le=1)
    """In shares of rows: 0.05 allows 5 % more or fewer of the rows to be null."""
    batches: int = Field(default=10, ge=1, le=500)
    """How many earlier batches are compared with."""
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
    """Expect the mean that earlier batches had, give or take a share of it."""

    tolerance: float = Field(ge=0)
    """A share of the average mean: 0.2 allows a fifth more or less."""
    batches: int = Field(default=10, ge=1, le=500)
    """How many earlier batches are compared with."""
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
        return _sentence(renderer_configuration, "the mean of $column", " times their average")


def _sentence(renderer_configuration: RendererConfiguration[Any], what: str, unit: str) -> RendererConfiguration[Any]:
    for name in _SUCCESS_KEYS:
        renderer_configuration.add_param(name=name, param_type=RendererValueType.NUMBER)
    renderer_configuration.template_str = f"{what} must be that of earlier batches, give or take $tolerance{unit}."
    return renderer_configuration
