"""Which flows are worth an alert now, by what was observed of them and their thresholds. Pure.

==================  =================================================================  ================================
rule                is true while                                                      threshold
==================  =================================================================  ================================
``unreadable``      the source or the checkpoint cannot be read
``refused``         a batch that a gate refused waits
``missed``          the last planned run is too many intervals ago                     ``missed_runs``
``no_input``        the last runs found nothing new in a source from outside           ``no_input_runs``
``slow``            the last run processed rows slower than they arrive                ``processed_share``
``long``            the last run's batches took longer than the interval               ``run_seconds``
``lag``             too many rows are behind                                           ``lag_rows``
``lag_growing``     the lag that runs met has grown again and again                    ``lag_growing_runs``
``expiring``        a topic will soon have deleted messages that were not read         ``expiry_runs``
``state``           a stateful query keeps too many rows                               ``state_rows``
``late``            the last run dropped rows behind the watermark                     ``late_rows``
``quarantine``      the last run set too large a share aside                           ``quarantine_share``
``quarantine_rows`` too many entries are open in quarantine                            ``quarantine_rows``
``quarantine_age``  something has been open in quarantine for too long                 ``quarantine_hours``
``freshness``       the newest event time in the table is too old                      ``freshness_hours``
==================  =================================================================  ================================

A rule that lacks what it asks for is undecided: it opens nothing, and an open alert of it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from tidegate import wording
from tidegate.alerting import expiry

if TYPE_CHECKING:
    from tidegate.spec.thresholds import Thresholds

_RUNS_FOR_A_RATE = 2
"""Rows arrive between two runs."""
_ROWS_FOR_A_RATE = 1_000
"""So many rows tell how fast they arrive, however soon one run followed the other."""
_SECONDS_FOR_A_RATE = 120.0
"""Between runs by hand, where no schedule says how long is usual."""


@dataclass(frozen=True, kw_only=True)
class PlannedLag:
    """What `plan` found for a flow before one run, whether or not the run went on."""

    at: datetime
    behind: int | None
    """Files, messages or versions of a table; None when the source or the checkpoint could not be read."""
    rows: int | None
    """None when nobody can tell."""
    begins: Mapping[int, int] = field(default_factory=dict)
    """Of a topic: partition to the first offset that it held."""


@dataclass(frozen=True, kw_only=True)
class FlowRun:
    """What one incremental run did in a flow: its progress and its ledger lines, added up."""

    started_at: datetime
    rows: int
    """Read."""
    seconds: float
    """All its micro-batches together."""
    state_rows: int = 0
    """Kept as state after the last batch."""
    late_rows: int = 0
    """Dropped behind the watermark."""
    set_aside: float | None = None
    """Share of its rows, or of its files if that is larger, that went to quarantine; None before the ledger tells."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What is known of one flow at one instant. None and empty mean: not known."""

    flow: str
    from_outside: bool
    """No flow of the same pipeline writes what it reads."""
    interval_seconds: float | None = None
    """Of the schedule; None for runs by hand."""
    plans: tuple[PlannedLag, ...] = ()
    """Oldest first."""
    last_sign: datetime | None = None
    """When any flow of the pipeline was planned last; before there was a plan, when somebody first looked."""
    runs: tuple[FlowRun, ...] = ()
    """Oldest first."""
    lag_rows: int | None = None
    lag_exact: bool = True
    measured: bool = True
    """Whether lag, refusal and error were looked at at all."""
    error: str | None = None
    """Why the source or the checkpoint cannot be read."""
    refused: str | None = None
    """Which batch waits, and for what."""
    quarantine_open: int | None = None
    quarantine_oldest: datetime | None = None
    """When the oldest open entry was set aside."""
    newest_event: datetime | None = None
    """The newest event time in the target that is not in the future."""
    begins: Mapping[int, int] = field(default_factory=dict)
    """Of a topic: partition to the first offset that it holds."""
    unread: Mapping[int, int] = field(default_factory=dict)
    """Of a topic: partition to the offset that is read next, of those that hold one."""
    switched_off: bool = False
    """A person keeps it from running, so that it falls behind is no news."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One rule of one flow that is true now."""

    flow: str
    rule: str
    message: str
    """What is observed, and the limit; numbers and names only, never a data value."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What one look at a flow gave."""

    flow: str
    alerts: tuple[Alert, ...]
    undecided: frozenset[str]
    """Rules that lack what they ask for."""


