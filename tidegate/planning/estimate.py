"""How long a flow may take, from what its ledger remembers of earlier batches.

Most of a small batch's time is the same however many rows it brings. So what is taken from the history is a fixed part
and a part per row. What does as the run would do (a replay for a replay) tells more than increments do, where there is any.
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

_REMEMBERED = 50
"""Lines of the ledger, the newest; an older machine or an older code tells nothing."""

_INCREMENTS = f"""
SELECT read, seconds FROM held
WHERE flow = '{{flow}}' AND {identity.IS_BATCH} AND read > 0 AND seconds > 0
ORDER BY recorded_at DESC LIMIT {{limit}}
"""
_REINGESTS = f"""
SELECT read, seconds FROM held
WHERE flow = '{{flow}}' AND kind = 'append' AND app_id LIKE '%/{identity.WINDOW}' AND read > 0 AND seconds > 0
ORDER BY recorded_at DESC LIMIT {{limit}}
"""
# Of groups, ``read`` counts those that were named.
_REPLAYS = f"""
SELECT read, seconds FROM held
WHERE flow = '{{flow}}' AND kind IN ('rederive', 'recompute') AND app_id LIKE '%/{identity.WINDOW}' AND seconds > 0
ORDER BY recorded_at DESC LIMIT {{limit}}
"""
_REFRESHES = """
SELECT sum(read) AS read, sum(seconds) AS seconds, max(recorded_at) AS at FROM held
WHERE flow = '{flow}'
GROUP BY run_key, checkpoint_version, refresh HAVING max(CASE WHEN kind = 'swap' THEN 1 ELSE 0 END) = 1 AND sum(read) > 0
ORDER BY at DESC LIMIT {limit}
"""
_ALIKE: dict[Mode, str] = {"replay": _REPLAYS, "reingest": _REINGESTS, "full_refresh": _REFRESHES}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Seconds that one flow's batches may take, without the start of Spark."""

    seconds: float
    at_most: bool
    """All that is remembered is of one size, which does not tell the fixed part from the part per row."""
    alike: bool
    """From runs of the same mode, not from increments."""

    def told(self) -> str:
        """For people: ``about 40 s``."""
        source = "runs of the same mode" if self.alike else "increments"
        return f"{'at most' if self.at_most else 'about'} {self.seconds:,.0f} s by earlier {source}"


def estimate(
    layout: Layout, pipeline: str, flow: str, mode: Mode, rows: int | None, named: int | None
) -> Estimate | None:
    """How long a flow may take; None where no history, or no number of rows, tells.

    Args:
        layout: Where the ledger is.
        pipeline: Whose it is.
        flow: Which flow of it.
        mode: What the run would do.
        rows: Of the source, that are read.
        named: What a replay names: of a keyed flow those of the rows whose keys it derives anew, of a flow of groups the
            groups; None where nobody knows.
    """
    ledger = layout.ops(pipeline, "ledger")
    if mode in _ALIKE:
        alike = _points(ledger, _ALIKE[mode], flow)
        size = rows if named is None or mode == "full_refresh" else named
        if alike and size is not None:
            seconds, at_most = fitted(alike, size)
            return Estimate(seconds=seconds, at_most=at_most, alike=True)
    increments = _points(ledger, _INCREMENTS, flow)
    if not increments or rows is None:
        return None
    seconds, at_most = fitted(increments, rows)
    return Estimate(seconds=seconds, at_most=at_most, alike=False)


def fitted(points: Sequence[tuple[int, float]], rows: int) -> tuple[float, bool]:
    """Seconds for so many rows, and whether that is only an upper bound.

    The part per row is the median slope over all pairs of batches (Theil and Sen), which one slow batch does not bend.

    Args:
        points: Rows and seconds of earlier batches, at least one.
        rows: How many are to come.
    """
    slopes = [
        (right[1] - left[1]) / (right[0] - left[0])
        for left, right in combinations(sorted(points), 2)
        # Between batches of nearly the same size the difference is chance.
        if right[0] >= 2 * left[0] and right[0] > 0
    ]
    each = median(slopes) if slopes else 0.0
    if each > 0:
        fixed = max(0.0, median(seconds - each * read for read, seconds in points))
        return round(fixed + each * rows, 1), False
    longest = max(seconds for _, seconds in points)
    largest = max(read for read, _ in points)
    return round(longest * max(1.0, rows / max(largest, 1)), 1), rows > largest


def _points(ledger: Path, sql: str, flow: str) -> list[tuple[int, float]]:
    lines = store.select(ledger, sql.format(flow=flow, limit=_REMEMBERED))
    return [(int(line["read"]), float(line["seconds"])) for line in lines]
