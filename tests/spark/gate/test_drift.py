"""The comparison of drift expectations. Needs Great Expectations, but no JVM."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.gx


@pytest.mark.parametrize(
    ("observed", "earlier", "tolerance", "relative", "success"),
    [
        (15, [10, 10, 10], 0.5, True, True),
        (16, [10, 10, 10], 0.5, True, False),
        (5, [8, 10, 12], 0.5, True, True),
        (-16, [-10, -10, -10], 0.5, True, False),
        (0.25, [0.2, 0.2, 0.2], 0.06, False, True),
        (0.25, [0.0, 0.0, 0.0], 0.06, False, False),
        (1000, [10, 10], 0, True, True),
        (None, [10, 10, 10], 0, True, True),
    ],
)
def test_a_number_may_differ_from_the_average_by_the_tolerance(
    observed: float | None, earlier: list[float], tolerance: float, relative: bool, success: bool
) -> None:
    from tidegate.spark.gate.custom.drift import compare

    result = compare(observed, earlier, tolerance=tolerance, relative=relative, min_batches=3)
    assert result["success"] is success
    assert result["result"]["observed_value"] == observed


def test_with_too_few_earlier_batches_it_passes_with_a_note() -> None:
    from tidegate.spark.gate.custom.drift import compare

    result = compare(7, [1, 1], tolerance=0, relative=True, min_batches=3)
    assert result["result"]["details"]["note"] == "7; passes below 3 earlier batches (now 2)"
