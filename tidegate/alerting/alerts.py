"""The alert rules: evaluates the observation of a flow against its thresholds. Pure functions.

==================  =================================================================  ================================
rule                true while                                                         threshold
==================  =================================================================  ================================
``unreadable``      the source or the checkpoint cannot be read
``refused``         a batch waits that a gate refused
``missed``          the last plan is too many intervals ago                            ``missed_runs``
``no_input``        the last runs found nothing new in an external source              ``no_input_runs``
``slow``            the last run processed rows slower than they arrive                ``processed_share``
``long``            the last run's batches took longer than the schedule's interval    ``run_seconds``
``lag``             the lag has too many rows                                          ``lag_rows``
``lag_growing``     the lag has grown in several runs in a row                         ``lag_growing_runs``
``expiring``        a topic will soon delete unread messages                           ``expiry_runs``
``quarantine``      the last run quarantined too large a share                         ``quarantine_share``
``quarantine_rows`` too many entries are open in quarantine                            ``quarantine_rows``
``quarantine_age``  the oldest open quarantine entry is too old                        ``quarantine_hours``
``freshness``       the newest event time in the table is too old                      ``freshness_hours``
==================  =================================================================  ================================

A rule without the values that it needs is undecided: it opens no episode, and resolves none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from tidegate import formatting
from tidegate.alerting import expiry

if TYPE_CHECKING:
    from tidegate.spec.thresholds import Thresholds

_RUNS_FOR_A_RATE = 2
"""Number of runs that a rate needs: the rows of the last one arrived since the one before."""
_ROWS_FOR_A_RATE = 1_000
"""With at least so many rows the rate is used even if two runs followed each other closely."""
_SECONDS_FOR_A_RATE = 120.0
"""The assumed interval of a pipeline without a schedule."""


@dataclass(frozen=True, kw_only=True)
class PlannedLag:
    """The lag of a flow in one plan, whether or not the run had work."""

    at: datetime
    behind: int | None
    """Number of files, messages or table versions; None when the source or the checkpoint could not be read."""
    rows: int | None
    """None if unknown."""
    first_offsets: Mapping[int, int] = field(default_factory=dict)
    """Only for a topic: partition to its first offset."""


@dataclass(frozen=True, kw_only=True)
class FlowRun:
    """One incremental run of a flow: the sums of its Spark progress and its ledger lines."""

    started_at: datetime
    rows: int
    """Rows read."""
    seconds: float
    """Sum over its batches."""
    quarantined_share: float | None = None
    """Quarantined share of its rows, or of its files if that is larger; None before there is a ledger line."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The measured values of one flow at one time. None and empty mean unknown."""

    flow: str
    external_source: bool
    """Whether no flow of the same pipeline writes its source."""
    interval_seconds: float | None = None
    """Of the schedule; None without a cron schedule."""
    plans: tuple[PlannedLag, ...] = ()
    """Oldest first."""
    last_activity: datetime | None = None
    """The last plan of any flow of the pipeline; before the first plan, the first evaluation of alerts."""
    runs: tuple[FlowRun, ...] = ()
    """Oldest first."""
    lag_rows: int | None = None
    lag_exact: bool = True
    measured: bool = True
    """Whether lag, refusal and error were measured at all."""
    error: str | None = None
    """Why the source or the checkpoint cannot be read."""
    refused: str | None = None
    """Which refused batch waits, and for what."""
    quarantine_open: int | None = None
    quarantine_oldest: datetime | None = None
    """When the oldest open entry was quarantined."""
    newest_event: datetime | None = None
    """The newest event time in the target, not counting values in the future."""
    first_offsets: Mapping[int, int] = field(default_factory=dict)
    """Only for a topic: partition to its first offset now."""
    unread: Mapping[int, int] = field(default_factory=dict)
    """Only for a topic: partition to the next offset to read, without the partitions that are read to the end."""
    switched_off: bool = False
    """Whether a person switched the flow off; then a growing lag is expected."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One rule of one flow that is true now."""

    flow: str
    rule: str
    message: str
    """The observed value and the limit; numbers and names only, never a data value."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The result of one evaluation of a flow."""

    flow: str
    alerts: tuple[Alert, ...]
    undecided: frozenset[str]
    """Rules without the values that they need."""


