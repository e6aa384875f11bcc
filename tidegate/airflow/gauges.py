"""What goes to Airflow's own metrics (StatsD or OpenTelemetry, as Airflow is configured): ``tidegate.<pipeline>.<flow>.<metric>``.

==================  =========  ==================================================================================
metric              kind       what
==================  =========  ==================================================================================
``lag_rows``        gauge      rows behind, as `plan` or the DAG `alerts` found; not sent while nobody can tell
``lag_bytes``       gauge      bytes behind
``rows_read``       gauge      rows that the last run read
``rows_written``    gauge      of them, what it wrote
``rows_quarantined``  gauge    of them, what it set aside
``batch``           timer      how long each micro-batch of the last run took
``open_alerts``     gauge      open alerts of the flow
==================  =========  ==================================================================================

The Spark application runs elsewhere and knows nothing of Airflow, so the light tasks send what it reported.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk.observability import stats

if TYPE_CHECKING:
    from tidegate.episodes import Episode
    from tidegate.lag import Lag
    from tidegate.report import FlowReport

log = logging.getLogger(__name__)


def tell_lags(pipeline: str, lags: Iterable[Lag]) -> None:
    """How far flows are behind."""
    for lag in lags:
        for metric, value in (("lag_rows", lag.rows), ("lag_bytes", lag.bytes)):
            if value is not None:
                _gauge(pipeline, lag.flow, metric, value)


def tell_batches(pipeline: str, report: FlowReport) -> None:
    """What a run did in a flow; nothing when it recorded no batch."""
    for batch in report.batches:
        _timing(pipeline, report.flow, "batch", timedelta(seconds=batch.seconds))
    if report.batches:
        for count in ("read", "written", "quarantined"):
            _gauge(pipeline, report.flow, f"rows_{count}", report.total(count))


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
