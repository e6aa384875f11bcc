"""Proposed suites. Needs no JVM and no Great Expectations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.expectations.profile import Kind, Profile, ProfiledColumn, columns
from tidegate.expectations.proposal import propose


def profile(
    kind: Kind, minimum: Any = None, maximum: Any = None, nulls: int = 0, distinct: int = 900, **more: Any
) -> Profile:
    column = ProfiledColumn(name="c", kind=kind)
    return Profile(column=column, rows=1000, nulls=nulls, distinct=distinct, minimum=minimum, maximum=maximum, **more)


def rules(column: Profile, *, keys: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """The kwargs of the proposed rules about column ``c``, by type."""
    suite = propose("x/y", [column], keys, ())
    assert "critical" not in {rule["severity"] for rule in suite["expectations"]}
    return {rule["type"]: rule["kwargs"] for rule in suite["expectations"] if rule["kwargs"].get("column") == "c"}


def test_a_rule_about_nulls_is_proposed_for_every_column() -> None:
    assert "expect_column_values_to_not_be_null" in rules(profile("other"))
    assert rules(profile("other", nulls=30)) == {"expect_column_values_to_not_be_null": {"column": "c", "mostly": 0.9}}
    assert rules(profile("other", nulls=1000)) == {}


def test_a_key_needs_no_rule_against_nulls_and_no_limits() -> None:
    assert rules(profile("number", 1.0, 1000.0), keys=("c",)) == {}


@pytest.mark.parametrize(
    ("minimum", "maximum", "low", "high"),
    [
        (3.0, 1301.0, 0.0, 2000.0),
        (-43.0, 1301.0, -720.0, 2000.0),
        (0.1, 0.2, 0.05, 0.25),
        (7.0, 7.0, 3.5, 11.0),
        (0.0, 0.0, 0.0, 1.0),
    ],
)
def test_limits_are_the_observed_range_widened_by_half(minimum: float, maximum: float, low: float, high: float) -> None:
    between = rules(profile("number", minimum, maximum))["expect_column_values_to_be_between"]
    assert (between["min_value"], between["max_value"]) == (low, high)


def test_few_distinct_texts_become_a_set_and_many_get_limits_of_length() -> None:
    few = profile("text", 3.0, 3.0, distinct=2, choices=("JFK", "LGA"))
    assert few.is_choice()
    assert rules(few)["expect_column_values_to_be_in_set"]["value_set"] == ["JFK", "LGA"]
    assert not profile("text", 3.0, 3.0, distinct=60).is_choice()
    assert rules(profile("text", 3.0, 3.0))["expect_column_value_lengths_to_equal"] == {"column": "c", "value": 3}
    lengths = rules(profile("text", 2.0, 9.0))["expect_column_value_lengths_to_be_between"]
    assert (lengths["min_value"], lengths["max_value"]) == (2, 18)


def test_the_lower_limit_of_a_time_is_the_first_observed_year() -> None:
    first = datetime(2013, 2, 3, tzinfo=UTC)
    assert rules(profile("instant", first, first))["expect_column_values_to_be_between"] == {
        "column": "c",
        "min_value": "2013-01-01 00:00:00",
    }


def test_columns_of_the_platform_are_left_out() -> None:
    schema = '{"fields": [{"name": "a", "type": "long"}, {"name": "_order", "type": {}}, {"name": "m", "type": {}}]}'
    assert columns(schema) == (ProfiledColumn(name="a", kind="number"), ProfiledColumn(name="m", kind="other"))