class _UndecidedError(Exception):
    """A rule has not the values that it needs."""


def evaluate(thresholds: Thresholds, observation: Observation, now: datetime) -> Findings:
    """Evaluate every rule.

    Args:
        now: Timezone-aware.
    """
    alerts: list[Alert] = []
    undecided: set[str] = set()
    for rule, check in RULES.items():
        if observation.switched_off and rule in ONLY_WHILE_SWITCHED_ON:
            continue
        try:
            message = check(thresholds, observation, now)
        except _UndecidedError:
            undecided.add(rule)
            continue
        if message is not None:
            alerts.append(Alert(flow=observation.flow, rule=rule, message=message))
    return Findings(flow=observation.flow, alerts=tuple(alerts), undecided=frozenset(undecided))


def _unreadable(_: Thresholds, observation: Observation, __: datetime) -> str | None:
    if not observation.measured:
        raise _UndecidedError
    return observation.error


def _refused(_: Thresholds, observation: Observation, __: datetime) -> str | None:
    if not observation.measured or observation.error is not None:
        raise _UndecidedError
    return observation.refused


def _missed(limits: Thresholds, observation: Observation, now: datetime) -> str | None:
    if limits.missed_runs is None or observation.interval_seconds is None:
        return None
    # A DAG that is missing, does not load or was never unpaused has no plan.
    last = observation.plans[-1].at if observation.plans else observation.last_activity
    if last is None:
        raise _UndecidedError
    waited = now - last
    # A run is planned at the end of its interval, so one interval without a plan is normal.
    if waited.total_seconds() <= observation.interval_seconds * (limits.missed_runs + 1):
        return None
    runs = formatting.count(limits.missed_runs, "run")
    if not observation.plans:
        return f"no run was planned in the {formatting.span(waited)} since alerts were first evaluated: at least {runs} missed"
    return f"no run was planned for {formatting.span(waited)}: at least {runs} missed"


def _no_input(limits: Thresholds, observation: Observation, _: datetime) -> str | None:
    if limits.no_input_runs is None or not observation.external_source:
        return None
    last = observation.plans[-limits.no_input_runs :]
    if len(last) < limits.no_input_runs:
        raise _UndecidedError
    if any(plan.behind for plan in last):
        return None
    if any(plan.behind is None for plan in last):
        # The source was unreachable in at least one of them, so it is unknown whether there was something new.
        raise _UndecidedError
    return f"nothing new in the last {formatting.count(limits.no_input_runs, 'run')}"


def _slow(limits: Thresholds, observation: Observation, _: datetime) -> str | None:
    if limits.processed_share is None:
        return None
    if len(observation.runs) < _RUNS_FOR_A_RATE:
        raise _UndecidedError
    before, last = observation.runs[-2:]
    between = (last.started_at - before.started_at).total_seconds()
    if not last.rows or last.seconds <= 0 or between <= 0:
        raise _UndecidedError
    # Few rows of two manual runs in quick succession give no rate. Half of the interval, because a scheduled run may start
    # late and the next one on time.
    interval = observation.interval_seconds if observation.interval_seconds is not None else _SECONDS_FOR_A_RATE
    if between < interval / 2 and last.rows < _ROWS_FOR_A_RATE:
        raise _UndecidedError
    arriving, processed = last.rows / between, last.rows / last.seconds
    if processed >= arriving * limits.processed_share:
        return None
    share = f"{processed / arriving:.0%}"
    return (
        f"{processed:,.1f} rows/s processed, {arriving:,.1f} rows/s arrive: {share}, under {limits.processed_share:.0%}"
    )


def _long(limits: Thresholds, observation: Observation, _: datetime) -> str | None:
    limit = limits.run_seconds if limits.run_seconds is not None else observation.interval_seconds
    if limit is None:
        return None
    if not observation.runs:
        raise _UndecidedError
    took = observation.runs[-1].seconds
    if took <= limit:
        return None
    return f"the last run's batches took {formatting.span(timedelta(seconds=took))}, more than {formatting.span(timedelta(seconds=limit))}"


