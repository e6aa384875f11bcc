"""Rows per second of a flow's runs, compared with what arrives and with the week. Pure functions."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.alerting.facts import Observation

_RUNS_FOR_A_RATE = 2
"""Number of runs that a rate of arrival needs: the rows of the last one arrived since the one before."""
_ROWS_FOR_A_RATE = 1_000
"""With at least so many rows the rate is used even if two runs followed each other closely."""
_SECONDS_FOR_A_RATE = 120.0
"""The assumed interval of a pipeline without a schedule."""
_COMPARABLE_RUNS = 5
"""Number of earlier runs that a comparison with the week needs."""
_SECONDS_LOST = 10.0
"""A run that is slower by less is not worth an alert: the time of few rows is the time of Spark's start."""


def knows_arrival(observation: Observation) -> bool:
    """Whether the last two runs show at which rate rows arrive."""
    if len(observation.runs) < _RUNS_FOR_A_RATE:
        return False
    before, last = observation.runs[-2:]
    between = (last.started_at - before.started_at).total_seconds()
    if not last.rows or last.seconds <= 0 or between <= 0:
        return False
    # Few rows of two manual runs in quick succession give no rate. Half of the interval, because a scheduled run may start
    # late and the next one on time.
    interval = observation.interval_seconds if observation.interval_seconds is not None else _SECONDS_FOR_A_RATE
    return between >= interval / 2 or last.rows >= _ROWS_FOR_A_RATE


def slow(observation: Observation, share: float) -> str | None:
    """What the rates are, if the last run processed less than a share of what arrives."""
    before, last = observation.runs[-2:]
    arriving = last.rows / (last.started_at - before.started_at).total_seconds()
    processed = last.rows / last.seconds
    if processed >= arriving * share:
        return None
    return f"{processed:,.1f} rows/s processed, {arriving:,.1f} rows/s arrive: {processed / arriving:.0%}, under {share:.0%}"


def comparable(observation: Observation) -> float | None:
    """The median rate of the earlier runs that the last one may be compared with, in rows per second; None for too few.

    These are the runs with no more rows: a run with more rows has, if anything, a higher rate, because its start takes a
    smaller part of its time.
    """
    if not observation.runs or not observation.runs[-1].rows or observation.runs[-1].seconds <= 0:
        return None
    rates = [
        run.rows / run.seconds
        for run in observation.runs[:-1]
        if 0 < run.rows <= observation.runs[-1].rows and run.seconds > 0
    ]
    return median(rates) if len(rates) >= _COMPARABLE_RUNS else None


def dropped(observation: Observation, share: float) -> str | None:
    """What the rates are, if the last run's is below a share of the week's."""
    last, usual = observation.runs[-1], comparable(observation)
    assert usual is not None
    rate = last.rows / last.seconds
    if rate >= usual * share or last.seconds - last.rows / usual < _SECONDS_LOST:
        return None
    return (
        f"{rate:,.1f} rows/s processed, {usual:,.1f} rows/s is the week's median: {rate / usual:.0%}, under {share:.0%}"
    )
