"""Metrics that are sent through Airflow (StatsD or OpenTelemetry, as configured): ``tidegate.<pipeline>.<flow>.<metric>``.

==================  =========  ==================================================================================
metric              kind       meaning
==================  =========  ==================================================================================
``lag_rows``        gauge      rows behind, measured by `plan` or the DAG `alerts`; not sent while unknown
``lag_bytes``       gauge      bytes behind
``rows_read``       gauge      rows that the last run read
``rows_written``    gauge      rows that the last run wrote
``rows_quarantined``  gauge    rows that the last run quarantined
``rows_per_second``  gauge     rows per second of the last run, by Spark's trigger times, all its batches together
``offsets_behind``  gauge      messages between the last run's end offset and the newest known offset; topics only
``state_rows``      gauge      rows of the state after the last run; stateful flows only, like the next three
``state_bytes``     gauge      bytes of the state's files
``state_memory_bytes``  gauge  memory that the state store used
``watermark_lag_seconds``  gauge  from the watermark to the start of the last run's last batch
``batch``           timer      duration of each batch of the last run
``quarantine_open``  gauge     open entries in the flow's quarantine, measured by the DAG `alerts`
``quarantine_age_hours``  gauge  age of the oldest open entry, 0 when there is none
``event_age_hours``  gauge     age of the newest event time in the table, if a threshold needs it
``open_alerts``     gauge      open alerts of the flow
==================  =========  ==================================================================================

The Spark application may run on another machine and does not use Airflow, so the tasks without a JVM send its run report and
the progress of Spark that it recorded in the lake.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tidegate.airflow.compat import stats

if TYPE_CHECKING:
    from tidegate.alerting.episodes import Episode
    from tidegate.reports.report import FlowReport
    from tidegate.status.reading import Reading

log = logging.getLogger(__name__)

_OF_LAST_BATCH = ("offsets_behind", "state_rows", "state_bytes", "state_memory_bytes", "watermark_lag_seconds")
"""Columns of Spark's progress that are gauges."""


def send_lags(readings: Iterable[Reading]) -> None:
    """Send how far flows are behind; unknown values are not sent."""
    for each in readings:
        lag = each.lag
        for metric, value in (("lag_rows", lag.rows), ("lag_bytes", lag.size)) if lag is not None else ():
            if value is not None:
                _gauge(each.pipeline, each.flow, metric, value)


def send_batches(pipeline: str, report: FlowReport, progress: Sequence[Mapping[str, Any]]) -> None:
    """Send the counts and times of a run in a flow; nothing when it recorded no batch.

    Args:
        progress: Spark's progress of the same batches (`tidegate.ops.metrics.read`); empty when none was recorded.
    """
    if not report.batches:
        return
    for batch in report.batches:
        _timing(pipeline, report.flow, "batch", timedelta(seconds=batch.seconds))
    for count in ("read", "written", "quarantined"):
        _gauge(pipeline, report.flow, f"rows_{count}", report.total(count))
    if not progress:
        return
    # Spark's own counts lack the rows of files that a landing batch opens itself, so rows are taken from the report.
    if seconds := sum(line["trigger_ms"] for line in progress) / 1000:
        _gauge(pipeline, report.flow, "rows_per_second", report.total("read") / seconds)
    for metric in _OF_LAST_BATCH:
        if (value := progress[-1].get(metric)) is not None:
            _gauge(pipeline, report.flow, metric, value)


def send_ages(readings: Iterable[Reading], now: datetime) -> None:
    """Send the number and age of open quarantine entries and the age of the newest event; unknown values are not sent."""
    from tidegate.status.reading import Reading

    for each in readings:
        entries, newest = each.known(Reading.quarantine), each.known(Reading.newest_event)
        if entries is not None:
            age = _hours(now, entries.oldest) if entries.open and entries.oldest is not None else 0
            _gauge(each.pipeline, each.flow, "quarantine_open", entries.open)
            _gauge(each.pipeline, each.flow, "quarantine_age_hours", age)
        if newest is not None:
            _gauge(each.pipeline, each.flow, "event_age_hours", _hours(now, newest))


def send_open_alerts(pipeline: str, flows: Iterable[str], open_episodes: Iterable[Episode]) -> None:
    """Send the number of open alerts of each flow.

    Args:
        flows: All declared flows; one without an alert gets 0.
    """
    counts = Counter(episode.flow for episode in open_episodes)
    for flow in flows:
        _gauge(pipeline, flow, "open_alerts", counts[flow])


def _hours(now: datetime, since: datetime) -> float:
    # pendulum's Interval cannot be divided by a timedelta.
    return (now - since).total_seconds() / 3600


def _gauge(pipeline: str, flow: str, metric: str, value: float) -> None:
    try:
        stats.gauge(f"tidegate.{pipeline}.{flow}.{metric}", value)
    except Exception as error:
        _log_failure(error)


def _timing(pipeline: str, flow: str, metric: str, value: timedelta) -> None:
    try:
        stats.timing(f"tidegate.{pipeline}.{flow}.{metric}", value)
    except Exception as error:
        _log_failure(error)


def _log_failure(error: Exception) -> None:
    # A metric never fails a task.
    log.warning("a metric was not sent: %s", type(error).__name__)
