"""Rows per second of a flow's runs, compared with what arrives and with the week. Functions as those of `tidegate.alerting.conditions`."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from tidegate.alerting.conditions import last_run
from tidegate.alerting.facts import UnknownFactError

if TYPE_CHECKING:
    from tidegate.status.reading import Reading

_ROWS_FOR_A_RATE = 1_000
"""With at least so many rows the rate is used even if two runs followed each other closely."""
_SECONDS_FOR_A_RATE = 120.0
"""The assumed interval of a pipeline without a schedule."""
_COMPARABLE_RUNS = 5
"""Number of earlier runs that a comparison with the week needs."""
_SECONDS_LOST = 10.0
"""A run that is slower by less is not worth an alert: the time of few rows is the time of Spark's start."""


def slow(reading: Reading, limit: float) -> str | None:
    """What the rates are, if the last run processed less than a share of what arrives."""
    # The rows of the last run arrived since the one before.
    last, earlier = last_run(reading), reading.runs[:-1]
    between = (last.started_at - earlier[-1].started_at).total_seconds() if earlier else 0
    if not last.rows or last.seconds <= 0 or between <= 0:
        raise UnknownFactError
    # Few rows of two manual runs in quick succession give no rate. Half of the interval, because a scheduled run may start
    # late and the next one on time.
    interval = reading.interval_seconds
    if between < (_SECONDS_FOR_A_RATE if interval is None else interval) / 2 and last.rows < _ROWS_FOR_A_RATE:
        raise UnknownFactError
    arriving, processed = last.rows / between, last.rows / last.seconds
    if processed >= arriving * limit:
        return None
    share = f"{processed / arriving:.0%}, under {limit:.0%}"
    return f"{processed:,.1f} rows/s processed, {arriving:,.1f} rows/s arrive: {share}"


def rate_drop(reading: Reading, limit: float) -> str | None:
    """What the rates are, if the last run's is below a share of the week's.

    It is compared with the runs that had no more rows: a run with more rows has, if anything, a higher rate, because its start
    takes a smaller part of its time.
    """
    last = last_run(reading)
    comparable = [run for run in reading.runs[:-1] if 0 < run.rows <= last.rows and run.seconds > 0]
    if last.seconds <= 0 or len(comparable) < _COMPARABLE_RUNS:
        raise UnknownFactError
    rate, usual = last.rows / last.seconds, median(run.rows / run.seconds for run in comparable)
    if rate >= usual * limit or last.seconds - last.rows / usual < _SECONDS_LOST:
        return None
    share = f"{rate / usual:.0%}, under {limit:.0%}"
    return f"{rate:,.1f} rows/s processed, {usual:,.1f} rows/s is the week's median: {share}"