class _UndecidedError(Exception):
    """A rule lacks what it asks for."""


def evaluate(thresholds: Thresholds, seen: Observation, now: datetime) -> Findings:
    """Ask every rule.

    Args:
        thresholds: Of the flow.
        seen: What is known of it.
        now: The instant, with its zone.
    """
    alerts: list[Alert] = []
    undecided: set[str] = set()
    for rule, ask in RULES.items():
        if seen.switched_off and rule in OF_RUNNING:
            continue
        try:
            message = ask(thresholds, seen, now)
        except _UndecidedError:
            undecided.add(rule)
            continue
        if message is not None:
            alerts.append(Alert(flow=seen.flow, rule=rule, message=message))
    return Findings(flow=seen.flow, alerts=tuple(alerts), undecided=frozenset(undecided))


def _unreadable(_: Thresholds, seen: Observation, __: datetime) -> str | None:
    if not seen.measured:
        raise _UndecidedError
    return seen.error


def _refused(_: Thresholds, seen: Observation, __: datetime) -> str | None:
    if not seen.measured or seen.error is not None:
        raise _UndecidedError
    return seen.refused


def _missed(limits: Thresholds, seen: Observation, now: datetime) -> str | None:
    if limits.missed_runs is None or seen.interval_seconds is None:
        return None
    # A DAG that is not there, does not load or was never switched on has no plan at all.
    last = seen.plans[-1].at if seen.plans else seen.last_sign
    if last is None:
        raise _UndecidedError
    waited = now - last
    # The run of an interval is planned at its end, so one interval without a run is as it should be.
    if waited.total_seconds() <= seen.interval_seconds * (limits.missed_runs + 1):
        return None
    runs = wording.count(limits.missed_runs, "run")
    if not seen.plans:
        return f"no run was ever planned, in {wording.span(waited)} since this was first looked at: {runs} or more did not happen"
    return f"no run was planned for {wording.span(waited)}: {runs} or more of the schedule did not happen"


def _no_input(limits: Thresholds, seen: Observation, _: datetime) -> str | None:
    if limits.no_input_runs is None or not seen.from_outside:
        return None
    last = seen.plans[-limits.no_input_runs :]
    if len(last) < limits.no_input_runs:
        raise _UndecidedError
    if any(plan.behind for plan in last):
        return None
    if any(plan.behind is None for plan in last):
        # The source was away: there may have been something or not.
        raise _UndecidedError
    return f"nothing new in the last {wording.count(limits.no_input_runs, 'run')}"


def _slow(limits: Thresholds, seen: Observation, _: datetime) -> str | None:
    if limits.processed_share is None:
        return None
    if len(seen.runs) < _RUNS_FOR_A_RATE:
        raise _UndecidedError
    before, last = seen.runs[-2:]
    between = (last.started_at - before.started_at).total_seconds()
    if not last.rows or last.seconds <= 0 or between <= 0:
        raise _UndecidedError
    # Two runs by hand, one right after the other: a handful of rows says nothing of what arrives a second. Half of the
    # interval, because a scheduled run may begin late and the next one on time.
    usual = seen.interval_seconds if seen.interval_seconds is not None else _SECONDS_FOR_A_RATE
    if between < usual / 2 and last.rows < _ROWS_FOR_A_RATE:
        raise _UndecidedError
    arriving, processed = last.rows / between, last.rows / last.seconds
    if processed >= arriving * limits.processed_share:
        return None
    share = f"{processed / arriving:.0%}"
    return (
        f"{processed:,.1f} rows/s processed, {arriving:,.1f} rows/s arrive: {share}, under {limits.processed_share:.0%}"
    )


def _long(limits: Thresholds, seen: Observation, _: datetime) -> str | None:
    limit = limits.run_seconds if limits.run_seconds is not None else seen.interval_seconds
    if limit is None:
        return None
    if not seen.runs:
        raise _UndecidedError
    took = seen.runs[-1].seconds
    if took <= limit:
        return None
    return f"the last run's batches took {wording.span(timedelta(seconds=took))}, more than {wording.span(timedelta(seconds=limit))}"


def _lag(limits: Thresholds, seen: Observation, _: datetime) -> str | None:
    if limits.lag_rows is None:
        return None
    if seen.lag_rows is None:
        raise _UndecidedError
    if seen.lag_rows <= limits.lag_rows:
        return None
    return f"{wording.marked(f'{seen.lag_rows:,}', seen.lag_exact)} rows behind, more than {limits.lag_rows:,}"


