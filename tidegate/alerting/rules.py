"""The alert rules, one table: a new rule is one entry.

`docs/reference/alerts.md` is generated from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tidegate.advice import Advice, Command, Edit, Either, OutsideAct, Then
from tidegate.alerting import conditions, rates
from tidegate.alerting.facts import known
from tidegate.states import STATES

if TYPE_CHECKING:
    from tidegate.status.reading import Reading

Severity = Literal["critical", "warning"]
"""``critical``: rows do not arrive, or will be lost. ``warning``: they arrive late, slowly or incomplete."""

BLOCKED = "Blocked below"
LATE = "Late below"
INCOMPLETE = "Incomplete below"


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """One alert rule."""

    severity: Severity = "warning"
    meaning: str
    """When it is true, for the documentation; ``N`` is the threshold."""
    threshold: str | None = None
    """The field of `Thresholds`; None in it turns the rule off."""
    not_for: Callable[[Reading], str | None] = lambda _: None
    """Why the rule cannot apply to a flow; None if it can."""
    while_off: bool = True
    """Whether it is also evaluated for a flow that a person switched off."""
    cause: Callable[[Reading, Any], str | None]
    """Of a reading and the value of the threshold: the observed value and the limit, if the rule is true; numbers and names only, never
    a data value. It raises `UnknownFactError` if the reading lacks what it needs: then the rule is undecided."""
    below: str = LATE
    """What the flows downstream suffer."""
    next_step: Advice
    """With ``{pipeline}`` and ``{flow}``."""


_OF_FLOW = ("{pipeline}", "{flow}")
_CORRECT_QUARANTINE = Then(
    Command.tidegate("quarantine", "list", *_OF_FLOW, says="`{}` counts them by rule"),
    Edit("correct suite or transform", "transform"),
    Command.tidegate("quarantine", "replay", *_OF_FLOW, says="`{}`"),
)
_BOUND_STATE = Then(
    Command.tidegate("state", "show", *_OF_FLOW, says="`{}` shows what it keeps"),
    Either(
        Edit("declare a shorter delay of the watermark", "declaration"),
        Edit("set earlier timers by event time in the transform", "transform"),
    ),
)
_SHOW_LAG = Command.tidegate("lag", "{pipeline}", says="`{}` shows whether rows wait")
_SHOW_BATCHES = Command.tidegate("ledger", "{pipeline}", says="`{}` has rows and seconds of each batch")
_MORE_CORES = OutsideAct("give the job more cores")
_FEEDER = OutsideAct("ask who feeds the source")
_RUN = Command.tidegate("run", "{pipeline}", says="`{}`")
_SHORTER_INTERVAL = Edit("declare a shorter interval of the schedule", "declaration")


def _of_state(name: str) -> Advice:
    step = STATES[name].next_step
    assert step is not None, f"the state {name!r} needs a person"
    return step


RULES: Mapping[str, AlertRule] = {
    "unreadable": AlertRule(
        severity="critical",
        meaning="the source, the checkpoint, a table or the declaration cannot be read, or the history of a table is in doubt",
        cause=conditions.unreadable,
        below=BLOCKED,
        next_step=_of_state("error"),
    ),
    "failed": AlertRule(
        severity="critical",
        meaning=(
            "the last run of the flow failed or crashed: a backfill, a reingest, a full refresh, or an increment as long as the "
            "pipeline has work; also a backfill that a gate or a transform that raises refused"
        ),
        while_off=False,
        cause=lambda reading, _: known(reading.ends).sentence,
        below=BLOCKED,
        next_step=_of_state("failed"),
    ),
    "refused": AlertRule(
        severity="critical",
        meaning="a batch waits that a gate or a contract refused, that a statistic holds, or on which the transform raises",
        cause=conditions.refused,
        below=BLOCKED,
        next_step=Either(
            _of_state("refused").after("after a gate or a transform"),
            _of_state("on hold").after("after a statistic"),
            _of_state("contract refused").after("after a contract"),
        ),
    ),
    "refused_rewrite": AlertRule(
        severity="critical",
        meaning=(
            "a backfill, a full refresh or a new version was refused, because it would delete or quarantine too many rows; a "
            "backfill until the flow's next run without an error, a swap until it is accepted or derived again"
        ),
        cause=conditions.refused_rewrite,
        next_step=_of_state("rewrite refused"),
    ),
    "missed": AlertRule(
        severity="critical",
        meaning="no run was planned for longer than N intervals of the cron schedule plus one",
        threshold="missed_runs",
        not_for=conditions.no_cron,
        while_off=False,
        cause=conditions.missed,
        below=BLOCKED,
        next_step=Then(
            OutsideAct("see whether Airflow runs and the DAG is on"),
            Command.tidegate("plan", "{pipeline}", says="`{}` shows what waits"),
        ),
    ),
    "no_input": AlertRule(
        meaning="the last N plans found nothing new in an external source",
        threshold="no_input_runs",
        not_for=conditions.internal,
        while_off=False,
        cause=conditions.no_input,
        next_step=Then(_FEEDER, Command.tidegate("lag", "{pipeline}", says="`{}` shows up to where it is read")),
    ),
    "no_input_hours": AlertRule(
        meaning="an external source had no input for N hours",
        threshold="no_input_hours",
        not_for=conditions.internal,
        while_off=False,
        cause=conditions.no_input_hours,
        next_step=Then(_FEEDER, Command.tidegate("lag", "{pipeline}", says="`{}` shows up to where it is read")),
    ),
    "slow": AlertRule(
        meaning="the last run processed fewer rows per second than N of the rows that arrive per second",
        threshold="processed_share",
        cause=rates.slow,
        next_step=Then(_SHOW_BATCHES, _MORE_CORES),
    ),
    "rate_drop": AlertRule(
        meaning="the last run processed fewer rows per second than N of the week's median, and took 10 s longer for it",
        threshold="rate_share",
        cause=rates.rate_drop,
        next_step=Then(_SHOW_BATCHES, OutsideAct("compare code, suite and machine")),
    ),
    "long_batch": AlertRule(
        meaning="a batch is running, or the longest one of the last run took, longer than N intervals of the schedule",
        threshold="batch_intervals",
        not_for=conditions.no_schedule,
        cause=conditions.long_batch,
        next_step=Then(
            Command.tidegate("status", "{pipeline}", says="`{}` shows what runs"),
            Either(_MORE_CORES, Edit("limit the rows of a batch", "declaration")),
        ),
    ),
    "long": AlertRule(
        meaning="the last run's batches took longer than N seconds in total",
        threshold="run_seconds",
        cause=conditions.long,
        next_step=Then(_SHOW_BATCHES, _MORE_CORES),
    ),
    "lag": AlertRule(
        meaning="more than N rows wait in the source",
        threshold="lag_rows",
        while_off=False,
        cause=conditions.lag,
        next_step=Either(_RUN, _SHORTER_INTERVAL),
    ),
    "lag_age": AlertRule(
        severity="critical",
        meaning="input has waited longer than N intervals of the schedule",
        threshold="lag_intervals",
        not_for=conditions.no_schedule,
        while_off=False,
        cause=conditions.lag_age,
        below=BLOCKED,
        next_step=Then(
            Command.tidegate("status", "{pipeline}", says="`{}` shows whether a run works on it"),
            Command.tidegate("run", "{pipeline}", says="if none does: `{}`"),
        ),
    ),
    "lag_growing": AlertRule(
        meaning="the lag at the start of runs grew N times in a row",
        threshold="lag_growing_runs",
        while_off=False,
        cause=conditions.lag_growing,
        next_step=Then(
            Command.tidegate("lag", "{pipeline}", says="`{}` shows what waits"), Either(_SHORTER_INTERVAL, _MORE_CORES)
        ),
    ),
    "expiring": AlertRule(
        severity="critical",
        meaning="a topic or a table will delete what is unread within N intervals of the schedule, at least an hour",
        threshold="expiry_runs",
        cause=conditions.expiring,
        below=INCOMPLETE,
        next_step=Either(_RUN, OutsideAct("raise the topic's or the table's retention")),
    ),
    "rewritten": AlertRule(
        meaning="files were changed after they were read; Spark's file source reads a path once",
        not_for=conditions.no_files,
        cause=conditions.rewritten,
        below=INCOMPLETE,
        next_step=Then(
            Command.tidegate("lag", "{pipeline}", says="`{}` counts them"),
            Either(
                OutsideAct("land the new content under a new name"),
                OutsideAct("reingest the days on which they were changed"),
            ),
        ),
    ),
    "late": AlertRule(
        meaning="more than N rows of the last run came later than the delay of the watermark, and are in the late table",
        threshold="late_rows",
        not_for=conditions.no_watermark,
        cause=conditions.late,
        below=INCOMPLETE,
        next_step=Command.tidegate("watermark", "advise", *_OF_FLOW, says="`{}` shows which delay the rows need"),
    ),
    "state": AlertRule(
        meaning="the state of a stateful flow has more than N rows",
        threshold="state_rows",
        not_for=conditions.stateless,
        cause=conditions.state,
        next_step=_BOUND_STATE,
    ),
    "state_growth": AlertRule(
        meaning="the state of a stateful flow grew by more than N in its last batch, and by at least 100 rows",
        threshold="state_growth",
        not_for=conditions.stateless,
        cause=conditions.state_growth,
        next_step=_BOUND_STATE,
    ),
    "state_size": AlertRule(
        meaning="the files of a stateful flow's state take more than N bytes",
        threshold="state_bytes",
        not_for=conditions.stateless,
        cause=conditions.state_size,
        next_step=_BOUND_STATE,
    ),
    "watermark": AlertRule(
        meaning="the watermark of a stateful flow is more than N hours behind the clock: windows do not close, and state is kept",
        threshold="watermark_hours",
        not_for=conditions.stateless,
        while_off=False,
        cause=conditions.watermark,
        next_step=Then(
            _SHOW_LAG, Edit("if none came, declare Watermark(…, idle=…), which lets the clock move it", "declaration")
        ),
    ),
    "quarantine": AlertRule(
        meaning="a larger share than N of the last run's rows, or files, went to quarantine",
        threshold="quarantine_share",
        cause=conditions.quarantine,
        below=INCOMPLETE,
        next_step=_CORRECT_QUARANTINE,
    ),
    "quarantine_rows": AlertRule(
        meaning="more than N entries are open in quarantine",
        threshold="quarantine_rows",
        cause=conditions.quarantine_rows,
        below=INCOMPLETE,
        next_step=_CORRECT_QUARANTINE,
    ),
    "quarantine_age": AlertRule(
        meaning="the oldest open entry of the quarantine is older than N hours",
        threshold="quarantine_hours",
        cause=conditions.quarantine_age,
        below=INCOMPLETE,
        next_step=Either(
            _CORRECT_QUARANTINE, Command.tidegate("quarantine", "waive", *_OF_FLOW, "--reason", "…", says="`{}`")
        ),
    ),
    "freshness": AlertRule(
        meaning="the newest event time in the table is older than N hours",
        threshold="freshness_hours",
        while_off=False,
        cause=conditions.freshness,
        next_step=Then(_SHOW_LAG, _FEEDER),
    ),
}
"""Every rule by its name."""
