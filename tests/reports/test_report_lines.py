"""What a flow did, as lines for the command line and for the log of a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidegate.errors import SpecError
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import ErrorReport, FlowReport, LagReport, Verification
from tidegate.reports.report_lines import flow_lines, log_lines
from tidegate.reports.verdict import ExpectationResult, Verdict


def flow(name: str, state: str, **more: Any) -> FlowReport:
    return FlowReport(flow=name, target=f"{name}.orders", checkpoint_version=1, state=state, **more)  # type: ignore[arg-type]


def test_the_lines_of_a_flow_show_counts_rules_and_lag() -> None:
    batch = LedgerLine(
        flow="silver",
        batch_id=4,
        app_id="orders/silver/v1/0",
        kind="upsert",
        read=1204,
        written=1170,
        quarantined=20,
        filtered={"test_order": 10},
        superseded=4,
        rules={"between(amount)": 12, "wrong_type(amount)": 12},
    )
    before = LagReport(rows=1204, rows_exact=False, bytes=88_100, behind=2)
    after = LagReport(rows=0, bytes=0, behind=0)
    lines = dict(
        flow_lines(flow("silver", "done", batches=[batch, batch], lag_before=before, lag_after=after, seconds=8.14))
    )
    assert lines == {
        "": "silver -> silver.orders: done, 2 batches, 8.1 s",
        "rows": "2,408 read = 2,340 written + 40 quarantined + 20 filtered + 8 superseded",
        "quarantined": "between(amount) 24, wrong_type(amount) 24",
        "filtered": "test_order 20",
        "lag": "~1,204 rows (88.1 kB) -> 0 rows (0 B)",
    }


def test_the_lines_of_a_group_flow_count_groups() -> None:
    batch = LedgerLine(
        flow="gold",
        batch_id=0,
        app_id="orders/gold/v1/0",
        kind="recompute",
        read=70,
        groups=31,
        upserted=28,
        unchanged=3,
    )
    lines = dict(flow_lines(flow("gold", "done", batches=[batch])))
    assert lines["groups"] == "31 recomputed = 28 upserted + 3 unchanged, named by 70 changed rows"
    assert "rows" not in lines


def test_the_lines_of_a_stateful_flow_count_results_and_the_rows_that_made_them() -> None:
    batch = LedgerLine(flow="daily", batch_id=0, app_id="a", kind="emit", read=70, results=3, written=3)
    lines = dict(flow_lines(flow("daily", "done", batches=[batch])))
    assert lines["results"] == "3 made = 3 written, from 70 rows"
    assert "rows" not in lines


def test_the_lines_of_a_backfill_of_rows_show_rows_and_keys() -> None:
    batch = LedgerLine(
        flow="silver", batch_id=0, app_id="a", kind="backfill", read=4, written=3, deduplicated=1, groups=3, upserted=3
    )
    lines = dict(flow_lines(flow("silver", "done", batches=[batch])))
    assert lines["groups"] == "3 recomputed = 3 upserted"
    assert lines["rows"] == "4 read = 3 written + 1 deduplicated"


def test_an_error_is_shown_below_its_flow() -> None:
    lines = list(flow_lines(flow("silver", "failed", error=ErrorReport.of(SpecError("fix\nthe suite")))))
    assert lines[1] == ("SpecError", "fix the suite")


def test_the_lines_of_a_replay_show_what_passed_and_what_was_refused_again() -> None:
    line = LedgerLine(flow="silver", batch_id=0, app_id="a", kind="replay", read=3, written=2, quarantined=1)
    lines = dict(flow_lines(flow("silver", "done", batches=[line])))
    assert lines["rows"] == "3 replayed = 2 written + 1 refused again"
    dry_run = dict(flow_lines(flow("silver", "done", batches=[line], dry_run=True)))
    assert dry_run["rows"] == "would be: 3 replayed = 2 written + 1 refused again"


def test_the_log_of_a_task_has_the_version_and_the_verdicts_as_well() -> None:
    batch = LedgerLine(flow="silver", batch_id=3, app_id="orders/silver/v1/0", kind="upsert", read=9, written=9)
    broken = ExpectationResult(
        expectation="e",
        rule="not_null(customer)",
        severity="warning",
        success=True,
        evaluated=9,
        unexpected=2,
        mostly=0.7,
    )
    verdict = Verdict(
        flow="silver",
        batch_id=3,
        app_id="orders/silver/v1/0",
        suite="orders/silver",
        suite_fingerprint="s",
        code_fingerprint="c",
        outcome="passed",
        results=(broken, replace(broken, unexpected=0)),
    )
    report = flow("silver", "done", batches=[batch], verdicts=[verdict], notes=["a note"], target_version=4)
    assert list(log_lines(report)) == [
        "silver -> silver.orders: done, 1 batch, 0.0 s",
        "rows: 9 read = 9 written",
        "note: a note",
        "silver.orders is at Delta version 4",
        "batch 3, warning: not_null(customer) (2 of 9 rows break it, mostly 0.7)",
        "batch 3: passed by suite orders/silver",
    ]
    without_suite = replace(verdict, suite="", outcome="refused", results=())
    assert (
        list(log_lines(flow("silver", "refused", verdicts=[without_suite])))[-1] == "batch 3: refused by its transform"
    )


def test_a_verification_is_one_line() -> None:
    result = Verification(version=2, source="bronze.orders at version 0", equal=3, missing=1, unexpected=0, different=0)
    lines = dict(flow_lines(flow("silver", "done", verification=result)))
    assert lines["verified"] == result.summary()
