"""What a table suggests. Needs no JVM and no Great Expectations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.expectations.profile import Column, Kind, Profile, columns
from tidegate.expectations.proposal import propose


def profile(
    kind: Kind, least: Any = None, most: Any = None, nulls: int = 0, distinct: int = 900, **more: Any
) -> Profile:
    column = Column(name="c", kind=kind)
    return Profile(column=column, rows=1000, nulls=nulls, distinct=distinct, least=least, most=most, **more)


def rules(found: Profile, *, keys: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """The kwargs of the proposed rules about column ``c``, by type."""
    suite = propose("x/y", [found], keys, ())
    assert "critical" not in {rule["severity"] for rule in suite["expectations"]}
    return {rule["type"]: rule["kwargs"] for rule in suite["expectations"] if rule["kwargs"].get("column") == "c"}


def test_a_column_without_nulls_should_stay_so_and_one_with_some_should_keep_its_share() -> None:
    assert "expect_column_values_to_not_be_null" in rules(profile("other"))
    some = rules(profile("other", nulls=30))
    assert set(some) == {"expect_column_null_share_to_be_near_earlier_batches"}
    assert rules(profile("other", nulls=1000)) == {}


def test_a_key_needs_no_rule_against_nulls_and_no_limits() -> None:
    assert rules(profile("number", 1.0, 1000.0), keys=("c",)) == {}


@pytest.mark.parametrize(
    ("least", "most", "low", "high"),
    [
        (3.0, 1301.0, 0.0, 2000.0),
        (-43.0, 1301.0, -720.0, 2000.0),
        (0.1, 0.2, 0.05, 0.25),
        (7.0, 7.0, 3.5, 11.0),
        (0.0, 0.0, 0.0, 1.0),
    ],
)
def test_limits_are_what_was_seen_and_half_as_much_again(least: float, most: float, low: float, high: float) -> None:
    between = rules(profile("number", least, most))["expect_column_values_to_be_between"]
    assert (between["min_value"], between["max_value"]) == (low, high)


def test_few_texts_are_a_list_of_choices_and_many_have_a_length() -> None:
    few = profile("text", 3.0, 3.0, distinct=2, choices=("JFK", "LGA"))
    assert few.is_choice()
    assert rules(few)["expect_column_values_to_be_in_set"]["value_set"] == ["JFK", "LGA"]
    assert not profile("text", 3.0, 3.0, distinct=60).is_choice()
    assert rules(profile("text", 3.0, 3.0))["expect_column_value_lengths_to_equal"] == {"column": "c", "value": 3}
    lengths = rules(profile("text", 2.0, 9.0))["expect_column_value_lengths_to_be_between"]
    assert (lengths["min_value"], lengths["max_value"]) == (2, 18)


def test_a_time_may_not_be_of_an_earlier_year_than_any_that_was_seen() -> None:
    first = datetime(2013, 2, 3, tzinfo=UTC)
    assert rules(profile("instant", first, first))["expect_column_values_to_be_between"] == {
        "column": "c",
        "min_value": "2013-01-01 00:00:00",
    }


def test_our_own_columns_are_left_out() -> None:
    schema = '{"fields": [{"name": "a", "type": "long"}, {"name": "_order", "type": {}}, {"name": "m", "type": {}}]}'
    assert columns(schema) == (Column(name="a", kind="number"), Column(name="m", kind="other"))
