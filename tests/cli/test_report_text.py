"""A run's report as lines of text, and its exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegate.cli import report_text
from tidegate.cli.progress_view import Lines
from tidegate.errors import LeaseHeldError, OffsetsExpiredError, SpecError, TidegateError
from tidegate.report import BatchRecord, FlowReport, RunReport, describe_error

TRANSIENT = LeaseHeldError("table silver.orders", "another run")
LOST = OffsetsExpiredError("the topic no longer has the next messages")


def flow(name: str, state: str, error: TidegateError | None = None, **more: Any) -> FlowReport:
    description = describe_error(error) if error is not None else None
    return FlowReport(flow=name, target=f"{name}.orders", checkpoint_version=1, state=state, error=description, **more)  # type: ignore[arg-type]


def report(*flows: FlowReport, error: TidegateError | None = None, ended: bool = True) -> RunReport:
    return RunReport(
        dag_id="orders",
        run_key="k",
        attempt="a",
        started_at="t",
        ended_at="t" if ended else None,
        flows=list(flows),
        error=describe_error(error) if error is not None else None,
    )


@pytest.mark.parametrize(
    ("run_report", "returned", "code"),
    [
        (report(flow("bronze", "done"), flow("silver", "idle")), 0, 0),
        (report(flow("bronze", "done"), flow("silver", "refused"), flow("gold", "skipped")), 0, 65),
        (report(flow("bronze", "failed", TRANSIENT)), 75, 75),
        (report(flow("bronze", "failed", LOST)), 0, 65),
        (report(flow("bronze", "failed", TRANSIENT), flow("other", "failed", SpecError("x"))), 75, 78),
        (report(flow("bronze", "failed", TRANSIENT), flow("other", "refused")), 75, 65),
        (report(error=SpecError("x")), 78, 78),
        (report(flow("bronze", "running"), ended=False), 137, 70),
        (report(flow("bronze", "running"), ended=False), 0, 70),
        (report(flow("bronze", "done")), 1, 70),
        (None, 1, 70),
        (None, 0, 70),
    ],
)
def test_the_exit_code_follows_from_the_report(run_report: RunReport | None, returned: int, code: int) -> None:
    assert report_text.exit_code(run_report, returned) == code


def test_the_lines_of_a_flow_show_counts_rules_and_lag() -> None:
    batch = BatchRecord(
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
    before = {"rows": 1204, "rows_exact": False, "bytes": 88_100, "bytes_exact": True}
    after = {"rows": 0, "rows_exact": True, "bytes": 0, "bytes_exact": True}
    lines = dict(
        report_text.flow_lines(
            flow("silver", "done", batches=[batch, batch], lag_before=before, lag_after=after, seconds=8.14)
        )
    )
    assert lines == {
        "": "silver -> silver.orders: done, 2 batches, 8.1 s",
        "rows": "2,408 read = 2,340 written + 40 quarantined + 20 filtered + 8 superseded",
        "quarantined": "between(amount) 24, wrong_type(amount) 24",
        "filtered": "test_order 20",
        "lag": "~1,204 rows (88.1 kB) -> 0 rows (0 B)",
    }


def test_the_lines_of_a_group_flow_count_groups() -> None:
    batch = BatchRecord(
        flow="gold",
        batch_id=0,
        app_id="orders/gold/v1/0",
        kind="recompute",
        read=70,
        groups=31,
        upserted=28,
        unchanged=3,
    )
    lines = dict(report_text.flow_lines(flow("gold", "done", batches=[batch])))
    assert lines["groups"] == "31 recomputed = 28 upserted + 3 unchanged, named by 70 changed rows"
    assert "rows" not in lines


def test_an_error_is_shown_below_its_flow() -> None:
    lines = list(report_text.flow_lines(flow("silver", "failed", SpecError("fix\nthe suite"))))
    assert lines[1] == ("SpecError", "fix the suite")


def test_the_log_tail_is_the_last_lines_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("".join(f"line {number}\n" for number in range(40_000)))
    assert report_text.log_tail(log) == [f"line {number}" for number in range(39_985, 40_000)]
    assert report_text.log_tail(tmp_path / "none.log") == []


def test_each_change_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    show = Lines()
    batch = BatchRecord(flow="bronze", batch_id=0, app_id="a", kind="append", read=1204, written=1204, seconds=2.5)
    for run_report in (
        None,
        report(flow("bronze", "waiting"), ended=False),
        report(flow("bronze", "running"), ended=False),
        report(flow("bronze", "running", batches=[batch]), ended=False),
        report(flow("bronze", "running", batches=[batch]), ended=False),
        report(flow("bronze", "done", batches=[batch])),
    ):
        show(run_report)
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["starting Spark", "bronze: running", "bronze: batch 0, 1,204 rows, 2.5 s", "bronze: done"]


def test_the_lines_of_a_replay_show_what_passed_and_what_was_refused_again() -> None:
    line = BatchRecord(flow="silver", batch_id=0, app_id="a", kind="replay", read=3, written=2, quarantined=1)
    lines = dict(report_text.flow_lines(flow("silver", "done", batches=[line])))
    assert lines["rows"] == "3 replayed = 2 written + 1 refused again"
    dry_run = dict(report_text.flow_lines(flow("silver", "done", batches=[line], dry_run=True)))
    assert dry_run["rows"] == "would be: 3 replayed = 2 written + 1 refused again"
