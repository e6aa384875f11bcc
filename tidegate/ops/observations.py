"""Observations of earlier batches of a flow, from the verdicts table. Read with delta-rs, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tidegate.lake import identity
from tidegate.lake.place import FlowPlace
from tidegate.ops import store

MAX_VERDICTS = 1_000
"""How many of the flow's newest verdicts are read: a statistic compares with recent batches."""

_BULK = ("full_refresh", "reingest", "recover")
"""Modes in which a flow reads its whole source, in batches that do not resemble increments."""


def read(place: FlowPlace, judged: tuple[str, int] | None) -> Iterator[dict[str, float]]:
    """The observed value of each rule, batch by batch, the newest first.

    Refused and dropped batches are left out, because they do not show what is normal. So are backfills, and the batches with which a
    full refresh or a reingest filled another checkpoint. If a batch was judged twice (after a crash between verdict and
    write), the last judgement counts.

    Args:
        judged: Transaction id and number of the present batch, which is left out; None without one.
    """
    skipped = {judged}
    for line in _lines(place, identity.stream_app_id(judged[0]) if judged else ""):
        batch = (line["app_id"], line["batch_id"])
        if batch in skipped:
            continue
        skipped.add(batch)
        results = json.loads(line["results"])
        yield {result["rule"]: result["observed"] for result in results if result.get("observed") is not None}


def _lines(place: FlowPlace, own: str) -> list[dict[str, Any]]:
    """The flow's verdicts without refused and dropped batches, the newest first."""
    bulk = ", ".join(f"'{mode}'" for mode in _BULK)
    # All names are validated, so none of them can end an SQL literal.
    path = place.of_pipeline.ops("verdicts")
    return store.select(
        path,
        f"""
        SELECT app_id, batch_id, results FROM delta_table
        WHERE flow = '{place.flow}' AND outcome NOT IN ('refused', 'dropped') AND app_id NOT LIKE '%/{identity.WINDOW}'
            AND (mode NOT IN ({bulk}) OR app_id = '{own}')
        ORDER BY {store.newest_first(store.ordering(path))} LIMIT {MAX_VERDICTS}
        """,
    )
