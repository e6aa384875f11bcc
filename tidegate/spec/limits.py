"""Limits of a pipeline or a flow: for alerts, for rows on which a transform raises, and for what a rewrite takes away.

The defaults for alerts follow the usual ones for Structured Streaming, per run because a run is bounded. None turns a rule off.
The rules: `tidegate.alerting.rules`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tidegate.errors import FieldError
from tidegate.reports.impact import WHATS, Impact, What

_RUNS = ("no_input_runs", "lag_growing_runs", "missed_runs", "expiry_runs")
_LIMITS = ("lag_rows", "late_rows", "quarantine_rows", "state_rows", "state_bytes")
_MOST_RUNS, _MOST_HOURS = 10_000, 1_000_000
"""About a century. Without a limit, a duration that is computed from a value may overflow when the rule is evaluated."""
_MOST = {
    "run_seconds": 3600 * _MOST_HOURS,
    "quarantine_hours": _MOST_HOURS,
    "freshness_hours": _MOST_HOURS,
    "no_input_hours": _MOST_HOURS,
    "watermark_hours": _MOST_HOURS,
    "batch_intervals": _MOST_RUNS,
    "lag_intervals": _MOST_RUNS,
}


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Limits of one flow, or of all flows of a pipeline without their own."""

    no_input_runs: int | None = 5
    """This many consecutive runs had no input. Only for flows that read from outside the pipeline: files, topics, tables of
    other pipelines."""
    no_input_hours: float | None = None
    """There was no input for longer, in hours. A suitable value depends on the source; for the same flows as
    ``no_input_runs``."""
    missed_runs: int | None = 3
    """No run was planned for longer than this many intervals of the schedule plus one. Only for a pipeline with a cron
    schedule."""
    processed_share: float | None = 0.8
    """The rate at which the last run processed rows, divided by the rate at which rows arrive, is below this, above 0."""
    rate_share: float | None = 0.8
    """The rate at which the last run processed rows, divided by the median rate of the week's runs with no more rows, is below
    this, above 0; and the run took ten seconds longer for it. Needs five such runs."""
    batch_intervals: float | None = 3
    """A batch is running, or the longest one of the last run took, longer than this many intervals of the schedule; for
    `AfterTables`, of the schedule of the pipelines that write these tables. Only for a pipeline with a schedule."""
    run_seconds: float | None = None
    """The last run's batches took longer in total."""
    lag_rows: int | None = 1_000_000
    """The lag is larger, in rows (messages of a topic)."""
    lag_intervals: float | None = 2
    """Input has waited longer than this many intervals of the schedule; intervals and pipelines as for
    ``batch_intervals``."""
    lag_growing_runs: int | None = 5
    """The lag at the start of a run has grown this many times in a row."""
    expiry_runs: int | None = 3
    """Only for topics and tables: unread messages, or unread changes, will be deleted within this many intervals of the schedule (at
    least one hour; eight hours per interval without a cron schedule). Of a topic by its retention time, once the first unread message
    is older than half of it, or at the rate at which its beginning has moved so far. Of a table by the retention of its log and of
    its deleted files, once the first unread commit is older than half of it."""
    late_rows: int | None = 0
    """More rows of the last run came later than the watermark's delay. Only for flows with a watermark."""
    state_rows: int | None = 10_000_000
    """The state of a stateful flow has more rows."""
    state_growth: float | None = 0.1
    """The state of a stateful flow grew by a larger share in its last batch, above 0, and by at least 100 rows: state that only grows
    is never bounded."""
    state_bytes: int | None = None
    """The files of a stateful flow's state in its checkpoint take more bytes. A suitable value depends on the disk."""
    watermark_hours: float | None = None
    """The watermark of a stateful flow is behind the clock by more, in hours. A suitable value is above the delay, plus the
    interval of the schedule, plus the longest time in which no row comes."""
    quarantine_share: float | None = 0.05
    """A larger share of the last run's rows (or files) was quarantined, 0 to 1."""
    quarantine_rows: int | None = None
    """More quarantine entries (rows or files) are open. A suitable value depends on the table."""
    quarantine_hours: int | None = 168
    """The oldest open quarantine entry is older, in hours."""
    freshness_hours: float | None = None
    """The newest event time in the table is older, in hours. Needs the table's ``event_time``; a date counts from midnight
    UTC."""
    transform_error_share: float | None = 0.1
    """The transform raises on a larger share of a batch's rows, 0 to 1: the batch is refused. Up to this share, or for a single
    row, the rows go to quarantine; None sends any number of rows there, 0 none. Only for a flow whose transform treats rows."""

    def __post_init__(self) -> None:
        for name in _RUNS:
            self._check(
                name, whole=True, above=0, up_to=_MOST_RUNS, allowed=f"a whole number from 1 to {_MOST_RUNS:,}, or None"
            )
        for name in _LIMITS:
            self._check(name, whole=True, above=-1, allowed="a whole number from 0, or None")
        for name, up_to in _MOST.items():
            allowed = f"a {'whole ' if name == 'quarantine_hours' else ''}number above 0, up to {up_to:,}, or None"
            self._check(name, whole=name == "quarantine_hours", above=0, up_to=up_to, allowed=allowed)
        self._check(
            "state_growth",
            whole=False,
            above=0,
            up_to=_MOST_RUNS,
            allowed=f"a share above 0, up to {_MOST_RUNS:,}, or None",
        )
        for name in ("processed_share", "rate_share"):
            self._check(name, whole=False, above=0, up_to=1, allowed="a share above 0, up to 1, or None")
        for name in ("quarantine_share", "transform_error_share"):
            self._check(name, whole=False, above=-1e-9, up_to=1, allowed="a share from 0 to 1, or None")

    @property
    def declared(self) -> tuple[str, ...]:
        """The fields with a value other than the default, except None."""
        names = [each.name for each in dataclasses.fields(self)]
        return tuple(name for name in names if getattr(self, name) not in (None, getattr(type(self), name)))

    def _check(self, name: str, *, whole: bool, above: float, allowed: str, up_to: float = float("inf")) -> None:
        value = getattr(self, name)
        if value is None:
            return
        kinds = int if whole else (int, float)
        # Excludes True, which is an int, and NaN.
        if isinstance(value, bool) or not isinstance(value, kinds) or not above < value <= up_to:
            raise FieldError("Thresholds", name, value, allowed)


