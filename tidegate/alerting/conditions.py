"""What the alert rules measure: whether a rule applies to a flow, what it needs, and the cause if it is true.

Pure functions of the observation of a flow. `tidegate.alerting.rules` has the table that names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tidegate import formatting
from tidegate.alerting import expiry

if TYPE_CHECKING:
    from tidegate.alerting.facts import Observation, PlannedLag


@dataclass(frozen=True, kw_only=True)
class Case:
    """What one rule is evaluated for."""

    observation: Observation
    now: datetime
    """Timezone-aware."""
    limit: Any = None
    """The value of the rule's threshold, which is not None if the rule has one."""

    @property
    def intervals(self) -> timedelta:
        """The limit as a time, for a threshold in intervals of the schedule."""
        return timedelta(seconds=self.limit * (self.observation.interval_seconds or 0))


def no_schedule(observation: Observation) -> str | None:
    """Why a rule about intervals does not apply: an interval is known for a cron schedule, or from the pipelines that are followed."""
    return None if observation.interval_seconds is not None else "the pipeline has no schedule with a known interval"


def no_cron(observation: Observation) -> str | None:
    """Why a rule about runs that are due does not apply: after other tables, or by hand, none is due."""
    return (
        None if observation.cron and observation.interval_seconds is not None else "the pipeline has no cron schedule"
    )


def internal(observation: Observation) -> str | None:
    """Why a rule about an external source does not apply."""
    return None if observation.external_source else "a flow of the same pipeline writes its source"


def measured(case: Case) -> bool:
    """Whether source and checkpoint could be read."""
    return case.observation.measured and case.observation.error is None


def missed(case: Case) -> str | None:
    """How long no run was planned."""
    # A DAG that is missing, does not load or was never unpaused has no plan.
    planned = bool(case.observation.plans)
    last = case.observation.plans[-1].at if planned else case.observation.last_activity
    interval = case.observation.interval_seconds
    assert last is not None and interval is not None
    waited = case.now - last
    # A run is planned at the end of its interval, so one interval without a plan is normal.
    if waited.total_seconds() <= interval * (case.limit + 1):
        return None
    runs = f"at least {formatting.count(case.limit, 'run')} missed"
    if not planned:
        return f"no run was planned in the {formatting.span(waited)} since alerts were first evaluated: {runs}"
    return f"no run was planned for {formatting.span(waited)}: {runs}"


def knows_input(case: Case) -> bool:
    """Whether the last plans show if there was input."""
    last = case.observation.plans[-case.limit :]
    # A source that was unreachable may have had something new.
    return len(last) == case.limit and (any(plan.behind for plan in last) or all(plan.behind == 0 for plan in last))


def no_input(case: Case) -> str | None:
    """In how many plans nothing was new."""
    if any(plan.behind for plan in case.observation.plans[-case.limit :]):
        return None
    return f"nothing new in the last {formatting.count(case.limit, 'run')}"


def last_input(observation: Observation) -> datetime | None:
    """When the flow last had input; if it never had any, its first plan."""
    times = [plan.at for plan in observation.plans if plan.behind] + [
        run.started_at for run in observation.runs if run.rows
    ]
    return max(times, default=observation.plans[0].at if observation.plans else None)


def no_input_hours(case: Case) -> str | None:
    """For how long nothing was new."""
    last = last_input(case.observation)
    assert last is not None
    if case.observation.behind or case.now - last <= timedelta(hours=case.limit):
        return None
    return f"no input for {formatting.span(case.now - last)}, more than {_hours(case.limit)}"


def _intervals(number: float) -> str:
    return f"{number:g} interval{'' if number == 1 else 's'}"


def _running(case: Case) -> timedelta | None:
    return None if case.observation.running_since is None else case.now - case.observation.running_since


def long_batch(case: Case) -> str | None:
    """How long a batch has been running, or took."""
    limit, running = case.intervals, _running(case)
    number = f"{formatting.span(limit)} ({_intervals(case.limit)} of the schedule)"
    if running is not None and running > limit:
        return f"a batch has been running for {formatting.span(running)}, longer than {number}"
    took = timedelta(seconds=case.observation.runs[-1].longest_batch if case.observation.runs else 0)
    return f"a batch of the last run took {formatting.span(took)}, longer than {number}" if took > limit else None


