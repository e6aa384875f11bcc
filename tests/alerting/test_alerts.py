"""When each rule is true, false or undecided."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import typed_advice as script
from tests.cli.project import stateful_orders
from tests.readings import reading_of, waiting
from tidegate.advice import Command, OutsideAct
from tidegate.alerting.alerts import cause_in, evaluate, warnings
from tidegate.alerting.episodes import Event, episodes_of, transitions
from tidegate.alerting.rules import RULES
from tidegate.checkpoints.overrides import Override
from tidegate.checkpoints.rewrite import JudgedRewrite
from tidegate.errors import SourceUnavailableError
from tidegate.ops.metrics import StateFigures
from tidegate.ops.plans import PlannedLag
from tidegate.quarantine.lifecycle import EntryCounts
from tidegate.reports.impact import Impact
from tidegate.spec import Pipeline
from tidegate.spec.limits import Thresholds
from tidegate.status.flow_runs import FlowRun
from tidegate.status.reading import Reading
from tidegate.status.run_ends import RunEnds
from tidegate.status.source import Backlog
from tidegate.status.wait import Wait

typed_advice = script.load()
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def ago(hours: float) -> datetime:
    return NOW - hours * HOUR


def plans(*behind: int | None) -> tuple[PlannedLag, ...]:
    """One plan per hour, the last one now, with these lags."""
    count = len(behind)
    return tuple(PlannedLag(at=ago(count - 1 - nth), behind=rows or 0, rows=rows) for nth, rows in enumerate(behind))


def plans_of_topic(*offsets: int, partition: int = 0) -> tuple[PlannedLag, ...]:
    """One plan per hour, the last one an hour ago, with these first offsets of the topic."""
    count = len(offsets)
    return tuple(
        PlannedLag(at=ago(count - n), behind=1, rows=1, first_offsets={str(partition): offset})
        for n, offset in enumerate(offsets)
    )


def run(hours_ago: float = 0.0, **changes: Any) -> FlowRun:
    fields: dict[str, Any] = {"started_at": ago(hours_ago), "rows": 3600, "seconds": 10.0}
    return FlowRun(**(fields | changes))


def kept(**changes: Any) -> StateFigures:
    """A state in which no rule is true, with changes."""
    fields: dict[str, Any] = {
        **{"app_id": "orders/bronze/v1/0", "batch_id": 7, "started_at": NOW, "state_operator": "stateStoreSave"},
        **{"state_rows": 100, "state_bytes": 4_096, "state_memory_bytes": 8_192, "watermark": ago(1)},
    }
    return StateFigures(**(fields | changes))


ORDERS = dataclasses.replace(stateful_orders(), schedule="@hourly")
BY_HAND = stateful_orders()
AWAY = SourceUnavailableError("no broker answers", OutsideAct("start it"))
LOSS = JudgedRewrite(
    what="backfill 3",
    app_id="orders/bronze/v1/0/window",
    impact=Impact(before=9, after=0, deleted=9, changed=0, added=0, read=9, quarantined=0),
    reasons=("delete 9 of 9 rows (100.0%)",),
)


def entries(count: int, oldest: datetime | None = None) -> EntryCounts:
    """So many open entries of a quarantine."""
    return EntryCounts(
        states={"open": count}, claimed=0, oldest_ms=None if oldest is None else round(oldest.timestamp() * 1000)
    )


def refused(reason: str) -> dict[str, Any]:
    """The gate refused the pending batch."""
    return {"wait": Wait(by="gate", reason=reason), "reason": reason}


def read(
    flow: str = "bronze",
    *,
    pipeline: Pipeline = ORDERS,
    error: SourceUnavailableError | None = None,
    late: bool = False,
    unread: tuple[str, ...] = (),
    **known: Any,
) -> Reading:
    """A reading in which all values are known and no rule is true, with changes.

    Args:
        flow: ``bronze`` reads files, ``parsed`` has a watermark, ``silver`` has state, ``gold`` has groups.
        error: It was not measured, because of this error.
        unread: Parts that were not read before the error.
    """
    defaults: dict[str, Any] = {
        "off": None,
        "holder": None,
        "interval_seconds": 3600.0,
        "plans": plans(5, 4, 5, 4, 5, 4),
        "last_activity": None,
        "runs": (*(run(hours) for hours in (6, 5, 4, 3, 2, 1)), run()),
        "running_since": None,
        "ends": RunEnds(caught_up_at=NOW),
        "backlog": waiting(),
        "quarantine": entries(0),
        "newest_event": ago(1),
        "kept": (kept(), kept()),
        "wait": None,
        "refused_rewrite": None,
        "reason": "4 new files",
    }
    parts = {name: value for name, value in (defaults | known).items() if name not in unread}
    made = reading_of(pipeline, pipeline.flow(flow), NOW, **parts)
    return made if error is None else made.ended(error, late=late)


def messages(limits: Thresholds, **changes: Any) -> dict[str, str]:
    """The cause of each rule that is true."""
    alerts = evaluate(limits, read(**changes)).alerts
    return {alert.rule: cause_in(alert.message) for alert in alerts}


THRESHOLDS = Thresholds(
    freshness_hours=6,
    quarantine_rows=100,
    no_input_hours=24,
    run_seconds=7200,
    state_bytes=2_000_000_000,
    watermark_hours=3,
)
"""The defaults, plus the thresholds that have no default."""


@pytest.mark.parametrize("flow", ["bronze", "parsed", "silver", "gold"])
def test_without_a_problem_no_rule_is_true_or_undecided(flow: str) -> None:
    findings = evaluate(THRESHOLDS, read(flow))
    assert findings.alerts == ()
    assert findings.undecided == frozenset()


def met(hours: float) -> tuple[PlannedLag, ...]:
    """Plans that meet input, the first so many hours ago."""
    return tuple(PlannedLag(at=ago(hours_ago), behind=7, rows=7) for hours_ago in (hours, 1, 0))


CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("unreadable", {"error": AWAY}, {"error": None}, "no broker answers; start it"),
    (
        "failed",
        {"ends": RunEnds(failure="the last run failed: no broker", caught_up_at=NOW)},
        {"ends": RunEnds(caught_up_at=NOW)},
        "the last run failed: no broker",
    ),
    ("refused", refused("waits: batch 3"), {"wait": None}, "waits: batch 3"),
    (
        "refused_rewrite",
        {"refused_rewrite": LOSS},
        {"refused_rewrite": None},
        LOSS.summary(),
    ),
    (
        "missed",
        {"plans": tuple(PlannedLag(at=ago(4.1), behind=1, rows=1) for _ in range(6))},
        {"plans": (*plans(1, 2, 1, 2), PlannedLag(at=ago(3.9), behind=1, rows=1))},
        "no run was planned for 4 h 6 min: at least 3 runs missed",
    ),
    (
        "no_input",
        {"plans": plans(9, 0, 0, 0, 0, 0)},
        {"plans": plans(0, 0, 1, 0, 0, 0)},
        "nothing new in the last 5 runs",
    ),
    (
        "no_input_hours",
        {"plans": (PlannedLag(at=ago(24.1), behind=1, rows=1), *plans(0, 0)), "runs": (), "backlog": waiting(behind=0)},
        {"plans": (PlannedLag(at=ago(24), behind=1, rows=1), *plans(0, 0)), "runs": (), "backlog": waiting(behind=0)},
        "no input for 1 d 6 min, more than 1 d",
    ),
    (
        "slow",
        {"runs": (run(1), run(rows=36_000, seconds=4600.0)), "interval_seconds": None},
        {"runs": (run(1), run(rows=36_000, seconds=4400.0)), "interval_seconds": None},
        "7.8 rows/s processed, 10.0 rows/s arrive: 78%, under 80%",
    ),
    (
        "rate_drop",
        {"runs": (*(run(hours) for hours in (5, 4, 3, 2, 1)), run(seconds=20.1))},
        {"runs": (*(run(hours) for hours in (5, 4, 3, 2, 1)), run(seconds=19.9))},
        "179.1 rows/s processed, 360.0 rows/s is the week's median: 50%, under 80%",
    ),
    (
        "long_batch",
        {"runs": (run(9), run(longest_batch=10_801.0))},
        {"runs": (run(9), run(longest_batch=10_800.0))},
        "a batch of the last run took 3 h 1 s, longer than 3 h (3 intervals of the schedule)",
    ),
    (
        "long",
        {"runs": (run(9), run(seconds=7201.0))},
        {"runs": (run(9), run(seconds=7200.0))},
        "the last run's batches took 2 h 1 s, more than 2 h",
    ),
    (
        "lag",
        {"backlog": waiting(rows=1_000_001)},
        {"backlog": waiting(rows=1_000_000)},
        "1,000,001 rows behind, more than 1,000,000",
    ),
    (
        "lag_age",
        {"plans": met(2.1), "ends": RunEnds(caught_up_at=ago(3))},
        {"plans": met(2), "ends": RunEnds(caught_up_at=ago(3))},
        "input has waited for 2 h 6 min, longer than 2 h (2 intervals of the schedule)",
    ),
    (
        "lag_growing",
        {"plans": plans(9, 1, 2, 3, 4, 5, 6)},
        {"plans": plans(1, 2, 3, 3, 4, 5)},
        "lag grew 5 runs in a row, from 1 to 6 rows",
    ),
    (
        "expiring",
        {"plans": plans_of_topic(0, 10, 20), "backlog": waiting(first_offsets={"0": 30}, unread={"0": 59})},
        {"plans": plans_of_topic(0, 10, 20), "backlog": waiting(first_offsets={"0": 30}, unread={"0": 60})},
        "the topic will delete unread messages in ~2 h 54 min, sooner than 3 h",
    ),
    (
        "rewritten",
        {"backlog": waiting(rewritten=2)},
        {"backlog": waiting(rewritten=0)},
        "2 files were changed after being read, and the new content was not read",
    ),
    (
        "late",
        {"flow": "parsed", "runs": (run(late=3),)},
        {"flow": "parsed", "runs": (run(2, late=3), run(late=0))},
        "3 rows of the last run came later than the delay of the watermark, more than 0",
    ),
    (
        "state",
        {"flow": "silver", "kept": (kept(state_rows=10_000_001), kept(state_rows=10_000_000))},
        {"flow": "silver", "kept": (kept(state_rows=10_000_000), kept(state_rows=10_000_000))},
        "10,000,001 rows of state, more than 10,000,000",
    ),
    (
        "state_growth",
        {"flow": "silver", "kept": (kept(state_rows=1_101), kept(state_rows=1_000))},
        {"flow": "silver", "kept": (kept(state_rows=1_100), kept(state_rows=1_000))},
        "the state grew from 1,000 to 1,101 rows in the last batch, 10%, more than 10%",
    ),
    (
        "state_size",
        {"flow": "silver", "kept": (kept(state_bytes=2_100_000_000), kept(state_bytes=2_100_000_000))},
        {"flow": "silver", "kept": (kept(state_bytes=2_000_000_000), kept(state_bytes=2_000_000_000))},
        "the state takes 2.1 GB, more than 2.0 GB",
    ),
    (
        "watermark",
        {"flow": "silver", "kept": (kept(watermark=ago(3.1)),)},
        {"flow": "silver", "kept": (kept(watermark=ago(3)),)},
        "the watermark is 3 h 6 min behind the clock, more than 3 h",
    ),
    (
        "quarantine",
        {"runs": (run(1), run(quarantined_share=0.051))},
        {"runs": (run(1, quarantined_share=1.0), run(quarantined_share=0.05))},
        "5.1% of the last run went to quarantine, more than 5.0%",
    ),
    (
        "quarantine_rows",
        {"quarantine": entries(101)},
        {"quarantine": entries(100)},
        "101 entries are open in quarantine, more than 100",
    ),
    (
        "quarantine_age",
        {"quarantine": entries(2, ago(169))},
        {"quarantine": entries(2, ago(168))},
        "2 entries are open in quarantine, the oldest for 7 d 1 h, more than 7 d",
    ),
    (
        "freshness",
        {"newest_event": ago(6.5)},
        {"newest_event": ago(6)},
        "the newest event is 6 h 30 min old, more than 6 h",
    ),
]


@pytest.mark.parametrize(("rule", "over", "under", "message"), CASES, ids=[case[0] for case in CASES])
def test_a_rule_is_true_above_its_threshold_and_not_at_it(
    rule: str, over: dict[str, Any], under: dict[str, Any], message: str
) -> None:
    assert messages(THRESHOLDS, **over) == {rule: message}
    assert messages(THRESHOLDS, **under) == {}


def test_every_rule_has_a_case() -> None:
    assert [case[0] for case in CASES] == list(RULES)


def test_the_reference_lists_exactly_these_rules() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/alerts.md").read_text()
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == list(RULES)


def test_every_threshold_belongs_to_one_rule() -> None:
    used = [rule.threshold for rule in RULES.values() if rule.threshold is not None]
    # Beyond this one no alert opens, but a batch is refused.
    assert sorted([*used, "transform_error_share"]) == sorted(field.name for field in dataclasses.fields(Thresholds))


DISABLED: dict[str, dict[str, Any]] = {
    "missed": {"missed_runs": None},
    "no_input": {"no_input_runs": None},
    "no_input_hours": {"no_input_hours": None},
    "slow": {"processed_share": None},
    "rate_drop": {"rate_share": None},
    "long_batch": {"batch_intervals": None},
    "long": {"run_seconds": None},
    "lag": {"lag_rows": None},
    "lag_age": {"lag_intervals": None},
    "lag_growing": {"lag_growing_runs": None},
    "expiring": {"expiry_runs": None},
    "late": {"late_rows": None},
    "state": {"state_rows": None},
    "state_growth": {"state_growth": None},
    "state_size": {"state_bytes": None},
    "watermark": {"watermark_hours": None},
    "quarantine": {"quarantine_share": None},
    "quarantine_rows": {"quarantine_rows": None},
    "quarantine_age": {"quarantine_hours": None},
    "freshness": {"freshness_hours": None},
}


@pytest.mark.parametrize("rule", DISABLED)
def test_a_rule_that_is_disabled_is_never_true(rule: str) -> None:
    over = next(case[1] for case in CASES if case[0] == rule)
    findings = evaluate(dataclasses.replace(THRESHOLDS, **DISABLED[rule]), read(**over))
    assert findings.alerts == ()
    assert rule not in findings.undecided


UNKNOWN: dict[str, dict[str, Any]] = {
    "refused": {"error": AWAY},
    "refused_rewrite": {"error": AWAY},
    "failed": {"ends": None},
    "unreadable": {"error": AWAY, "late": True},
    "missed": {"plans": ()},
    "no_input": {"plans": plans(0, 0, 0, 0)},
    "no_input_hours": {"plans": (), "runs": ()},
    "slow": {"runs": (run(),)},
    "rate_drop": {"runs": (run(4), run(3), run(2), run(1), run())},
    "long_batch": {"runs": ()},
    "long": {"runs": ()},
    "lag": {"backlog": waiting(rows=None)},
    "lag_age": {"error": AWAY},
    "lag_growing": {"plans": plans(1, 2, 3, 4, 5)},
    "expiring": {"error": AWAY},
    "rewritten": {"error": AWAY},
    "late": {"flow": "parsed", "runs": ()},
    "state": {"flow": "silver", "kept": ()},
    "state_growth": {"flow": "silver", "kept": (kept(),)},
    "state_size": {"flow": "silver", "kept": ()},
    "watermark": {"flow": "silver", "kept": (kept(watermark=None),)},
    "quarantine": {"runs": ()},
    "quarantine_rows": {"error": AWAY, "unread": ("quarantine",)},
    "quarantine_age": {"error": AWAY, "unread": ("quarantine",)},
    "freshness": {"newest_event": None},
}


def test_every_rule_can_be_undecided() -> None:
    assert set(UNKNOWN) == set(RULES)


@pytest.mark.parametrize("rule", UNKNOWN)
def test_a_rule_without_the_values_it_needs_is_undecided(rule: str) -> None:
    findings = evaluate(THRESHOLDS, read(**UNKNOWN[rule]))
    assert rule in findings.undecided
    assert rule not in {alert.rule for alert in findings.alerts}


def test_without_a_schedule_no_run_can_be_missed_and_no_rule_counts_intervals() -> None:
    runs = (run(9), run(seconds=9e5, rows=1, longest_batch=9e5))
    over: dict[str, Any] = {
        "plans": met(99),
        "ends": RunEnds(),
        "runs": runs,
        "interval_seconds": None,
        "pipeline": BY_HAND,
    }
    limits = Thresholds(processed_share=None)
    assert messages(limits, **over) == {}
    reasons = evaluate(limits, read(**over)).not_evaluated
    assert reasons["missed"] == "the pipeline has no cron schedule"
    assert reasons["lag_age"] == reasons["long_batch"] == "the pipeline has no schedule with a known interval"
    assert "long" in messages(Thresholds(processed_share=None, run_seconds=60), **over)


def test_a_pipeline_that_follows_tables_has_intervals_and_no_run_that_is_due() -> None:
    over: dict[str, Any] = {
        "plans": met(99)[:1],
        "ends": RunEnds(),
        "runs": (run(9, longest_batch=2e4),),
        "pipeline": BY_HAND,
    }
    assert set(messages(THRESHOLDS, **over)) == {"lag_age", "long_batch"}


def test_a_batch_that_never_ends_is_long_before_it_has_a_ledger_line() -> None:
    assert messages(THRESHOLDS, running_since=ago(3)) == {}
    assert messages(THRESHOLDS, running_since=ago(3.1)) == {
        "long_batch": "a batch has been running for 3 h 6 min, longer than 3 h (3 intervals of the schedule)"
    }


def test_input_that_a_run_read_after_its_plan_does_not_wait() -> None:
    plan = met(30)
    assert set(messages(THRESHOLDS, plans=plan, ends=RunEnds(caught_up_at=ago(31)))) == {"lag_age"}
    assert messages(THRESHOLDS, plans=plan, ends=RunEnds(caught_up_at=ago(29.9))) == {}
    assert messages(THRESHOLDS, plans=plan, ends=RunEnds(caught_up_at=ago(31)), backlog=waiting(behind=0)) == {}


def committed(at: datetime) -> Backlog:
    """A version of a table waits that was committed then."""
    return waiting(unread_since_ms=round(at.timestamp() * 1000))


def test_a_version_of_a_table_waits_from_its_commit_without_any_plan() -> None:
    changes: dict[str, Any] = {"plans": (), "ends": None, "pipeline": BY_HAND}
    assert messages(THRESHOLDS, backlog=committed(ago(2)), **changes) == {}
    assert set(messages(THRESHOLDS, backlog=committed(ago(2.1)), **changes)) == {"lag_age"}


def test_few_rows_that_take_little_longer_are_no_drop_of_the_rate() -> None:
    earlier = tuple(run(hours, rows=10, seconds=2.0) for hours in (6, 5, 4, 3, 2, 1))
    assert messages(THRESHOLDS, runs=(*earlier, run(rows=10, seconds=4.0))) == {}
    assert set(messages(THRESHOLDS, runs=(*earlier, run(rows=10, seconds=12.1)))) == {"rate_drop"}


def test_a_run_is_compared_with_runs_that_had_no_more_rows() -> None:
    larger = tuple(run(hours, rows=1_000_000, seconds=100.0) for hours in (6, 5, 4, 3, 2, 1))
    findings = evaluate(THRESHOLDS, read(runs=(*larger, run(rows=10_000, seconds=30.0))))
    assert "rate_drop" in findings.undecided


def test_an_alert_says_the_cause_what_is_blocked_below_and_the_next_step() -> None:
    below = ("orders/gold", "report/silver")
    (alert,) = evaluate(THRESHOLDS, read("parsed", **refused("waits: batch 3"), downstream=below)).alerts
    assert alert.message.startswith("waits: batch 3. Blocked below: orders/gold, report/silver. Next: ")
    assert '`tidegate quarantine take orders parsed --reason "…"`' in alert.message
    assert alert.severity == "critical"
    assert cause_in(alert.message) == "waits: batch 3"
    (of_groups,) = evaluate(THRESHOLDS, read("gold", **refused("waits: batch 3"))).alerts
    assert (
        "Next: after a gate or a transform correct suite, transform or data; or after a statistic" in of_groups.message
    )
    assert "quarantine take" not in of_groups.message
    (last,) = evaluate(THRESHOLDS, read("parsed", **refused("waits: batch 3"), downstream=())).alerts
    assert last.message.startswith("waits: batch 3. No flow is downstream. Next: ")
    assert cause_in(last.message) == "waits: batch 3"


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_names_an_existing_command_as_the_next_step(rule: str) -> None:
    commands = [each for each in RULES[rule].next_step.of("orders", "silver").parts() if isinstance(each, Command)]
    assert commands
    for command in commands:
        assert typed_advice.problem_of(command.argv[1:]) is None
        assert "orders" in command.argv


def test_no_input_is_not_evaluated_for_a_flow_with_an_upstream_flow() -> None:
    assert messages(THRESHOLDS, flow="parsed", plans=plans(0, 0, 0, 0, 0, 0)) == {}


def behind(*counts: int | None) -> tuple[PlannedLag, ...]:
    return tuple(PlannedLag(at=ago(0), behind=count, rows=None) for count in counts)


@pytest.mark.parametrize(
    ("counts", "is_true", "is_undecided"),
    [
        ((0, 0, None, 0, 0), False, True),
        ((None, None, None, None, None), False, True),
        ((0, 0, None, 1, 0), False, False),
        ((None, 0, 0, 0, 0, 0), True, False),
    ],
)
def test_a_failed_plan_counts_neither_as_input_nor_as_no_input(
    counts: tuple[int | None, ...], is_true: bool, is_undecided: bool
) -> None:
    findings = evaluate(THRESHOLDS, read(plans=behind(*counts)))
    assert ("no_input" in {alert.rule for alert in findings.alerts}) is is_true
    assert ("no_input" in findings.undecided) is is_undecided


def test_an_open_no_input_episode_stays_open_while_the_broker_is_unreachable() -> None:
    rules: list[tuple[str, str]] = []
    history: list[Event] = []
    for counts in ((0, 0, 0, 0, 0), (0, 0, 0, 0, None), (0, 0, 0, None, 0), (0, 0, None, 0, 0), (0, 0, None, 0, 7)):
        events = transitions(episodes_of(history), [evaluate(THRESHOLDS, read(plans=behind(*counts)))], NOW)
        rules += [(event.rule, event.kind) for event in events]
        history += events
    assert rules == [("no_input", "opened"), ("no_input", "resolved")]


@pytest.mark.parametrize(
    ("seconds_apart", "rows", "interval", "decided"),
    [
        (12.0, 8, 3600.0, False),
        (12.0, 8, None, False),
        (12.0, 1_000, 3600.0, True),
        (1_799.0, 8, 3600.0, False),
        (1_800.0, 8, 3600.0, True),
        (60.0, 8, None, True),
    ],
)
def test_an_arrival_rate_needs_half_an_interval_or_many_rows(
    seconds_apart: float, rows: int, interval: float | None, decided: bool
) -> None:
    runs = (run(seconds_apart / 3600), run(rows=rows, seconds=1e5))
    findings = evaluate(THRESHOLDS, read(runs=runs, interval_seconds=interval))
    assert ("slow" in {alert.rule for alert in findings.alerts}) is decided
    assert ("slow" in findings.undecided) is not decided


def test_a_pipeline_without_a_plan_is_missed_from_the_first_evaluation_on() -> None:
    assert messages(THRESHOLDS, plans=(), last_activity=ago(4)) == {}
    assert messages(THRESHOLDS, plans=(), last_activity=ago(4.1)) == {
        "missed": "no run was planned in the 4 h 6 min since alerts were first evaluated: at least 3 runs missed"
    }
    assert messages(THRESHOLDS, plans=(), last_activity=ago(4.1), interval_seconds=None) == {}
    # A plan of this flow takes precedence over the first evaluation.
    assert "missed" not in messages(THRESHOLDS, plans=plans(1, 1, 1, 1, 1, 1), last_activity=ago(100))


def test_rules_about_state_are_not_evaluated_for_a_flow_without_state() -> None:
    result = evaluate(THRESHOLDS, read("parsed"))
    reasons = {rule: result.not_evaluated[rule] for rule in ("state", "state_size", "watermark")}
    assert set(reasons.values()) == {"the flow keeps no state"}
    assert not {"state", "state_size", "watermark"} & result.undecided


def test_an_estimated_lag_is_marked() -> None:
    assert messages(Thresholds(lag_rows=9), backlog=waiting(rows=10, rows_exact=False))["lag"].startswith("~10 rows")


def test_a_run_without_rows_leaves_the_rule_slow_undecided() -> None:
    assert "slow" in evaluate(THRESHOLDS, read(runs=(run(1), run(rows=0)))).undecided


def test_an_empty_quarantine_has_no_age() -> None:
    assert messages(THRESHOLDS, quarantine=entries(0)) == {}


def test_rules_of_running_flows_are_not_evaluated_for_a_flow_that_is_switched_off() -> None:
    off = Override(act="off", by="ada", reason="wrong numbers", at="2026-03-01T11:00:00Z")
    late = {"plans": plans(0, 0, 0, 0, 0), "backlog": waiting(rows=2_000_000), "newest_event": ago(48)}
    assert set(messages(THRESHOLDS, **late)) == {"no_input", "lag", "freshness"}
    assert messages(THRESHOLDS, ends=RunEnds(failure="the last run failed"), off=off) == {}
    assert messages(THRESHOLDS, **late, off=off) == {}
    assert set(messages(THRESHOLDS, **late, off=off, **refused("batch 4 waits"), quarantine=entries(101))) == {
        "refused",
        "quarantine_rows",
    }


@pytest.mark.parametrize(
    ("rows", "hours", "number"), [(None, None, 0), (6, 72, 0), (5, 72, 1), (5, 48, 2), (None, 71, 1)]
)
def test_the_status_warns_of_a_quarantine_beyond_its_thresholds_also_of_a_flow_that_is_switched_off(
    rows: int | None, hours: int | None, number: int
) -> None:
    limits = Thresholds(quarantine_rows=rows, quarantine_hours=hours)
    off = Override(act="off", by="ada", reason="wrong numbers", at="2026-03-01T11:00:00Z")
    pipeline = dataclasses.replace(ORDERS, thresholds=limits)
    assert len(warnings(read(pipeline=pipeline, quarantine=entries(6, ago(72)), off=off))) == number
    assert warnings(read(pipeline=pipeline, quarantine=entries(0))) == ()
