"""A flow declares statistics of its batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.spec.trips import BRONZE, GOLD, SILVER
from tidegate.errors import FieldError
from tidegate.spec import Flow, Statistic

ROWS = Statistic("rows", "count(*)", rule="value >= 0.5 * median")


@pytest.mark.parametrize(
    ("flow", "statistics", "message"),
    [
        (BRONZE, (ROWS,), "declare them on the next flow"),
        (GOLD, (replace(ROWS, otherwise="drop"),), "the table would keep outdated ones"),
        (SILVER, (ROWS, ROWS), "different names"),
        (SILVER, ROWS, "a tuple"),
    ],
    ids=["landing", "groups that are dropped", "the same name", "no tuple"],
)
def test_statistics_that_a_flow_cannot_have_are_refused(flow: Flow, statistics: Any, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        replace(flow, statistics=statistics)


def test_statistics_are_no_reason_for_another_checkpoint() -> None:
    measured = replace(SILVER, statistics=(ROWS, replace(ROWS, name="waived", otherwise="drop")))

    assert measured.remembered() == SILVER.remembered()
    assert replace(GOLD, statistics=(ROWS,)).statistics == (ROWS,)