def _lag(limits: Thresholds, observation: Observation, _: datetime) -> str | None:
    if limits.lag_rows is None:
        return None
    if observation.lag_rows is None:
        raise _UndecidedError
    if observation.lag_rows <= limits.lag_rows:
        return None
    return f"{formatting.approximate(f'{observation.lag_rows:,}', observation.lag_exact)} rows behind, more than {limits.lag_rows:,}"


def _lag_growing(limits: Thresholds, observation: Observation, _: datetime) -> str | None:
    if limits.lag_growing_runs is None:
        return None
    last = [plan.rows for plan in observation.plans[-limits.lag_growing_runs - 1 :]]
    measured = [rows for rows in last if rows is not None]
    if len(measured) <= limits.lag_growing_runs:
        raise _UndecidedError
    if not all(earlier < later for earlier, later in pairwise(measured)):
        return None
    return f"lag grew {limits.lag_growing_runs} runs in a row, from {measured[0]:,} to {measured[-1]:,} rows"


def _expiring(limits: Thresholds, observation: Observation, now: datetime) -> str | None:
    if limits.expiry_runs is None:
        return None
    if not observation.measured or observation.error is not None:
        raise _UndecidedError
    remaining = expiry.time_to_expiry(observation.plans, observation.first_offsets, observation.unread, now)
    allowed = expiry.limit(limits.expiry_runs, observation.interval_seconds)
    if remaining is None or remaining >= allowed:
        return None
    return f"the topic will delete unread messages in ~{formatting.span(remaining)}, sooner than {formatting.span(allowed)}"


def _quarantine(limits: Thresholds, observation: Observation, _: datetime) -> str | None:
    if limits.quarantine_share is None:
        return None
    share = _last_run(observation).quarantined_share
    if share is None:
        raise _UndecidedError
    if share <= limits.quarantine_share:
        return None
    return f"{share:.1%} of the last run went to quarantine, more than {limits.quarantine_share:.1%}"


def _quarantine_rows(limits: Thresholds, observation: Observation, _: datetime) -> str | None:
    if limits.quarantine_rows is None:
        return None
    if observation.quarantine_open is None:
        raise _UndecidedError
    if observation.quarantine_open <= limits.quarantine_rows:
        return None
    entries = formatting.count(observation.quarantine_open, "entry is", "entries are")
    return f"{entries} open in quarantine, more than {limits.quarantine_rows:,}"


def _quarantine_age(limits: Thresholds, observation: Observation, now: datetime) -> str | None:
    if limits.quarantine_hours is None:
        return None
    if observation.quarantine_open is None:
        raise _UndecidedError
    if not observation.quarantine_open or observation.quarantine_oldest is None:
        return None
    waited = now - observation.quarantine_oldest
    if waited <= timedelta(hours=limits.quarantine_hours):
        return None
    entries = formatting.count(observation.quarantine_open, "entry is", "entries are")
    limit = formatting.span(timedelta(hours=limits.quarantine_hours))
    return f"{entries} open in quarantine, the oldest for {formatting.span(waited)}, more than {limit}"


def _freshness(limits: Thresholds, observation: Observation, now: datetime) -> str | None:
    if limits.freshness_hours is None:
        return None
    if observation.newest_event is None:
        raise _UndecidedError
    age = now - observation.newest_event
    if age <= timedelta(hours=limits.freshness_hours):
        return None
    return f"the newest event is {formatting.span(age)} old, more than {formatting.span(timedelta(hours=limits.freshness_hours))}"


def _last_run(observation: Observation) -> FlowRun:
    if not observation.runs:
        raise _UndecidedError
    return observation.runs[-1]


RULES: Mapping[str, Callable[[Thresholds, Observation, datetime], str | None]] = {
    "unreadable": _unreadable,
    "refused": _refused,
    "missed": _missed,
    "no_input": _no_input,
    "slow": _slow,
    "long": _long,
    "lag": _lag,
    "lag_growing": _lag_growing,
    "expiring": _expiring,
    "quarantine": _quarantine,
    "quarantine_rows": _quarantine_rows,
    "quarantine_age": _quarantine_age,
    "freshness": _freshness,
}
"""Rule name to its check, which returns the alert's message or None."""
ONLY_WHILE_SWITCHED_ON = frozenset({"missed", "no_input", "lag", "lag_growing", "freshness"})
"""Rules that are not evaluated for a flow that is switched off; their open alerts are resolved."""
