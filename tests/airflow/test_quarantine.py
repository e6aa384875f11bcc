"""The form for what was set aside, run by Airflow; Spark's place is taken by a script that writes reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.project import append, quarantined
from tidegate.airflow.quarantine import build_quarantine_dag
from tidegate.checkpoints import intervention, lease
from tidegate.layout import Layout, run_key
from tidegate.quarantine import lifecycle
from tidegate.request import RunRequest

pytestmark = pytest.mark.airflow

SILVER = {"pipeline": "flights", "flow": "silver"}


@pytest.fixture
def dag(database: Path) -> Any:
    return build_quarantine_dag()


@pytest.fixture
def layout(places: Path) -> Layout:
    return Layout(places / ".data/lake", places / ".data/landing")


@pytest.fixture
def held(layout: Layout) -> Path:
    """Three open rows of silver."""
    path = layout.quarantine("flights", "silver")
    append(path, [quarantined(f"a#{number}", ["between(dep_delay)"], {"line": number}, "x") for number in range(3)])
    return path


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"action": "waive", "rule": "between(dep_delay)", "since": "2026-01-05", "reason": "why not; rm -rf"},
        {"action": "expire", "older_than": "30d"},
        {"limit": 5, "dry_run": True},
    ],
)
def test_the_form_takes_what_makes_sense(asked: dict[str, Any]) -> None:
    params = build_quarantine_dag().params
    params.update(asked)
    params.validate()


@pytest.mark.parametrize(
    "asked",
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
def test_the_form_refuses_what_is_no_name_day_age_or_count(asked: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = build_quarantine_dag().params
    with pytest.raises(ParamValidationError):
        params.update(asked)
        params.validate()


def test_waiving_is_done_by_plan_without_an_application(
    runs: Any, dag: Any, layout: Layout, held: Path, spark_submit: Any
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    run = runs.start(dag, {**SILVER, "action": "waive", "reason": "the airport's own test"})
    assert runs.states(run) == {"plan": "success", "run": "skipped", "show": "skipped"}
    assert runs.xcom(run, "plan", "reason") == "silver: 3 waived"
    assert lifecycle.held(held).states == {"waived": 3}


def test_a_form_that_does_not_fit_together_is_red_in_plan_and_changes_nothing(
    runs: Any, dag: Any, layout: Layout, held: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    for asked, says in (
        ({**SILVER, "action": "waive"}, "needs a reason"),
        ({**SILVER, "action": "expire"}, "needs an age"),
        ({**SILVER, "action": "take", "reason": "x"}, "no refused batch"),
        # `dag.test` keeps what an earlier run of the same DAG was given.
        ({**SILVER, "action": "expire", "dry_run": True}, "needs an age"),
        ({**SILVER, "action": "take", "reason": "x", "rule": "between(dep_delay)"}, "rule does not go with take"),
        ({**SILVER, "action": "waive", "reason": "x", "limit": 1}, "limit does not go with waive"),
        ({**SILVER, "flow": "platinum"}, "has no flow 'platinum'"),
        ({**SILVER, "rules": "x"}, "unknown key 'rules'"),
    ):
        run = runs.start(dag, asked)
        assert runs.states(run)["plan"] == "failed", asked
        assert says in capsys.readouterr().out
    assert lifecycle.held(held).states == {"open": 3}


def test_a_replay_goes_to_one_application_that_is_given_its_request(
    runs: Any,
    dag: Any,
    layout: Layout,
    held: Path,
    spark_submit: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark_submit(
        "flow = report.flow('silver')\n"
        "flow.batches.append(BatchRecord(flow='silver', batch_id=0, app_id='a', kind='replay', read=3, written=2, quarantined=1))\n"
        "flow.state = 'done'\n"
        "report.application = 'local-17'\n"
        "report.write(path)\n"
    )
    monkeypatch.setenv("TIDEGATE_SPARK_HISTORY", "http://spark:18080/")
    run = runs.start(dag, {**SILVER, "rule": "between(dep_delay)", "limit": 100})
    assert runs.states(run) == {"plan": "success", "run": "success", "show": "success"}
    assert runs.xcom(run, "run", "_link_HistoryLink") == "http://spark:18080/history/local-17/jobs/"
    assert runs.xcom(run, "show", "return_value") == {"read": 3, "written": 2, "quarantined": 1, "superseded": 0}
    request_id = runs.xcom(run, "plan", "request")
    request = RunRequest.read(layout, "flights", run_key(run.run_id), request_id)
    assert (request.mode, request.flows, request.limit) == ("quarantine", ("silver",), 100)
    assert request.selection is not None
    assert request.selection.rule == "between(dep_delay)"
    assert request.requested_by


def test_with_nothing_open_the_run_ends_green_without_an_application(
    runs: Any, dag: Any, layout: Layout, spark_submit: Any
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    run = runs.start(dag, SILVER)
    assert run.state == "success"
    assert runs.states(run) == {"plan": "success", "run": "skipped", "show": "skipped"}


def test_a_run_that_holds_the_lease_is_waited_for(
    runs: Any, dag: Any, layout: Layout, held: Path, spark_submit: Any
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    dag.task_dict["plan"].retries = 0
    with lease.hold(layout, ("checkpoint:flights/silver",), what="attempt a1 of flights"):
        run = runs.start(dag, {**SILVER, "action": "waive", "reason": "x"})
    assert runs.states(run)["plan"] == "failed"
    assert lifecycle.held(held).states == {"open": 3}


def test_a_replay_of_a_flow_that_is_switched_off_is_refused_before_a_jvm_starts(
    runs: Any, dag: Any, layout: Layout, held: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    intervention.switch(layout, "flights", "silver", on=False, by="ada", reason="frozen until Monday")
    run = runs.start(dag, {**SILVER, "action": "replay"})
    assert runs.states(run) == {"plan": "failed", "run": "upstream_failed", "show": "upstream_failed"}
    assert "switched off by ada" in capsys.readouterr().out
    assert lifecycle.held(held).states == {"open": 3}
