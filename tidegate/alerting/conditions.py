"""What the alert rules measure: why a rule does not apply to a flow, and the cause if it is true.

Functions of the reading of a flow, which raise `UnknownFactError` where it lacks a fact. `tidegate.alerting.rules` has the table that
names them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tidegate import formatting
from tidegate.alerting import expiry
from tidegate.alerting.facts import UnknownFactError, known
from tidegate.spec import FileSource
from tidegate.times import dates

if TYPE_CHECKING:
    from tidegate.ops.metrics import StateFigures
    from tidegate.status.flow_runs import FlowRun
    from tidegate.status.reading import Reading

_ROWS_OF_GROWTH = 100
"""A state that grew by fewer rows is not worth an alert: a small state doubles with a few rows."""


def no_schedule(reading: Reading) -> str | None:
    """Why a rule about intervals does not apply."""
    return None if reading.interval_seconds is not None else "the pipeline has no schedule with a known interval"


def no_cron(reading: Reading) -> str | None:
    """Why a rule about runs that are due does not apply: after other tables, or by hand, none is due."""
    return None if isinstance(reading.resolved.pipeline.schedule, str) else "the pipeline has no cron schedule"


def internal(reading: Reading) -> str | None:
    """Why a rule about an external source does not apply."""
    return (
        None
        if reading.resolved.pipeline.reads_external(reading.resolved.flow)
        else "a flow of the same pipeline writes its source"
    )


def stateless(reading: Reading) -> str | None:
    """Why a rule about state does not apply."""
    return None if reading.resolved.flow.kind.stateful else "the flow keeps no state"


def no_watermark(reading: Reading) -> str | None:
    """Why a rule about late rows does not apply."""
    return None if reading.resolved.flow.watermark is not None else "the flow has no watermark"


def no_files(reading: Reading) -> str | None:
    """Why a rule about landed files does not apply."""
    return None if isinstance(reading.resolved.flow.source, FileSource) else "the flow reads no files"


def refused(reading: Reading, _: Any) -> str | None:
    """Which refused batch waits."""
    _check_readable(reading)
    return reading.reason if reading.refused_by not in (None, "limits") else None


def unreadable(reading: Reading, _: Any) -> str | None:
    """Why source or checkpoint cannot be read. A reading that was late decides nothing; one that hangs misses its runs."""
    if reading.late:
        raise UnknownFactError
    return reading.problem


def refused_rewrite(reading: Reading, _: Any) -> str | None:
    """Which backfill or swap was refused, and why."""
    _check_readable(reading)
    judged = reading.refused_rewrite
    if reading.refused_by == "limits":
        return reading.reason
    return None if judged is None else judged.summary()


def _check_readable(reading: Reading) -> None:
    if reading.error is not None:
        raise UnknownFactError


def missed(reading: Reading, limit: Any) -> str | None:
    """How long no run was planned."""
    # A DAG that is missing, does not load or was never unpaused has no plan.
    planned = bool(reading.plans)
    waited = reading.at - (reading.plans[-1].at if planned else known(reading.last_activity))
    # A run is planned at the end of its interval, so one interval without a plan is normal.
    if waited.total_seconds() <= known(reading.interval_seconds) * (limit + 1):
        return None
    runs = f"at least {formatting.count(limit, 'run')} missed"
    if not planned:
        return f"no run was planned in the {formatting.span(waited)} since alerts were first evaluated: {runs}"
    return f"no run was planned for {formatting.span(waited)}: {runs}"


def no_input(reading: Reading, limit: Any) -> str | None:
    """In how many plans nothing was new."""
    behind = [plan.behind for plan in reading.plans[-limit:]]
    # A source that was unreachable may have had something new.
    if len(behind) < limit or (None in behind and not any(behind)):
        raise UnknownFactError
    return None if any(behind) else f"nothing new in the last {formatting.count(limit, 'run')}"


def no_input_hours(reading: Reading, limit: Any) -> str | None:
    """For how long nothing was new."""
    _check_readable(reading)
    met = [plan.at for plan in reading.plans if plan.behind]
    read = [run.started_at for run in reading.runs if run.rows]
    # A flow that never had any input has waited since its first plan.
    first = [plan.at for plan in reading.plans[:1]]
    waited = reading.at - known(max(met + read or first, default=None))
    if reading.backlog.behind or waited <= timedelta(hours=limit):
        return None
    return f"no input for {formatting.span(waited)}, more than {_hours(limit)}"


def long_batch(reading: Reading, limit: Any) -> str | None:
    """How long a batch has been running, or took."""
    intervals = _times(limit, reading)
    since = reading.running_since
    if since is not None and reading.at - since > intervals:
        return f"a batch has been running for {formatting.span(reading.at - since)}, longer than {_intervals(limit, intervals)}"
    took = timedelta(seconds=last_run(reading).longest_batch)
    if took <= intervals:
        return None
    return f"a batch of the last run took {formatting.span(took)}, longer than {_intervals(limit, intervals)}"


def long(reading: Reading, limit: Any) -> str | None:
    """How long the last run's batches took."""
    took, limit = timedelta(seconds=last_run(reading).seconds), timedelta(seconds=limit)
    if took <= limit:
        return None
    return f"the last run's batches took {formatting.span(took)}, more than {formatting.span(limit)}"


def lag(reading: Reading, limit: Any) -> str | None:
    """How many rows wait."""
    rows = known(reading.backlog.rows)
    if rows <= limit:
        return None
    behind = formatting.approximate(formatting.count(rows, "row"), reading.backlog.rows_exact)
    return f"{behind} behind, more than {limit:,}"


