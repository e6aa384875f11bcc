"""Collects what the alert rules need to know about each flow. Starts no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegate import dates, identity
from tidegate.alerting.facts import FlowRun, Observation
from tidegate.checkpoints import checkpoint, lease, progress, rewrite
from tidegate.ops import plans, store
from tidegate.place import FlowPlace
from tidegate.spec import FileSource
from tidegate.status import freshness
from tidegate.status.downstream import downstream_of
from tidegate.status.interval import interval_of

if TYPE_CHECKING:
    from tidegate.layout import Layout
    from tidegate.resolution import ResolvedPipeline
    from tidegate.spec import Flow, Pipeline
    from tidegate.status.flow_status import FlowStatus

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


def observe(
    layout: Layout,
    resolved: ResolvedPipeline,
    flow: Flow,
    status: FlowStatus,
    now: datetime,
) -> Observation:
    """Collect what the alert rules need to know about one flow."""
    pipeline = resolved.pipeline
    interval = interval_of(pipeline, now, resolved.declared)
    since = now - max(_LOOKBACK, timedelta(seconds=4 * (interval or 0)))
    quarantine, lag = status.quarantine, status.lag
    place = resolved.place(layout).flow(flow.name)
    planned, judged = plans.read(place), rewrite.refused(place)
    swap_refused = lag is not None and lag.refused_by == "limits"
    return Observation(
        pipeline=pipeline.name,
        flow=flow.name,
        downstream=downstream_of(flow.target.name, resolved.declared).flows,
        external_source=pipeline.reads_external(flow),
        interval_seconds=interval,
        cron=isinstance(pipeline.schedule, str),
        plans=planned,
        last_activity=None if planned else plans.last_activity(place.of_pipeline),
        runs=_runs(place, since),
        ends=status.ends,
        running_since=_running_since(layout, pipeline, flow, status),
        behind=lag.behind if lag is not None else None,
        unread_since=dates.moment(lag.unread_since_ms) if lag is not None else None,
        lag_rows=lag.rows if lag is not None else None,
        lag_exact=lag.rows_exact if lag is not None else True,
        error=status.problem,
        late=status.late,
        refused=lag.reason if lag is not None and lag.refused and not swap_refused else None,
        refused_rewrite=lag.reason if lag is not None and swap_refused else judged.summary() if judged else None,
        quarantine_open=quarantine.open if quarantine is not None else None,
        quarantine_oldest=quarantine.oldest if quarantine is not None else None,
        newest_event=_newest_event(layout, pipeline, flow, now),
        takes_batches=flow.kind.takes_batches,
        stateful=flow.kind.stateful,
        operator_state=status.operator_state,
        earlier_state=status.earlier_state,
        watermarked=flow.watermark is not None,
        reads_files=isinstance(flow.source, FileSource),
        rewritten=lag.rewritten if lag is not None else None,
        first_offsets=lag.first_offsets if lag is not None else {},
        unread=lag.unread if lag is not None else {},
        unread_until=dates.moment(lag.unread_until_ms) if lag is not None else None,
        # Not from the lag, which is unknown when the source is gone, perhaps the reason for the decision.
        switched_off=status.off is not None,
    )


def _runs(place: FlowPlace, since: datetime) -> tuple[FlowRun, ...]:
    """Incremental runs with a batch of the flow, oldest first: counts from the ledger, times from Spark's query progress."""
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


def _running_since(layout: Layout, pipeline: Pipeline, flow: Flow, status: FlowStatus) -> datetime | None:
    """When the batch that is being written now began; a rerun of a batch counts from the start of its job.

    None also if that job has ended since the status was read: the batch may have been planned, and refused, days ago.
    """
    batch = status.lag.pending_batch if status.lag is not None else None
    if batch is None or status.holder is None:
        return None
    began = lease.last_acquired(layout, lease.checkpoint_resource(pipeline.name, flow.name))
    folder = checkpoint.current(layout, pipeline, flow).checkpoint
    planned = datetime.fromtimestamp(progress.planned_batch(folder, batch).timestamp_ms / 1000, UTC)
    return None if began is None else max(planned, began)


def _newest_event(layout: Layout, pipeline: Pipeline, flow: Flow, now: datetime) -> datetime | None:
    """The newest event time in the flow's table, if the freshness rule is enabled."""
    column = flow.target.event_time
    if column is None or pipeline.thresholds_of(flow).freshness_hours is None:
        return None
    return freshness.newest(layout.table(flow.target.name), column, now)