def long(case: Case) -> str | None:
    """How long the last run's batches took."""
    took, limit = (timedelta(seconds=seconds) for seconds in (case.observation.runs[-1].seconds, case.limit))
    if took <= limit:
        return None
    return f"the last run's batches took {formatting.span(took)}, more than {formatting.span(limit)}"


def lag(case: Case) -> str | None:
    """How many rows wait."""
    rows = case.observation.lag_rows
    if rows is None or rows <= case.limit:
        return None
    behind = formatting.approximate(formatting.count(rows, "row"), case.observation.lag_exact)
    return f"{behind} behind, more than {case.limit:,}"


def lag_age(case: Case) -> str | None:
    """For how long input has waited."""
    waiting = waiting_since(case.observation)
    if waiting is None or not case.observation.behind or case.now - waiting <= case.intervals:
        return None
    limit = f"{formatting.span(case.intervals)} ({_intervals(case.limit)} of the schedule)"
    return f"input has waited for {formatting.span(case.now - waiting)}, longer than {limit}"


def waiting_since(observation: Observation) -> datetime | None:
    """Since when input waits: the commit of the first unread version, or the first plan that met input which no run read since."""
    read = [plan.at for plan in observation.plans if plan.behind == 0]
    if observation.ends is not None and observation.ends.caught_up_at is not None:
        # A run reads at least what its plan met.
        read.append(observation.ends.caught_up_at)
    since = max(read, default=None)
    met = (plan.at for plan in observation.plans if plan.behind and (since is None or plan.at > since))
    return observation.unread_since if observation.unread_since is not None else next(met, None)


def planned_rows(case: Case) -> list[int]:
    """The rows that waited in the last plans, one plan more than the limit."""
    last: tuple[PlannedLag, ...] = case.observation.plans[-case.limit - 1 :]
    return [plan.rows for plan in last if plan.rows is not None]


def lag_growing(case: Case) -> str | None:
    """From where to where the lag grew."""
    rows = planned_rows(case)
    if not all(earlier < later for earlier, later in pairwise(rows)):
        return None
    return f"lag grew {formatting.count(case.limit, 'run')} in a row, from {rows[0]:,} to {formatting.count(rows[-1], 'row')}"


def expiring(case: Case) -> str | None:
    """When a topic deletes messages that are not read."""
    remaining = expiry.time_to_expiry(
        case.observation.plans, case.observation.first_offsets, case.observation.unread, case.now
    )
    allowed = expiry.limit(case.limit, case.observation.interval_seconds)
    if remaining is None or remaining >= allowed:
        return None
    return f"the topic will delete unread messages in ~{formatting.span(remaining)}, sooner than {formatting.span(allowed)}"


def quarantine(case: Case) -> str | None:
    """Which share of the last run was quarantined."""
    share = case.observation.runs[-1].quarantined_share
    if share is None or share <= case.limit:
        return None
    return f"{share:.1%} of the last run went to quarantine, more than {case.limit:.1%}"


def _open_entries(case: Case) -> str:
    return f"{formatting.count(case.observation.quarantine_open or 0, 'entry is', 'entries are')} open in quarantine"


def quarantine_rows(case: Case) -> str | None:
    """How many entries are open."""
    too_many = (case.observation.quarantine_open or 0) > case.limit
    return f"{_open_entries(case)}, more than {case.limit:,}" if too_many else None


def quarantine_age(case: Case) -> str | None:
    """How old the oldest open entry is."""
    if not case.observation.quarantine_open or case.observation.quarantine_oldest is None:
        return None
    waited = case.now - case.observation.quarantine_oldest
    if waited <= timedelta(hours=case.limit):
        return None
    return f"{_open_entries(case)}, the oldest for {formatting.span(waited)}, more than {_hours(case.limit)}"


def freshness(case: Case) -> str | None:
    """How old the newest event is."""
    assert case.observation.newest_event is not None
    age = case.now - case.observation.newest_event
    if age <= timedelta(hours=case.limit):
        return None
    return f"the newest event is {formatting.span(age)} old, more than {_hours(case.limit)}"


def _hours(hours: float) -> str:
    return formatting.span(timedelta(hours=hours))
