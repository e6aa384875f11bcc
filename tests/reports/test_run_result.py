"""A run's exit code, the tail of its log, and the lines of its progress."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tidegate.cli.progress_view import Lines
from tidegate.errors import LeaseHeldError, OffsetsExpiredError, SpecError, TidegateError
from tidegate.reports import run_result
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import ErrorReport, FlowReport, RunReport
from tidegate.store import Address

TRANSIENT = LeaseHeldError("table silver.orders", "another run")
LOST = OffsetsExpiredError("the topic no longer has the next messages")


def flow(name: str, state: str, error: TidegateError | None = None, **more: Any) -> FlowReport:
    description = ErrorReport.of(error) if error is not None else None
    return FlowReport(flow=name, target=f"{name}.orders", checkpoint_version=1, state=state, error=description, **more)  # type: ignore[arg-type]


def report(*flows: FlowReport, error: TidegateError | None = None, ended: bool = True) -> RunReport:
    return RunReport(
        dag_id="orders",
        run_key="k",
        attempt="a",
        started_at="t",
        ended_at="t" if ended else None,
        flows=list(flows),
        error=ErrorReport.of(error) if error is not None else None,
    )


@pytest.mark.parametrize(
    ("returned", "text"),
    [(56, r"exit code 56 \(the process stood still, .* run again"), (52, "out of memory"), (70, "^exit code 70$")],
)
def test_an_exit_code_that_is_not_of_the_platform_is_explained(returned: int, text: str) -> None:
    assert re.search(text, run_result.describe_exit(returned))


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
    assert run_result.exit_code(run_report, returned) == code


def test_a_run_with_batches_names_the_commands_that_show_more() -> None:
    batch = LedgerLine(
        flow="silver", batch_id=0, app_id="orders/silver/v1/0", kind="upsert", read=3, written=2, quarantined=1
    )
    wrote = report(flow("bronze", "idle"), flow("silver", "done", batches=[batch]))
    assert list(run_result.next_commands(wrote)) == [
        "quarantine (silver): tidegate quarantine list orders",
        "pages: tidegate docs orders",
    ]
    assert list(run_result.next_commands(report(flow("silver", "refused")))) == ["pages: tidegate docs orders"]
    assert list(run_result.next_commands(report(flow("bronze", "idle")))) == []


def test_the_log_tail_is_the_last_lines_of_the_log(tmp_path: Path) -> None:
    log = Address.local(tmp_path / "driver.log")
    log.put("".join(f"line {number}\n" for number in range(40_000)).encode())
    assert run_result.log_tail(log) == [f"line {number}" for number in range(39_985, 40_000)]
    assert run_result.log_tail(Address.local(tmp_path / "none.log")) == []


def test_each_change_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    show = Lines()
    batch = LedgerLine(flow="bronze", batch_id=0, app_id="a", kind="append", read=1204, written=1204, seconds=2.5)
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