def check_thresholds(owner: str, value: object) -> None:
    """Refuse values that are not `Thresholds`."""
    if not isinstance(value, Thresholds):
        raise FieldError(owner, "thresholds", value, "Thresholds(…)")


@dataclass(frozen=True, kw_only=True)
class RewriteLimits:
    """Limits of one flow, or of all flows of a pipeline without their own.

    A backfill, a full refresh and a new version are judged before they replace rows that readers have. Beyond a limit they are
    refused, unless the request accepts the number by name. Increments have no such limits, but one that compares a snapshot is
    judged for the rows that it deletes.
    """

    deleted_share: float = 0.1
    """A larger share of the table's rows, or of those of a backfill's keys, is deleted. 0 to 1; 1 refuses nothing."""
    quarantined_share: float = 0.1
    """A larger share of the source rows goes to quarantine, not counting those that an entry keeps out of the table already.
    0 to 1; 1 refuses nothing."""
    rows: int = 10
    """Up to this many rows are never too many, whatever their share, unless they are all rows."""

    def __post_init__(self) -> None:
        for name in ("deleted_share", "quarantined_share"):
            share = getattr(self, name)
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise FieldError("RewriteLimits", name, share, "a share from 0 to 1")
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 0:
            raise FieldError("RewriteLimits", "rows", self.rows, "a whole number from 0")

    def exceeded(self, impact: Impact) -> tuple[What, ...]:
        """What of the impact is beyond its limit."""
        return tuple(
            what
            for what in WHATS
            if impact.share(what) > self.share(what) and (getattr(impact, what) > self.rows or impact.share(what) == 1)
        )

    def share(self, what: What) -> float:
        """The limit of deleted, or quarantined, rows."""
        return self.deleted_share if what == "deleted" else self.quarantined_share
