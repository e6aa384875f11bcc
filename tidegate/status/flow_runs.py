"""The last incremental runs of a flow, and the batch that is being written. Starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegate.checkpoints import lease, progress
from tidegate.lake import identity
from tidegate.ops import store
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.lake.place import FlowPlace, Place

_LOOKBACK = timedelta(days=7)
"""Runs of this period are used for rates and quarantine shares; at least four intervals of the schedule."""

_RUNS = """
SELECT run_key, min(recorded_at) AS first_at, sum(read) AS read, sum(quarantined) AS quarantined, sum(late) AS late,
    sum(files_opened) AS files, sum(files_quarantined) AS files_quarantined, sum(seconds) AS seconds,
    max(seconds) AS longest, first_value(seconds ORDER BY recorded_at) AS first_seconds
FROM delta_table WHERE flow = '{flow}' AND mode = 'incremental' AND {batches} AND recorded_at > {since}
GROUP BY run_key
"""
_PROGRESS = """
SELECT run_key, batch_id, started_at, trigger_ms
FROM delta_table WHERE flow = '{flow}' AND mode = 'incremental' AND recorded_at > {since}
ORDER BY started_at
"""


@dataclass(frozen=True, kw_only=True)
class FlowRun:
    """One incremental run of a flow: the sums of its Spark progress and its ledger lines."""

    started_at: datetime
    rows: int
    """Rows read."""
    seconds: float
    """Sum over its batches."""
    longest_batch: float = 0.0
    """Seconds of its longest batch."""
    quarantined_share: float = 0.0
    """Quarantined share of its rows, or of its files if that is larger."""
    late: int = 0
    """Rows that came later than the watermark's delay."""


def read(place: FlowPlace, now: datetime, interval_seconds: float | None) -> tuple[FlowRun, ...]:
    """Incremental runs with a batch of the flow, oldest first: counts from the ledger, times from Spark's query progress.

    Args:
        interval_seconds: Of the pipeline's schedule, if it is known.
    """
    since = now - max(_LOOKBACK, timedelta(seconds=4 * (interval_seconds or 0)))
    parameters = {"flow": place.flow, "batches": identity.IS_BATCH, "since": dates.literal(since)}
    recorded = store.select(place.of_pipeline.ops("ledger"), _RUNS.format(**parameters))
    batches: dict[str, list[dict[str, Any]]] = {}
    for line in store.select(place.of_pipeline.ops("progress"), _PROGRESS.format(**parameters)):
        batches.setdefault(line["run_key"], []).append(line)
    runs = [_run(line, batches.get(line["run_key"], [])) for line in recorded]
    return tuple(sorted(runs, key=lambda run: run.started_at))


def _run(line: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]) -> FlowRun:
    files = (line["files"] or 0) + (line["files_quarantined"] or 0)
    shares = [
        (line[column] or 0) / total
        for column, total in (("quarantined", line["read"]), ("files_quarantined", files))
        if total
    ]
    begun = line["first_at"] - timedelta(seconds=line["first_seconds"] or 0)
    triggers = [each["trigger_ms"] / 1000 for each in batches]
    return FlowRun(
        started_at=batches[0]["started_at"] if batches else begun,
        rows=line["read"] or 0,
        seconds=sum(triggers) if batches else float(line["seconds"] or 0),
        longest_batch=max(triggers) if batches else float(line["longest"] or 0),
        quarantined_share=max(shares, default=0.0),
        late=line["late"] or 0,
    )


def began(place: Place, batch: int) -> datetime | None:
    """When a batch that is being written now began; a rerun of a batch counts from the start of its job.

    None also if that job has ended meanwhile: the batch may have been planned, and refused, days ago.
    """
    acquired = lease.last_acquired(place.layout, lease.checkpoint_resource(place.pipeline, place.flow))
    planned = datetime.fromtimestamp(progress.planned_batch(place.checkpoint, batch).timestamp_ms / 1000, UTC)
    return None if acquired is None else max(planned, acquired)
