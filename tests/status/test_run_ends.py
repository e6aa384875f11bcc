"""How the last runs ended, from requests, reports and leases as a job leaves them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pendulum
import pytest

from tests.cli.project import Project, orders
from tidegate.checkpoints import lease
from tidegate.errors import SourceUnavailableError
from tidegate.layout import Layout
from tidegate.report import FlowReport, FlowState, RunReport, describe_error
from tidegate.request import RunRequest
from tidegate.status import run_ends

NOW = pendulum.datetime(2026, 3, 1, 12)
PIPELINE = orders()
FAILURE = describe_error(SourceUnavailableError("no broker answers"))
HOLD = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Project.make(tmp_path / "project").layout


def id_of(prefix: str, hours_ago: float) -> str:
    return f"{prefix}{(NOW - timedelta(hours=hours_ago)).format('YYYYMMDDTHHmmss')}-0"


def request(layout: Layout, hours_ago: float, **fields: Any) -> RunRequest:
    """The request of a run, as `plan` stores it."""
    made = RunRequest(dag_id="orders", run_id=f"run {hours_ago:g} h ago", request_id=id_of("q", hours_ago), **fields)
    made.write(layout)
    return made


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
    path = layout.report("orders", key, made.attempt)
    made.write(path)
    os.utime(path, (at.timestamp(), at.timestamp()))
    os.utime(path.parent.parent, (at.timestamp(), at.timestamp()))
    return path


@contextmanager
def lease_held(layout: Layout, flow: str) -> Iterator[None]:
    """Another process that holds the lease of a flow, as a job does."""
    path = layout.lease(lease.checkpoint_resource("orders", flow))
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield
        process.kill()


def failures(layout: Layout, now: datetime = NOW) -> dict[str, str | None]:
    return {flow: end.failure for flow, end in run_ends.read(layout, PIPELINE, now).items()}


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
    attempt(layout, 1, error=describe_error(ValueError("Ada Lovelace")), bronze="waiting", silver="waiting")
    known = failures(layout)
    assert "ValueError" in (known["bronze"] or "")
    assert "Ada" not in (known["bronze"] or ""), "the text of another exception may quote data"
    assert (known["silver"], known["gold"]) == (None, None)


def test_a_report_that_is_not_final_is_a_crash_unless_its_job_is_alive(layout: Layout) -> None:
    attempt(layout, 1, final=False, bronze="done", silver="running", gold="waiting")
    with lease_held(layout, "silver"):
        assert failures(layout) == {}, "the job runs"
    known = failures(layout)
    assert known["bronze"] is None
    assert "crashed: it ended without a final report" in (known["silver"] or "")
    assert "gold" not in known, "only the flow above it crashed"


def test_a_job_that_has_just_begun_is_no_crash(layout: Layout) -> None:
    attempt(layout, 1 / 60, final=False, bronze="waiting")
    assert failures(layout) == {}
    attempt(layout, 0.9 / 60, final=False, bronze="running")
    assert set(failures(layout)) == {"bronze"}


def test_an_attempt_without_a_report_is_a_crash(layout: Layout) -> None:
    key = request(layout, 1).run_key
    folder = layout.attempt("orders", key, id_of("a", 0.9))
    folder.mkdir()
    (folder / "driver.log").touch()
    os.utime(folder, (ago(0.9).timestamp(),) * 2)
    assert "crashed" in (failures(layout)["bronze"] or "")


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def test_a_request_that_nothing_started_is_a_failure_after_a_quarter_of_an_hour(layout: Layout) -> None:
    attempt(layout, 2, bronze="done")
    request(layout, 0.2)
    assert failures(layout) == {"bronze": None}
    request(layout, 0.3)
    assert failures(layout) == {"bronze": None}, "a later request is still waiting for its turn"
    assert "has no attempt" in (failures(layout, NOW.add(minutes=10))["bronze"] or "")
    with lease_held(layout, "gold"):
        assert failures(layout, NOW.add(minutes=10)) == {"bronze": None}, "another run works"


def test_replays_and_dry_runs_neither_fail_nor_succeed(layout: Layout) -> None:
    attempt(layout, 3, silver="failed")
    for hours, fields in ((2.0, {"mode": "replay"}), (1.0, {"dry_run": True})):
        key = request(layout, hours, **fields).run_key
        report(layout, key, hours, silver="done")
    assert failures(layout)["silver"] is not None


def test_only_an_increment_reads_all_there_is(layout: Layout) -> None:
    attempt(layout, 3, silver="done")
    report(layout, request(layout, 2, mode="full_refresh").run_key, 2, silver="done")
    attempt(layout, 1, silver="failed")
    (ends,) = run_ends.read(layout, PIPELINE, NOW).values()
    assert ends.caught_up_at == ago(3 - 1 / 3600)


def test_a_damaged_report_is_a_failure(layout: Layout) -> None:
    attempt(layout, 1, bronze="done").write_text("{")
    assert "cannot be read" in (failures(layout)["bronze"] or "")


def test_however_many_runs_there_are_only_the_newest_are_opened(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hours in range(200, 0, -1):
        attempt(layout, hours, bronze="failed")
    opened: list[Path] = []
    read = RunReport.read

    def counted(path: Path) -> RunReport | None:
        opened.append(path)
        return read(path)

    monkeypatch.setattr(RunReport, "read", counted)
    assert set(failures(layout)) == {"bronze"}
    assert len(opened) == 50
