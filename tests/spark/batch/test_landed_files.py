"""Files on which the reading itself fails are found by halves; that they are refused alone is tested in `test_raw`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.spark.batch.landed_files import READINGS, isolate

pytestmark = pytest.mark.slow


@given(
    st.integers(1, 2000).flatmap(
        lambda size: st.tuples(st.just(size), st.sets(st.integers(0, size - 1), min_size=1, max_size=60))
    )
)
def test_exactly_the_items_that_fail_alone_are_found_in_a_bounded_number_of_evaluations(
    case: tuple[int, set[int]],
) -> None:
    size, failing = case
    evaluations: list[int] = []

    def fails(part: Sequence[int]) -> bool:
        evaluations.append(len(part))
        return not failing.isdisjoint(part)

    assert isolate(range(size), fails, 10**9) == sorted(failing)
    assert len(evaluations) <= 2 * len(failing) * math.ceil(math.log2(size) if size > 1 else 0)

    bounded = evaluations.copy()
    evaluations.clear()
    limited = isolate(range(size), fails, READINGS)
    assert limited == (sorted(failing) if limited else [])
    assert len(evaluations) <= READINGS
    assert bool(limited) or len(bounded) > READINGS - 2
