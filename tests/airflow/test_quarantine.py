"""The DAG `quarantine`, run by Airflow; a script that writes reports replaces Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.airflow.in_process import InProcessRun
from tests.airflow.lake import Lake
from tests.cli.project import append, quarantined
from tidegate.airflow.failure import CLEARING_HINT
from tidegate.airflow.quarantine import build_quarantine_dag
from tidegate.checkpoints import lease, overrides
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import FlowPlace
from tidegate.quarantine import lifecycle
from tidegate.reports.ledger_line import ROWS
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest
from tidegate.store import Address

pytestmark = pytest.mark.airflow

SILVER = {"pipeline": "flights", "flow": "silver"}


@pytest.fixture
def dag(database: Path) -> Any:
    return build_quarantine_dag()


@pytest.fixture
def layout(project_dir: Path) -> Layout:
    return Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")


@pytest.fixture
def entries(layout: Layout) -> Address:
    """Three open quarantine entries of silver."""
    path = FlowPlace(layout, "flights", "silver").quarantine
    append(path, [quarantined(f"a#{number}", ["between(dep_delay)"], {"line": number}, "x") for number in range(3)])
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"action": "waive", "rule": "between(dep_delay)", "since": "2026-01-05", "reason": "why not; rm -rf"},
        {"action": "expire", "older_than": "30d"},
        {"limit": 5, "dry_run": True},
    ],
)
def test_the_form_accepts_valid_params(changes: dict[str, Any]) -> None:
    params = build_quarantine_dag().params
    params.update(changes)
    params.validate()


@pytest.mark.parametrize(
    "changes",
    [
        {"action": "delete"},
        {"pipeline": "../flights"},
        {"flow": "silver; rm"},
        {"rule": "a' OR 1=1"},
        {"since": "2026-01-05T10:00"},
        {"until": "garbage; rm"},
        {"older_than": "a month"},
        {"limit": 0},
        {"dry_run": "yes"},
        {"reason": "x" * 501},
    ],
)
def test_the_form_refuses_an_invalid_name_date_age_or_count(changes: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = build_quarantine_dag().params
    with pytest.raises(ParamValidationError):
        params.update(changes)
        params.validate()


def test_plan_waives_without_an_application(
    runs: Any, dag: Any, layout: Layout, entries: Address, spark_submit: Any
) -> None:
    spark_submit("sys.exit('must not be started')")
    run = runs.start(dag, {**SILVER, "action": "waive", "reason": "the airport's own test"})
    assert runs.states(run) == {"plan": "success", "run": "skipped", "show": "skipped"}
    assert runs.xcom(run, "plan", "reason") == "silver: 3 waived"
    assert lifecycle.entry_counts(entries).states == {"waived": 3}


def test_a_replay_runs_one_application_with_its_request(
    runs: Any, dag: Any, layout: Layout, entries: Address, spark_submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_submit(
        "flow = report.flow('silver')\n"
        "flow.batches.append(LedgerLine(flow='silver', batch_id=0, app_id='a', kind='replay', read=3, written=2, quarantined=1))\n"
        "flow.state = 'done'\n"
        "report.application = 'local-17'\n"
        "report.write(path)\n"
    )
    monkeypatch.setenv("TIDEGATE_SPARK_HISTORY", "http://spark:18080/")
    run = runs.start(dag, {**SILVER, "rule": "between(dep_delay)", "limit": 100})
    assert runs.states(run) == {"plan": "success", "run": "success", "show": "success"}
    assert runs.xcom(run, "run", "_link_HistoryLink") == "http://spark:18080/history/local-17/jobs/"
    counts = runs.xcom(run, "show", "return_value")
    assert {name: number for name, number in counts.items() if number} == {"read": 3, "written": 2, "quarantined": 1}
    assert counts.keys() == {"read", *ROWS.parts}, "as in the ledger: no row is in none of them"
    request_id = runs.xcom(run, "plan", "request")
    request = RunRequest.read(layout, "flights", run_key(run.run_id), request_id)
    assert (request.mode, request.flows, request.limit) == ("replay", ("silver",), 100)
    assert request.selection is not None
    assert request.selection.rule == "between(dep_delay)"
    assert request.requested_by


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action": "waive"}, "needs a reason"),
        ({"action": "expire"}, "needs an age"),
        ({"action": "expire", "dry_run": True}, "needs an age"),
        ({"action": "take", "reason": "x"}, "no refused batch"),
        ({"action": "take", "reason": "x", "dry_run": True}, "take has no dry run"),
        ({"action": "take", "reason": "x", "rule": "between(dep_delay)"}, "rule does not apply to take"),
        ({"action": "waive", "reason": "x", "limit": 1}, "limit does not apply to waive"),
        ({"flow": "platinum"}, "has no flow 'platinum'"),
        ({"rules": "x"}, "unknown key 'rules'"),
    ],
)
def test_plan_fails_on_contradicting_fields_and_changes_nothing(
    layout: Layout, entries: Address, changes: dict[str, Any], message: str
) -> None:
    run = InProcessRun(build_quarantine_dag(), SILVER | changes)
    assert run.execute("plan") == "failed"
    assert message in run.message
    assert lifecycle.entry_counts(entries).states == {"open": 3}


def test_a_dry_run_of_waiving_counts_and_changes_nothing(layout: Layout, entries: Address) -> None:
    run = InProcessRun(build_quarantine_dag(), {**SILVER, "action": "waive", "reason": "x", "dry_run": True})
    assert run.execute("plan") == "short circuit"
    assert run.xcom("plan", "reason") == "silver: 3 open entries would be changed"
    assert lifecycle.entry_counts(entries).states == {"open": 3}


def test_without_open_entries_the_run_succeeds_without_an_application(layout: Layout) -> None:
    run = InProcessRun(build_quarantine_dag(), SILVER)
    assert run.execute("plan") == "short circuit"
    assert run.xcom("plan", "reason") == "silver: no open entries"


def test_a_held_lease_is_a_transient_error(layout: Layout, entries: Address) -> None:
    run = InProcessRun(build_quarantine_dag(), {**SILVER, "action": "waive", "reason": "x"})
    with lease.hold(layout, ("checkpoint:flights/silver",), what="attempt a1 of flights"):
        assert run.execute("plan") == "up for retry"
    assert "is held by" in run.message
    assert lifecycle.entry_counts(entries).states == {"open": 3}


def test_a_replay_of_a_flow_that_is_switched_off_is_refused_before_a_jvm_starts(
    layout: Layout, entries: Address
) -> None:
    overrides.switch(FlowPlace(layout, "flights", "silver"), on=False, by="ada", reason="frozen until Monday")
    run = InProcessRun(build_quarantine_dag(), {**SILVER, "action": "replay"})
    assert run.execute("plan") == "failed"
    assert "switched off by ada" in run.message
    assert lifecycle.entry_counts(entries).states == {"open": 3}


@pytest.mark.parametrize(
    ("report", "message"), [("none", "crashed before it wrote a report"), ("failed", "the replay was failed")]
)
def test_show_fails_for_a_replay_that_failed(layout: Layout, entries: Address, report: str, message: str) -> None:
    run = InProcessRun(build_quarantine_dag(), SILVER)
    run.xcoms["run", "attempt"] = "a1"
    if report == "failed":
        silver = FlowReport(flow="silver", target="silver.flights", checkpoint_version=1, state="failed")
        Lake(layout).report(run.run_id, "a1", flows=[silver])
    assert run.execute("show") == "failed"
    assert message in run.message
    assert run.message.endswith(CLEARING_HINT)
