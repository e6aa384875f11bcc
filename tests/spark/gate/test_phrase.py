"""Every expectation in Great Expectations' own words. Starts no JVM."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.gate.test_contract import BATCH_KWARGS, ROW_KWARGS
from tidegate.spark.gate.conditions import build_expectation, phrase


def said(kind: str, **kwargs: Any) -> str:
    return phrase(build_expectation(kind, kwargs, "critical", None))


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
def test_it_is_one_plain_sentence(kind: str, kwargs: dict[str, Any], sentence: str) -> None:
    assert said(kind, **kwargs) == sentence


def test_a_long_set_is_cut() -> None:
    told = said("expect_column_values_to_be_in_set", column="a", value_set=[f"value {n}" for n in range(500)])
    assert len(told) <= 400
    assert told.endswith(" …")


def test_a_dollar_in_a_suite_is_a_dollar() -> None:
    assert said("expect_column_values_to_match_regex", column="a", regex="^$column$").endswith(": ^$column$.")


@pytest.mark.parametrize("kind", sorted({*ROW_KWARGS, *BATCH_KWARGS} - {"expect_column_pair_values_to_be_in_set"}))
def test_every_expectation_that_a_suite_may_hold_has_words(kind: str) -> None:
    kwargs = {**ROW_KWARGS, **BATCH_KWARGS}[kind]
    for one in kwargs if isinstance(kwargs, list) else [kwargs]:
        told = said(kind, **one)
        assert told
        assert "<pre>" not in told


def test_the_one_without_words_is_empty() -> None:
    (kwargs,) = ROW_KWARGS["expect_column_pair_values_to_be_in_set"]
    assert said("expect_column_pair_values_to_be_in_set", **kwargs) == ""