def lag_age(reading: Reading, limit: Any) -> str | None:
    """For how long input has waited."""
    intervals = _times(limit, reading)
    since = _waiting_since(reading) if reading.backlog.behind else None
    if since is None or reading.at - since <= intervals:
        return None
    return f"input has waited for {formatting.span(reading.at - since)}, longer than {_intervals(limit, intervals)}"


def _waiting_since(reading: Reading) -> datetime | None:
    """Since when input waits: the commit of the first unread version, or the first plan that met input which no run read since."""
    if reading.backlog.unread_since_ms is not None:
        return dates.moment(reading.backlog.unread_since_ms)
    read = [plan.at for plan in reading.plans if plan.behind == 0]
    if reading.ends is not None and reading.ends.caught_up_at is not None:
        # A run reads at least what its plan met.
        read.append(reading.ends.caught_up_at)
    since = max(read, default=None)
    return next((plan.at for plan in reading.plans if plan.behind and (since is None or plan.at > since)), None)


def lag_growing(reading: Reading, limit: Any) -> str | None:
    """From where to where the lag grew."""
    rows = [plan.rows for plan in reading.plans[-limit - 1 :] if plan.rows is not None]
    if len(rows) <= limit:
        raise UnknownFactError
    if not all(earlier < later for earlier, later in pairwise(rows)):
        return None
    return (
        f"lag grew {formatting.count(limit, 'run')} in a row, from {rows[0]:,} to {formatting.count(rows[-1], 'row')}"
    )


def expiring(reading: Reading, limit: Any) -> str | None:
    """When a topic deletes messages that are not read."""
    _check_readable(reading)
    remaining = reading.expires_in
    allowed = expiry.limit(limit, reading.interval_seconds)
    if remaining is None or remaining >= allowed:
        return None
    what = (
        "the topic will delete unread messages"
        if reading.backlog.unread
        else "the source table may delete unread changes"
    )
    return f"{what} in ~{formatting.span(remaining)}, sooner than {formatting.span(allowed)}"


def quarantine(reading: Reading, limit: Any) -> str | None:
    """Which share of the last run was quarantined."""
    share = last_run(reading).quarantined_share
    if share <= limit:
        return None
    return f"{share:.1%} of the last run went to quarantine, more than {limit:.1%}"


def quarantine_rows(reading: Reading, limit: Any) -> str | None:
    """How many entries are open."""
    entries = reading.quarantine.open
    return f"{_open(entries)}, more than {limit:,}" if entries > limit else None


def quarantine_age(reading: Reading, limit: Any) -> str | None:
    """How old the oldest open entry is."""
    entries, oldest = reading.quarantine.open, reading.quarantine.oldest
    if not entries or oldest is None or reading.at - oldest <= timedelta(hours=limit):
        return None
    return f"{_open(entries)}, the oldest for {formatting.span(reading.at - oldest)}, more than {_hours(limit)}"


def freshness(reading: Reading, limit: Any) -> str | None:
    """How old the newest event is."""
    age = reading.at - known(reading.newest_event)
    if age <= timedelta(hours=limit):
        return None
    return f"the newest event is {formatting.span(age)} old, more than {_hours(limit)}"


def state(reading: Reading, limit: Any) -> str | None:
    """How many rows the state has."""
    rows = _state(reading).state_rows
    return f"{formatting.count(rows, 'row')} of state, more than {limit:,}" if rows > limit else None


def late(reading: Reading, limit: Any) -> str | None:
    """How many rows of the last run were late."""
    rows = last_run(reading).late
    if rows <= limit:
        return None
    return f"{formatting.count(rows, 'row')} of the last run came later than the delay of the watermark, more than {limit:,}"


def rewritten(reading: Reading, _: Any) -> str | None:
    """How many files were changed after they were read."""
    number = reading.backlog.rewritten
    files = formatting.count(number, "file was", "files were")
    return f"{files} changed after being read, and the new content was not read" if number else None


def state_growth(reading: Reading, limit: Any) -> str | None:
    """From where to where the state grew in the last batch."""
    last, before = _state(reading).state_rows, known(next(iter(reading.kept[1:]), None)).state_rows
    if last - before < _ROWS_OF_GROWTH or last - before <= limit * before:
        return None
    share = f", {last / before - 1:.0%}, more than {limit:.0%}" if before else ""
    return f"the state grew from {before:,} to {formatting.count(last, 'row')} in the last batch{share}"


def state_size(reading: Reading, limit: Any) -> str | None:
    """How large the state is."""
    size = _state(reading).state_bytes
    return f"the state takes {formatting.size(size)}, more than {formatting.size(limit)}" if size > limit else None


def watermark(reading: Reading, limit: Any) -> str | None:
    """How far the watermark is behind the clock."""
    lag = known(_state(reading).lag(reading.at))
    if lag <= timedelta(hours=limit):
        return None
    return f"the watermark is {formatting.span(lag)} behind the clock, more than {_hours(limit)}"


def _open(entries: int) -> str:
    return f"{formatting.count(entries, 'entry is', 'entries are')} open in quarantine"


def _hours(hours: float) -> str:
    return formatting.span(timedelta(hours=hours))


def _times(limit: float, reading: Reading) -> timedelta:
    """The limit as a time, for a threshold in intervals of the schedule."""
    return timedelta(seconds=limit * (reading.interval_seconds or 0))


def _intervals(limit: float, intervals: timedelta) -> str:
    return f"{formatting.span(intervals)} ({limit:g} interval{'' if limit == 1 else 's'} of the schedule)"


def last_run(reading: Reading) -> FlowRun:
    """Raises `UnknownFactError` if there is none."""
    return known(reading.runs[-1] if reading.runs else None)


def _state(reading: Reading) -> StateFigures:
    return known(next(iter(reading.kept), None))
