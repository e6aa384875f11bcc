"""Validation of thresholds."""

from __future__ import annotations

import dataclasses

import pytest

from tidegate.errors import FieldError
from tidegate.spec import ChangeFeed, FileSource, Flow, Pipeline, Table
from tidegate.spec.thresholds import Thresholds


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("no_input_runs", 0),
        ("no_input_runs", 1.5),
        ("missed_runs", -1),
        ("lag_growing_runs", True),
        ("expiry_runs", 0),
        ("lag_rows", -1),
        ("lag_rows", "1m"),
        ("quarantine_rows", 2.5),
        ("quarantine_rows", False),
        ("processed_share", 0),
        ("processed_share", 1.01),
        ("processed_share", float("nan")),
        ("run_seconds", 0),
        ("quarantine_share", -0.1),
        ("quarantine_share", 2),
        ("quarantine_rows", -1),
        ("quarantine_hours", 0),
        ("freshness_hours", 0),
    ],
)
def test_an_invalid_limit_is_refused_by_its_name(field: str, value: object) -> None:
    with pytest.raises(FieldError, match=field):
        Thresholds(**{field: value})  # type: ignore[arg-type]  # invalid on purpose


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Thresholds)])
def test_every_rule_can_be_turned_off(field: str) -> None:
    assert getattr(Thresholds(**{field: None}), field) is None


def test_the_defaults() -> None:
    default = Thresholds()
    assert (default.processed_share, default.lag_rows) == (0.8, 1_000_000)
    assert default.run_seconds is None
    assert Thresholds(quarantine_share=0, lag_rows=0).quarantine_share == 0


def _flow(**given: object) -> Flow:
    source = FileSource(path="shop", format="csv", schema="a STRING")
    return Flow(name="bronze", source=source, target=Table("bronze.shop"), **given)  # type: ignore[arg-type]


def test_a_flows_own_thresholds_override_those_of_its_pipeline() -> None:
    silver = Flow(
        name="silver",
        source=ChangeFeed("bronze.shop"),
        transform="shop:clean",
        target=Table("silver.shop", keys=("a",), sequence_by=("a",), event_time="at"),
        thresholds=Thresholds(freshness_hours=6),
    )
    pipeline = Pipeline(name="shop", flows=(_flow(), silver), thresholds=Thresholds(lag_rows=7))
    assert pipeline.thresholds_of(pipeline.flow("bronze")).lag_rows == 7
    assert pipeline.thresholds_of(silver) == Thresholds(freshness_hours=6)


def test_freshness_needs_a_table_with_an_event_time() -> None:
    with pytest.raises(FieldError, match="event_time"):
        _flow(thresholds=Thresholds(freshness_hours=6))


@pytest.mark.parametrize("value", [{"lag_rows": 1}, 5])
def test_values_that_are_not_thresholds_are_refused(value: object) -> None:
    with pytest.raises(FieldError, match="thresholds"):
        _flow(thresholds=value)
    with pytest.raises(FieldError, match="thresholds"):
        Pipeline(name="shop", flows=(_flow(),), thresholds=value)  # type: ignore[arg-type]
