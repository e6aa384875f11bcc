"""Validation of thresholds."""

from __future__ import annotations

import dataclasses

import pytest

from tidegate.errors import FieldError
from tidegate.spec import AfterTables, ChangeFeed, FileSource, Flow, Pipeline, Table
from tidegate.spec.limits import Thresholds


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
        ("state_rows", 2.5),
        ("state_bytes", -1),
        ("watermark_hours", 0),
        ("quarantine_rows", False),
        ("processed_share", 0),
        ("processed_share", 1.01),
        ("processed_share", float("nan")),
        ("run_seconds", 0),
        ("no_input_hours", 0),
        ("batch_intervals", 0),
        ("lag_intervals", True),
        ("rate_share", 1.1),
        ("quarantine_share", -0.1),
        ("quarantine_share", 2),
        ("transform_error_share", -0.1),
        ("transform_error_share", 1.1),
        ("transform_error_share", True),
        ("quarantine_rows", -1),
        ("quarantine_hours", 0),
        ("freshness_hours", 0),
        # A duration of them would overflow when the rule is evaluated.
        ("freshness_hours", float("inf")),
        ("run_seconds", 1e300),
        ("quarantine_hours", 10**12),
        ("expiry_runs", 10**12),
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


def _chain(**given: object) -> tuple[Flow, Flow]:
    """A landing flow, and a flow that reads its table, with these thresholds."""
    silver = Flow(
        name="silver",
        source=ChangeFeed("bronze.shop"),
        transform="shop:clean",
        target=Table("silver.shop", keys=("a",), sequence_by=("a",)),
        thresholds=Thresholds(**given) if given else None,  # type: ignore[arg-type]
    )
    return _flow(), silver


NOT_APPLICABLE = [
    ({"no_input_runs": 9}, "@daily", "files, a topic or a table of another pipeline"),
    ({"no_input_hours": 9}, "@daily", "files, a topic or a table of another pipeline"),
    ({"missed_runs": 9}, AfterTables("silver.other"), "with a cron schedule"),
    ({"batch_intervals": 9}, None, "with a schedule"),
    ({"lag_intervals": 9}, None, "with a schedule"),
    ({"expiry_runs": 9}, "@daily", "a flow that reads a topic"),
    ({"state_rows": 9}, "@daily", "a flow with state"),
    ({"state_bytes": 9}, "@daily", "a flow with state"),
    ({"watermark_hours": 9}, "@daily", "a flow with state"),
]


@pytest.mark.parametrize(("given", "schedule", "allowed"), NOT_APPLICABLE)
def test_a_threshold_that_cannot_apply_to_its_flow_is_refused(
    given: dict[str, object], schedule: str | AfterTables | None, allowed: str
) -> None:
    (name,) = given
    with pytest.raises(FieldError, match=f"flow 'silver': thresholds.{name}=9 .*{allowed}"):
        Pipeline(name="shop", flows=_chain(**given), schedule=schedule)
    Pipeline(name="shop", flows=_chain(**{name: None}), schedule=schedule)


def test_the_share_of_rows_that_cannot_be_transformed_applies_to_a_flow_whose_transform_treats_rows() -> None:
    share = Thresholds(transform_error_share=0.2)
    Pipeline(name="shop", flows=_chain(transform_error_share=0.2))
    Pipeline(name="shop", flows=_chain(), thresholds=share)
    with pytest.raises(
        FieldError, match=r"flow 'bronze': thresholds\.transform_error_share=0\.2 .*whose transform treats rows"
    ):
        Pipeline(name="shop", flows=(_flow(thresholds=share),))
    daily = Table("gold.shop", keys=("a",))
    gold = Flow(name="gold", source=ChangeFeed("silver.shop"), transform="shop:daily", target=daily, thresholds=share)
    with pytest.raises(FieldError, match=r"flow 'gold': thresholds\.transform_error_share=0\.2"):
        Pipeline(name="shop", flows=(*_chain(), gold))


def test_a_threshold_of_a_pipeline_must_apply_to_one_of_its_flows() -> None:
    Pipeline(name="shop", flows=_chain(), thresholds=Thresholds(no_input_hours=9))
    with pytest.raises(FieldError, match=r"Pipeline 'shop': thresholds\.freshness_hours=9 .*a target with event_time"):
        Pipeline(name="shop", flows=_chain(), thresholds=Thresholds(freshness_hours=9))
    own = Thresholds(lag_rows=1)
    _, silver = _chain()
    with pytest.raises(FieldError, match=r"thresholds\.no_input_hours=9"):
        Pipeline(name="shop", flows=(_flow(thresholds=own), silver), thresholds=Thresholds(no_input_hours=9))
