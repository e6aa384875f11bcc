"""How the last runs ended, from requests and reports as a job leaves them."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest

from tests.cli.project import Project, orders
from tidegate.errors import GateRefusedError, LeaseHeldError, SourceUnavailableError
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, PipelinePlace, RunPlace
from tidegate.reports.report import ErrorReport, FlowReport, FlowState, RunReport
from tidegate.reports.verdict import Verdict
from tidegate.requests.request import RunRequest
from tidegate.status import run_ends
from tidegate.store import Address

NOW = pendulum.datetime(2026, 3, 1, 12)
PIPELINE = orders()
FAILURE = ErrorReport.of(SourceUnavailableError("no broker answers"))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Project.make(tmp_path / "project").layout


def id_of(prefix: str, hours_ago: float) -> str:
    return f"{prefix}{(NOW - timedelta(hours=hours_ago)).format('YYYYMMDDTHHmmss')}-0"


def request(layout: Layout, hours_ago: float, **fields: Any) -> RunRequest:
    """The request of a run, as `plan` stores it."""
    made = RunRequest(dag_id="orders", run_id=f"run {hours_ago:g} h ago", request_id=id_of("q", hours_ago), **fields)
    made.write(layout)
    written(Path(RunPlace(layout, "orders", made.run_key).request(made.request_id)), ago(hours_ago))
    return made


def written(path: Path, at: datetime) -> None:
    """The times of a file, its folder and the run's folder as if it had been written then."""
    for each in (path, path.parent, path.parent.parent):
        os.utime(each, (at.timestamp(), at.timestamp()))


def attempt(layout: Layout, hours_ago: float, *, final: bool = True, error: Any = None, **states: FlowState) -> Path:
    """A request and the report of an attempt that began a second after it."""
    key = request(layout, hours_ago).run_key
    return report(layout, key, hours_ago - 1 / 3600, final=final, error=error, **states)


def report(
    layout: Layout, key: str, hours_ago: float, *, final: bool = True, error: Any = None, **states: FlowState
) -> Path:
    at = NOW - timedelta(hours=hours_ago)
    flows = [
        FlowReport(
            flow=name,
            target=f"{name}.orders",
            checkpoint_version=1,
            state=state,
            error=FAILURE if state == "failed" else None,
        )
        for name, state in states.items()
    ]
    made = RunReport(
        dag_id="orders",
        run_key=key,
        attempt=id_of("a", hours_ago),
        started_at=at.to_iso8601_string(),
        ended_at=at.to_iso8601_string() if final else None,
        flows=flows,
        error=error,
    )
    path = AttemptPlace(layout, "orders", key, made.attempt).report
    made.write(path)
    written(Path(path), at)
    return Path(path)


def failures(layout: Layout, now: datetime = NOW, *, running: bool = False) -> dict[str, str | None]:
    return {flow: end.failure for flow, end in run_ends.read(layout, PIPELINE, now, running=running).items()}


def test_without_a_run_nothing_is_known(layout: Layout) -> None:
    assert failures(layout) == {}


def test_a_flow_that_failed_is_named_with_its_error_and_report_and_skipped_flows_are_not(layout: Layout) -> None:
    attempt(layout, 2, bronze="done", silver="failed", gold="skipped")
    known = failures(layout)
    assert set(known) == {"bronze", "silver"}
    assert known["bronze"] is None
    assert known["silver"] is not None
    assert known["silver"].startswith("the last run failed: no broker answers (reports/orders/run-2-h-ago-")
    assert known["silver"].endswith(f"/{id_of('a', 2 - 1 / 3600)})")


def test_a_later_success_of_the_flow_ends_it_and_a_later_run_of_another_flow_does_not(layout: Layout) -> None:
    attempt(layout, 3, bronze="done", silver="failed")
    attempt(layout, 2, bronze="done")
    assert failures(layout)["silver"] is not None
    attempt(layout, 1, silver="idle")
    assert failures(layout) == {"bronze": None, "silver": None}


def test_a_failed_application_counts_for_the_flows_that_come_first(layout: Layout) -> None:
    attempt(layout, 2, bronze="done", silver="done", gold="done")
    attempt(layout, 1, error=ErrorReport.of(ValueError("Ada Lovelace")), bronze="waiting", silver="waiting")
    known = failures(layout)
    assert "ValueError" in (known["bronze"] or "")
    assert "Ada" not in (known["bronze"] or ""), "the text of another exception may quote data"
    assert (known["silver"], known["gold"]) == (None, None)


