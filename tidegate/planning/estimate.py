"""Estimates the duration of a flow from earlier batches in its ledger: of the same mode if there are any, else increments.

Most of the duration of a small batch does not depend on its rows, so the estimate is the median duration. It is scaled only
beyond the largest of these batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from tidegate.lake import identity
from tidegate.lake.place import FlowPlace
from tidegate.ops import store

if TYPE_CHECKING:
    from tidegate.store import Address


_MAX_LINES = 50
"""How many of the newest ledger lines are used; older ones may be of another machine or other code."""
_BACKFILL_TO_INCREMENT = 2
"""The duration of a flow's first backfill divided by the estimate from increments. `benchmarks/increment.py --backfill`
measured 1.6 to 3.2 for one day, and 1.4 times the processor seconds of that day's increment."""

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
_BY_MODE = {"backfill": _BACKFILLS, "reingest": _REINGESTS, "full_refresh": _REFRESHES}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimated duration of one flow's batches, without the start of Spark."""

    seconds: float
    source: str
    """The batches that it is based on, to follow "by earlier"."""

    def summary(self) -> str:
        """For messages, for example ``about 40 s by earlier increments``."""
        return f"about {self.seconds:,.0f} s by earlier {self.source}"


def estimate(place: FlowPlace, mode: str, rows: int | None) -> Estimate | None:
    """The estimated duration of a flow; None without earlier batches, or if the number of rows is unknown.

    Args:
        rows: Rows that the flow derives; groups, for a backfill of a flow that recomputes groups.
    """
    if rows is None:
        return None
    ledger = place.of_pipeline.ops("ledger")
    if mode in _BY_MODE and (alike := _points(ledger, _BY_MODE[mode], place.flow)):
        return Estimate(seconds=_duration(alike, rows), source="runs of the same mode")
    if not (increments := _points(ledger, _INCREMENTS, place.flow)):
        return None
    seconds = _duration(increments, rows)
    if mode != "backfill":
        return Estimate(seconds=seconds, source="increments")
    return Estimate(seconds=seconds * _BACKFILL_TO_INCREMENT, source=f"increments, times {_BACKFILL_TO_INCREMENT}")


def _duration(points: list[tuple[int, float]], rows: int) -> float:
    """The median of the seconds of earlier batches, in proportion to the rows if the batch is larger than all of them."""
    largest = max(1, *(read for read, _ in points))
    return round(median(seconds for _, seconds in points) * max(1.0, rows / largest), 1)


def _points(ledger: Address, sql: str, flow: str) -> list[tuple[int, float]]:
    lines = store.select(ledger, sql.format(flow=flow, limit=_MAX_LINES))
    return [(int(line["read"]), float(line["seconds"])) for line in lines]
