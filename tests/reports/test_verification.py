"""What a verification says, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.reports.report import Verification


def verification(**counts: Any) -> Verification:
    numbers = {"equal": 3, "missing": 0, "unexpected": 0, "different": 0, **counts}
    return Verification(version=2, source="bronze.orders at version 0", **numbers)


def test_the_summary_names_every_count_and_what_was_not_compared() -> None:
    gone = {"of files that are no longer landed": 1_204}
    assert verification(missing=2, unexpected=1, not_compared=gone).summary() == (
        "version 2 against bronze.orders at version 0: 6 rows, 3 equal, 2 missing, 1 unexpected, 0 different; "
        "not compared: 1,204 rows of files that are no longer landed"
    )


@pytest.mark.parametrize("effect", ["missing", "unexpected", "different"])
def test_a_row_of_any_effect_is_a_difference_and_one_that_was_not_compared_is_none(effect: str) -> None:
    assert verification(**{effect: 1}).differs
    assert not verification(not_compared={"of files that were changed since": 4}).differs
