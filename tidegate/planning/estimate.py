"""Estimates the duration of a flow from earlier batches in its ledger.

Most of the duration of a small batch does not depend on its rows. So a fixed duration and a duration per row are fitted.
Batches of the same mode (backfills for a backfill) are used if there are any, otherwise increments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

from tidegate import identity
from tidegate.ops import store

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.layout import Layout
    from tidegate.request import Mode

_MAX_LINES = 50
"""How many of the newest ledger lines are used; older ones may be of another machine or other code."""

_INCREMENTS = f"""
SELECT read, seconds FROM delta_table
WHERE flow = '{{flow}}' AND {identity.IS_BATCH} AND read > 0 AND seconds > 0
ORDER BY recorded_at DESC LIMIT {{limit}}
"""
_REINGESTS = f"""
SELECT read, seconds FROM delta_table
WHERE flow = '{{flow}}' AND kind = 'append' AND app_id LIKE '%/{identity.WINDOW}' AND read > 0 AND seconds > 0
ORDER BY recorded_at DESC LIMIT {{limit}}
"""
# For groups, ``read`` is the number of affected groups.
_BACKFILLS = f"""
SELECT read, seconds FROM delta_table
WHERE flow = '{{flow}}' AND kind IN ('backfill', 'recompute') AND app_id LIKE '%/{identity.WINDOW}' AND seconds > 0
ORDER BY recorded_at DESC LIMIT {{limit}}
"""
_REFRESHES = """
SELECT sum(read) AS read, sum(seconds) AS seconds, max(recorded_at) AS at FROM delta_table
WHERE flow = '{flow}'
GROUP BY run_key, checkpoint_version, refresh HAVING max(CASE WHEN kind = 'swap' THEN 1 ELSE 0 END) = 1 AND sum(read) > 0
ORDER BY at DESC LIMIT {limit}
"""
_BY_MODE: dict[Mode, str] = {"backfill": _BACKFILLS, "reingest": _REINGESTS, "full_refresh": _REFRESHES}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimated duration of one flow's batches in seconds, without the start of Spark."""

    seconds: float
    at_most: bool
    """Whether it is an upper bound, because all earlier batches had about the same size."""
    alike: bool
    """Whether it is based on runs of the same mode instead of increments."""

    def summary(self) -> str:
        """For messages, for example ``about 40 s by earlier increments``."""
        source = "runs of the same mode" if self.alike else "increments"
        return f"{'at most' if self.at_most else 'about'} {self.seconds:,.0f} s by earlier {source}"


def estimate(
    layout: Layout, pipeline: str, flow: str, mode: Mode, rows: int | None, affected: int | None
) -> Estimate | None:
    """The estimated duration of a flow; None without earlier batches, or if the number of rows is unknown.

    Args:
        layout: The lake.
        pipeline: The pipeline's name.
        flow: The flow's name.
        mode: The mode of the run.
        rows: Rows of the source that the flow reads.
        affected: For a backfill: the source rows of its keys, or the groups of a flow that recomputes groups; None if
            unknown.
    """
    ledger = layout.ops(pipeline, "ledger")
    if mode in _BY_MODE:
        points = _points(ledger, _BY_MODE[mode], flow)
        size = rows if affected is None or mode == "full_refresh" else affected
        if points and size is not None:
            seconds, at_most = fit(points, size)
            return Estimate(seconds=seconds, at_most=at_most, alike=True)
    increments = _points(ledger, _INCREMENTS, flow)
    if not increments or rows is None:
        return None
    seconds, at_most = fit(increments, rows)
    return Estimate(seconds=seconds, at_most=at_most, alike=False)


def fit(points: Sequence[tuple[int, float]], rows: int) -> tuple[float, bool]:
    """The duration of a batch in seconds, and whether it is only an upper bound.

    The duration per row is the median slope over all pairs of batches (Theil-Sen estimator), which is robust against
    single slow batches.

    Args:
        points: Rows and seconds of earlier batches, at least one.
        rows: The number of rows of the batch.
    """
    slopes = [
        (right[1] - left[1]) / (right[0] - left[0])
        for left, right in combinations(sorted(points), 2)
        # Between batches of similar size, the difference is mostly noise.
        if right[0] >= 2 * left[0] and right[0] > 0
    ]
    per_row = median(slopes) if slopes else 0.0
    if per_row > 0:
        fixed = max(0.0, median(seconds - per_row * read for read, seconds in points))
        return round(fixed + per_row * rows, 1), False
    longest = max(seconds for _, seconds in points)
    largest = max(read for read, _ in points)
    return round(longest * max(1.0, rows / max(largest, 1)), 1), rows > largest


def _points(ledger: Path, sql: str, flow: str) -> list[tuple[int, float]]:
    lines = store.select(ledger, sql.format(flow=flow, limit=_MAX_LINES))
    return [(int(line["read"]), float(line["seconds"])) for line in lines]
