"""Descriptions of expectations by Great Expectations. Starts no JVM."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.gate.test_contract import BATCH_KWARGS, ROW_KWARGS
from tidegate.spark.gate.conditions import build_expectation, describe

pytestmark = pytest.mark.gx


def description(kind: str, **kwargs: Any) -> str:
    return describe(build_expectation(kind, kwargs, "critical", None))


@pytest.mark.parametrize(
    ("kind", "kwargs", "sentence"),
    [
        (
            "expect_column_values_to_be_between",
            {"column": "delay", "min_value": -20, "max_value": 300, "mostly": 0.99},
            "delay values must be greater than or equal to -20.0 and less than or equal to 300.0, at least "
            "99\N{NO-BREAK SPACE}% of the time.",
        ),
        (
            "expect_column_values_to_be_in_set",
            {"column": "origin", "value_set": ["EWR", "JFK", "<b>"]},
            "origin values must belong to this set: EWR, JFK, <b>.",
        ),
        (
            "expect_compound_columns_to_be_unique",
            {"column_list": ["a", "b"]},
            "Values for given compound columns must be unique together: a, b",
        ),
        (
            "expect_column_quantile_values_to_be_between",
            {"column": "a", "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[0, 1]]}},
            "a quantiles must be within the following value ranges.",
        ),
    ],
)
def test_the_description_is_one_sentence(kind: str, kwargs: dict[str, Any], sentence: str) -> None:
    assert description(kind, **kwargs) == sentence


def test_a_long_set_is_truncated() -> None:
    text = description("expect_column_values_to_be_in_set", column="a", value_set=[f"value {n}" for n in range(500)])
    assert len(text) <= 400
    assert text.endswith(" …")


def test_a_dollar_sign_of_a_suite_is_kept() -> None:
    assert description("expect_column_values_to_match_regex", column="a", regex="^$column$").endswith(": ^$column$.")


@pytest.mark.parametrize("kind", sorted({*ROW_KWARGS, *BATCH_KWARGS} - {"expect_column_pair_values_to_be_in_set"}))
def test_every_supported_expectation_has_a_description(kind: str) -> None:
    kwargs: Any = {**ROW_KWARGS, **BATCH_KWARGS}[kind]
    for one in kwargs if isinstance(kwargs, list) else [kwargs]:
        text = description(kind, **one)
        assert text
        assert "<pre>" not in text


def test_the_expectation_without_a_description_is_empty() -> None:
    (kwargs,) = ROW_KWARGS["expect_column_pair_values_to_be_in_set"]
    assert description("expect_column_pair_values_to_be_in_set", **kwargs) == ""
