"""What goes to Airflow's own metrics (StatsD or OpenTelemetry, as Airflow is configured): ``tidegate.<pipeline>.<flow>.<metric>``.

==================  =========  ==================================================================================
metric              kind       what
==================  =========  ==================================================================================
``lag_rows``        gauge      rows behind, as `plan` or the DAG `alerts` found; not sent while nobody can tell
``lag_bytes``       gauge      bytes behind
``rows_read``       gauge      rows that the last run read
``rows_written``    gauge      of them, what it wrote
``rows_quarantined``  gauge    of them, what it set aside
``rows_per_second``  gauge     rows that the last run read a second, by Spark's clock, all its batches together
``state_rows``      gauge      rows that the flow keeps as state after the last run
``rows_late``       gauge      rows that the last run dropped behind the watermark
``offsets_behind``  gauge      messages between the end of the last run and the newest that it saw; topics only
``batch``           timer      how long each micro-batch of the last run took
``quarantine_open``  gauge     entries of the flow's quarantine that are open, as the DAG `alerts` found
``quarantine_age_hours``  gauge  age of the oldest of them, 0 when there is none
``event_age_hours``  gauge     age of the newest event time in the table, where a threshold asks for it
``open_alerts``     gauge      open alerts of the flow
==================  =========  ==================================================================================

The Spark application runs elsewhere and knows nothing of Airflow, so the light tasks send what it reported, and what it
heard from Spark and left in the lake.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.observability import stats

if TYPE_CHECKING:
    from tidegate.alerting.alerts import Observation
    from tidegate.alerting.episodes import Episode
    from tidegate.report import FlowReport
    from tidegate.status.lag import Lag

log = logging.getLogger(__name__)


def tell_lags(pipeline: str, lags: Iterable[Lag]) -> None:
    """How far flows are behind."""
    for lag in lags:
        for metric, value in (("lag_rows", lag.rows), ("lag_bytes", lag.bytes)):
            if value is not None:
                _gauge(pipeline, lag.flow, metric, value)


def tell_batches(pipeline: str, report: FlowReport, progress: Sequence[Mapping[str, Any]]) -> None:
    """What a run did in a flow; nothing when it recorded no batch.

    Args:
        pipeline: Its name.
        report: What the application reported of the flow.
        progress: What Spark told of the same batches (`tidegate.ops.metrics.read`); empty when nobody heard it.
    """
    if not report.batches:
        return
    for batch in report.batches:
        _timing(pipeline, report.flow, "batch", timedelta(seconds=batch.seconds))
    for count in ("read", "written", "quarantined"):
        _gauge(pipeline, report.flow, f"rows_{count}", report.total(count))
    if not progress:
        return
    # Spark sees no row of the files that a landing batch opens itself, so the ledger's rows count.
    if seconds := sum(line["trigger_ms"] for line in progress) / 1000:
        _gauge(pipeline, report.flow, "rows_per_second", report.total("read") / seconds)
    _gauge(pipeline, report.flow, "state_rows", progress[-1]["state_rows"])
    _gauge(pipeline, report.flow, "rows_late", sum(line["late_rows"] for line in progress))
    if progress[-1]["offsets_behind"] is not None:
        _gauge(pipeline, report.flow, "offsets_behind", progress[-1]["offsets_behind"])


def tell_ages(pipeline: str, observations: Iterable[Observation], now: datetime) -> None:
    """How much waits in quarantine, for how long, and how old the newest data is; nothing of what nobody can tell.

    Args:
        pipeline: Its name.
        observations: Of its flows.
        now: When they were made.
    """
    for seen in observations:
        if seen.quarantine_open is not None:
            oldest = seen.quarantine_oldest if seen.quarantine_open else None
            _gauge(pipeline, seen.flow, "quarantine_open", seen.quarantine_open)
            _gauge(pipeline, seen.flow, "quarantine_age_hours", _hours(now, oldest) if oldest is not None else 0)
        if seen.newest_event is not None:
            _gauge(pipeline, seen.flow, "event_age_hours", _hours(now, seen.newest_event))


def tell_alerts(pipeline: str, flows: Iterable[str], open_ones: Iterable[Episode]) -> None:
    """How many alerts of each flow are open.

    Args:
        pipeline: Its name.
        flows: All that are declared: one without an alert has 0.
        open_ones: The open episodes.
    """
    counts = Counter(episode.flow for episode in open_ones)
    for flow in flows:
        _gauge(pipeline, flow, "open_alerts", counts[flow])


def _hours(now: datetime, since: datetime) -> float:
    # Not divided by a timedelta: pendulum's difference does not know how.
    return (now - since).total_seconds() / 3600


def _gauge(pipeline: str, flow: str, metric: str, value: float) -> None:
    try:
        stats.gauge(f"tidegate.{pipeline}.{flow}.{metric}", value)
    except Exception as error:
        _complain(error)


def _timing(pipeline: str, flow: str, metric: str, value: timedelta) -> None:
    try:
        stats.timing(f"tidegate.{pipeline}.{flow}.{metric}", value)
    except Exception as error:
        _complain(error)


def _complain(error: Exception) -> None:
    # A metric never fails a task.
    log.warning("a metric was not sent: %s", type(error).__name__)
