"""When a flow is worth an alert: limits as data, part of a pipeline's declaration.

The defaults are those that people know from Structured Streaming, told per run because a run is bounded. None turns a
rule off, but for ``run_seconds``. What each rule looks at, and when it opens and ends: `tidegate.alerting.alerts`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.errors import FieldError

_COUNTS = ("no_input_runs", "lag_growing_runs", "missed_runs", "expiry_runs", "quarantine_hours")
_LIMITS = ("lag_rows", "state_rows", "late_rows", "quarantine_rows")


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Limits of one flow, or of all flows of a pipeline that have none of their own."""

    no_input_runs: int | None = 5
    """So many runs in a row found nothing new. Asked of flows that read from outside: files, topics, tables of other
    pipelines."""
    missed_runs: int | None = 3
    """No run was planned for longer than so many intervals of the schedule and one more."""
    processed_share: float | None = 0.8
    """Rows processed per second, as a share of the rows that arrive per second, above 0: the last run did less."""
    run_seconds: float | None = None
    """The last run's batches took longer, all together. None takes the interval of the schedule; where there is
    none, the rule is not asked."""
    lag_rows: int | None = 1_000_000
    """More rows (messages of a topic) are behind."""
    lag_growing_runs: int | None = 5
    """The lag that runs met has grown so many times in a row."""
    expiry_runs: int | None = 3
    """A topic will have deleted messages that were not read yet within so many intervals of the schedule (at least an
    hour; without a cron schedule an interval counts as eight), at the rate at which its beginning moved so far."""
    state_rows: int | None = 10_000_000
    """More rows are kept as state between batches."""
    late_rows: int | None = 0
    """More rows were dropped behind the watermark in the last run."""
    quarantine_share: float | None = 0.05
    """A larger share of the last run's rows (or files) went to quarantine, 0 to 1."""
    quarantine_rows: int | None = None
    """More entries (rows or files) are open in quarantine. How many are many depends on the table."""
    quarantine_hours: int | None = 168
    """Something has been open in quarantine for more hours."""
    freshness_hours: float | None = None
    """The newest event time in the table is older, in hours. Needs ``event_time`` of the table; a date counts from its
    midnight in UTC."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            self._check(name, whole=True, above=0, allowed="a whole number from 1, or None")
        for name in _LIMITS:
            self._check(name, whole=True, above=-1, allowed="a whole number from 0, or None")
        for name in ("run_seconds", "freshness_hours"):
            self._check(name, whole=False, above=0, allowed="a number above 0, or None")
        self._check("processed_share", whole=False, above=0, up_to=1, allowed="a share above 0, up to 1, or None")
        self._check("quarantine_share", whole=False, above=-1e-9, up_to=1, allowed="a share from 0 to 1, or None")

    def _check(self, name: str, *, whole: bool, above: float, allowed: str, up_to: float = float("inf")) -> None:
        value = getattr(self, name)
        if value is None:
            return
        kinds = int if whole else (int, float)
        # Neither True nor NaN is a limit.
        if isinstance(value, bool) or not isinstance(value, kinds) or not above < value <= up_to:
            raise FieldError("Thresholds", name, value, allowed)


def check_thresholds(owner: str, value: object) -> None:
    """Refuse what is not `Thresholds`.

    Args:
        owner: Whose field it is, as errors name it.
        value: Of the field.
    """
    if not isinstance(value, Thresholds):
        raise FieldError(owner, "thresholds", value, "Thresholds(…)")
