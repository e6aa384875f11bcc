"""What earlier batches of a flow were like, from the verdicts table. Read with delta-rs, in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidegate import identity
from tidegate.ops import query, store

if TYPE_CHECKING:
    from tidegate.layout import Layout

KEPT = 1_000
"""How many of the flow's newest verdicts are looked at: drift is measured against the recent past."""

_BULK = ("full_refresh", "reingest")
"""Modes in which a flow reads all that there is, in batches that are like no increment."""


def read(layout: Layout, pipeline: str, flow: str, judged: tuple[str, int] | None) -> Iterator[dict[str, float]]:
    """What each rule observed, batch by batch, the newest first.

    A refused batch is not an example to follow, so it is left out. So are replays, which are no batches, and those
    batches by which a full refresh or a reingest filled another checkpoint. Of a batch that was judged twice (a crash
    came between verdict and write) the last judgement counts.

    Args:
        layout: Where the verdicts lie.
        pipeline: The pipeline's name.
        flow: The flow's.
        judged: Transaction id and number of what is judged now, which is left out; None when there is nothing.
    """
    known = {judged}
    for line in _lines(layout, pipeline, flow, identity.of_stream(judged[0]) if judged else ""):
        batch = (identity.app_id(line, pipeline), line["batch_id"])
        if batch in known:
            continue
        known.add(batch)
        results = json.loads(line["results"])
        yield {result["rule"]: result["observed"] for result in results if result.get("observed") is not None}


def _lines(layout: Layout, pipeline: str, flow: str, own: str) -> list[dict[str, Any]]:
    """The verdicts that let a batch of the flow pass, the newest first."""
    path = layout.ops(pipeline, "verdicts")
    # A table to which only older versions wrote lacks them.
    there = query.columns(path)
    newer = ", ".join(name if name in there else f"CAST(NULL AS string) AS {name}" for name in ("app_id", "mode"))
    bulk = ", ".join(f"'{mode}'" for mode in _BULK)
    # All names in it are checked ones, so none can end the literal that it stands in.
    return store.select(
        path,
        f"""
        SELECT * FROM (
            SELECT flow, {newer}, batch_id, results, checkpoint_version, refresh, recorded_at
            FROM held WHERE flow = '{flow}' AND outcome <> 'refused'
        )
        WHERE (app_id IS NULL OR app_id NOT LIKE '%/{identity.WINDOW}')
            AND (mode IS NULL OR mode NOT IN ({bulk}) OR '{own}' = coalesce(
                app_id, '{pipeline}/' || flow || '/v' || checkpoint_version || '/' || refresh
            ))
        ORDER BY recorded_at DESC LIMIT {KEPT}
        """,
    )