def test_a_report_that_is_not_final_is_a_crash_unless_its_job_is_alive(layout: Layout) -> None:
    attempt(layout, 1, final=False, bronze="done", silver="running", gold="waiting")
    assert failures(layout, running=True) == {}
    known = failures(layout)
    assert known["bronze"] is None
    assert "crashed: it left no final report" in (known["silver"] or "")
    assert "gold" not in known, "only the flow above it crashed"


@pytest.mark.parametrize("hours", [1, 24, 49])
def test_after_the_clock_was_set_back_the_runs_since_then_are_the_newest(layout: Layout, hours: int) -> None:
    attempt(layout, -hours, bronze="done", silver="done")
    attempt(layout, 0.5, bronze="failed")

    assert failures(layout)["bronze"] is not None
    attempt(layout, 0.3, bronze="done")
    assert failures(layout)["bronze"] is None


def test_a_crash_stays_one_while_the_next_run_works(layout: Layout) -> None:
    attempt(layout, 3, bronze="done")
    attempt(layout, 2, final=False, bronze="running")
    attempt(layout, 1, final=False, bronze="running")
    assert "run-2-h-ago" in (failures(layout, running=True)["bronze"] or "")
    assert "run-1-h-ago" in (failures(layout)["bronze"] or "")


def test_a_flow_that_found_its_lease_held_ends_as_the_job_that_held_it(layout: Layout) -> None:
    attempt(layout, 3, silver="done")
    path = attempt(layout, 2, silver="failed")
    refused = RunReport.read(Address.local(path))
    assert refused is not None
    refused.flows[0].error = ErrorReport.of(LeaseHeldError("checkpoint:orders/silver", "the run of three hours ago"))
    refused.write(Address.local(path))
    assert failures(layout) == {"silver": None}


@pytest.mark.parametrize("of_backfill", [True, False])
def test_a_refused_backfill_is_a_failure_and_a_refused_batch_is_an_alert_of_its_own(
    layout: Layout, of_backfill: bool
) -> None:
    path = report(layout, request(layout, 1, mode="backfill").run_key, 1, silver="refused", gold="skipped")
    refused = RunReport.read(Address.local(path))
    assert refused is not None
    verdict = Verdict(
        flow="silver",
        batch_id=0,
        app_id=f"orders/silver/v1/0{'/window' if of_backfill else ''}",
        suite="orders/silver",
        suite_fingerprint="",
        code_fingerprint="",
        outcome="refused",
    )
    refused.flows[0].verdicts.append(verdict)
    refused.flows[0].error = ErrorReport.of(GateRefusedError(verdict))
    refused.write(Address.local(path))

    ends = run_ends.read(layout, PIPELINE, NOW, running=False)

    assert set(ends) == {"silver"}
    assert ("backfill 0 refused by suite" in (ends["silver"].failure or "")) is of_backfill
    assert (ends["silver"].failed_runs, ends["silver"].of_increment) == (int(of_backfill), False)


def test_a_job_that_has_just_written_its_report_may_be_starting(layout: Layout) -> None:
    attempt(layout, 0.25, final=False, bronze="waiting")
    assert failures(layout) == {}
    assert "crashed" in (failures(layout, NOW.add(minutes=1))["bronze"] or "")


def test_an_attempt_without_a_report_is_a_crash(layout: Layout) -> None:
    key = request(layout, 1).run_key
    folder = AttemptPlace(layout, "orders", key, id_of("a", 0.9)).folder
    Path(folder).mkdir()
    Path(folder / "driver.log").touch()
    written(Path(folder / "driver.log"), ago(0.9))
    assert "crashed" in (failures(layout)["bronze"] or "")