def _lag_growing(limits: Thresholds, seen: Observation, _: datetime) -> str | None:
    if limits.lag_growing_runs is None:
        return None
    last = [plan.rows for plan in seen.plans[-limits.lag_growing_runs - 1 :]]
    known = [rows for rows in last if rows is not None]
    if len(known) <= limits.lag_growing_runs:
        raise _UndecidedError
    if not all(earlier < later for earlier, later in pairwise(known)):
        return None
    return f"lag grew {limits.lag_growing_runs} runs in a row, from {known[0]:,} to {known[-1]:,} rows"


def _expiring(limits: Thresholds, seen: Observation, now: datetime) -> str | None:
    if limits.expiry_runs is None:
        return None
    if not seen.measured or seen.error is not None:
        raise _UndecidedError
    left = expiry.time_left(seen.plans, seen.begins, seen.unread, now)
    allowed = expiry.limit(limits.expiry_runs, seen.interval_seconds)
    if left is None or left >= allowed:
        return None
    return f"the topic will have deleted unread messages in ~{wording.span(left)}, sooner than {wording.span(allowed)}"


def _state(limits: Thresholds, seen: Observation, _: datetime) -> str | None:
    if limits.state_rows is None:
        return None
    kept = _last_run(seen).state_rows
    return f"{kept:,} rows of state, more than {limits.state_rows:,}" if kept > limits.state_rows else None


def _late(limits: Thresholds, seen: Observation, _: datetime) -> str | None:
    if limits.late_rows is None:
        return None
    dropped = _last_run(seen).late_rows
    if dropped <= limits.late_rows:
        return None
    return f"the last run dropped {wording.count(dropped, 'row')} behind the watermark, more than {limits.late_rows:,}"


def _quarantine(limits: Thresholds, seen: Observation, _: datetime) -> str | None:
    if limits.quarantine_share is None:
        return None
    share = _last_run(seen).set_aside
    if share is None:
        raise _UndecidedError
    if share <= limits.quarantine_share:
        return None
    return f"{share:.1%} of the last run went to quarantine, more than {limits.quarantine_share:.1%}"


def _quarantine_rows(limits: Thresholds, seen: Observation, _: datetime) -> str | None:
    if limits.quarantine_rows is None:
        return None
    if seen.quarantine_open is None:
        raise _UndecidedError
    if seen.quarantine_open <= limits.quarantine_rows:
        return None
    entries = wording.count(seen.quarantine_open, "entry is", "entries are")
    return f"{entries} open in quarantine, more than {limits.quarantine_rows:,}"


def _quarantine_age(limits: Thresholds, seen: Observation, now: datetime) -> str | None:
    if limits.quarantine_hours is None:
        return None
    if seen.quarantine_open is None:
        raise _UndecidedError
    if not seen.quarantine_open or seen.quarantine_oldest is None:
        return None
    waited = now - seen.quarantine_oldest
    if waited <= timedelta(hours=limits.quarantine_hours):
        return None
    entries = wording.count(seen.quarantine_open, "entry is", "entries are")
    limit = wording.span(timedelta(hours=limits.quarantine_hours))
    return f"{entries} open in quarantine, the oldest for {wording.span(waited)}, more than {limit}"


def _freshness(limits: Thresholds, seen: Observation, now: datetime) -> str | None:
    if limits.freshness_hours is None:
        return None
    if seen.newest_event is None:
        raise _UndecidedError
    old = now - seen.newest_event
    if old <= timedelta(hours=limits.freshness_hours):
        return None
    return f"the newest event is {wording.span(old)} old, more than {wording.span(timedelta(hours=limits.freshness_hours))}"


def _last_run(seen: Observation) -> FlowRun:
    if not seen.runs:
        raise _UndecidedError
    return seen.runs[-1]


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
    "state": _state,
    "late": _late,
    "quarantine": _quarantine,
    "quarantine_rows": _quarantine_rows,
    "quarantine_age": _quarantine_age,
    "freshness": _freshness,
}
"""Every rule by its name: what it says, or None when all is well."""
OF_RUNNING = frozenset({"missed", "no_input", "lag", "lag_growing", "freshness"})
"""Rules that are not asked of a flow that is switched off; their alerts end."""