def test_folders_of_other_programs_are_no_runs(layout: Layout) -> None:
    attempt(layout, 1, bronze="failed")
    Path(PipelinePlace(layout, "orders").reports / "old runs" / "lost+found").mkdir(parents=True)
    assert "no broker answers" in (failures(layout)["bronze"] or "")


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def test_a_request_that_nothing_started_is_a_failure_after_a_quarter_of_an_hour(layout: Layout) -> None:
    attempt(layout, 2, bronze="done")
    request(layout, 0.2)
    assert failures(layout) == {"bronze": None}, "it may wait in a queue"
    assert "has no attempt" in (failures(layout, NOW.add(minutes=10))["bronze"] or "")
    assert failures(layout, NOW.add(minutes=10), running=True) == {"bronze": None}, "it waits for another run"
    report(layout, "another-run", 0.1, bronze="idle")
    assert failures(layout, NOW.add(minutes=10)) == {"bronze": None}, "a later run succeeded"


def test_replays_undos_and_dry_runs_neither_fail_nor_succeed(layout: Layout) -> None:
    attempt(layout, 3, silver="failed")
    for hours, fields in ((2.0, {"mode": "replay"}), (1.5, {"mode": "undo"}), (1.0, {"dry_run": True})):
        key = request(layout, hours, **fields).run_key
        report(layout, key, hours, silver="done")
    assert failures(layout)["silver"] is not None


def test_only_an_increment_reads_all_there_is(layout: Layout) -> None:
    attempt(layout, 3, silver="done")
    report(layout, request(layout, 2, mode="full_refresh").run_key, 2, silver="done")
    attempt(layout, 1, silver="failed")
    (ends,) = run_ends.read(layout, PIPELINE, NOW, running=False).values()
    assert ends.caught_up_at == ago(3 - 1 / 3600)


def test_a_damaged_report_is_a_failure(layout: Layout) -> None:
    attempt(layout, 1, bronze="done").write_text("{")
    assert "cannot be read" in (failures(layout)["bronze"] or "")


def test_however_many_runs_there_are_only_the_newest_are_opened(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hours in range(200, 0, -1):
        attempt(layout, hours, bronze="failed")
    opened: list[Address] = []
    read = RunReport.read

    def counted(address: Address) -> RunReport | None:
        opened.append(address)
        return read(address)

    monkeypatch.setattr(RunReport, "read", counted)
    assert set(failures(layout)) == {"bronze"}
    assert len(opened) == 50


def test_failed_runs_count_since_the_last_that_did_not(layout: Layout) -> None:
    attempt(layout, 6, bronze="done", silver="failed")
    attempt(layout, 5, bronze="done", silver="done")
    for hours in (4, 3):
        attempt(layout, hours, bronze="done", silver="failed")
    key = request(layout, 2).run_key
    # A run and its retry count once.
    report(layout, key, 1.9, silver="failed")
    report(layout, key, 1.8, silver="failed")
    ends = run_ends.read(layout, PIPELINE, NOW, running=False)
    assert (ends["silver"].failed_runs, ends["silver"].crashed, ends["silver"].more) == (3, False, False)
    assert (ends["silver"].sentence or "").startswith("3 runs in a row failed; the last run failed: no broker answers")
    assert (ends["bronze"].failed_runs, ends["bronze"].sentence) == (0, None)


def test_more_runs_than_are_read_may_have_failed(layout: Layout) -> None:
    for hours in range(52, 0, -1):
        attempt(layout, hours, bronze="failed")
    ends = run_ends.read(layout, PIPELINE, NOW, running=False)["bronze"]
    assert (ends.sentence or "").startswith("at least 50 runs in a row failed; the last run failed")


def test_a_flow_that_holds_no_lease_any_more_crashed_after_a_minute(layout: Layout) -> None:
    attempt(layout, 0.5 / 60, final=False, bronze="running")
    assert run_ends.read(layout, PIPELINE, NOW, running=False) == {}, "it may return its lease, or take it"
    crashed = run_ends.read(layout, PIPELINE, NOW.add(minutes=1), running=False)["bronze"]
    assert (crashed.crashed, crashed.failed_runs) == (True, 1)


def test_a_new_attempt_of_an_old_run_is_read_although_the_runs_were_listed(layout: Layout) -> None:
    for hours in range(60, 0, -1):
        attempt(layout, hours, bronze="failed")
    assert failures(layout)["bronze"] is not None
    key = request(layout, 0.5).run_key
    report(layout, key, 0.4, bronze="done")
    assert failures(layout)["bronze"] is None, "a new run changes the folder"
    report(layout, key, 0.3, bronze="failed")
    assert failures(layout)["bronze"] is not None, "it is among the newest"
