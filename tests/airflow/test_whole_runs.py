"""Whole DAG runs in Airflow: trigger rules, short circuits, retries, stored events and clearing.

A script that writes reports replaces Spark. The decisions of single tasks are tested in ``test_tasks.py``.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pipelines.flights import pipeline
from tests.airflow.lake import Lake
from tests.spark_files import Checkpoint
from tidegate.airflow import build_dag
from tidegate.airflow.compat import HAS_RETRY_POLICIES
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.ops import plans
from tidegate.reports.report import RunReport
from tidegate.requests.request import RunRequest
from tidegate.spec import FileSource, Intervals
from tidegate.store import Address

pytestmark = pytest.mark.airflow

ALL_SUCCESS = dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
IDLE = {"plan": "success"} | dict.fromkeys(("run", "bronze", "silver", "gold"), "skipped")


@pytest.fixture
def dag(database: Path) -> Any:
    from dags.flights import dag as flights

    return flights


def retry_at_once(dag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` is retried without a delay, whoever decides it."""
    monkeypatch.setattr("tidegate.airflow.retry.FIRST_DELAY", timedelta(0))
    monkeypatch.setattr(dag.task_dict["run"], "retry_delay", timedelta(0))
    monkeypatch.setattr(dag.task_dict["run"], "retry_exponential_backoff", False)


@pytest.fixture
def layout(project_dir: Path) -> Layout:
    return Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")


@pytest.fixture
def landed(layout: Layout) -> Path:
    """A file in the landing folder, so that there is work."""
    path = layout.landing_root / "flights/2013-01-01.csv"
    path.parent.make_folder()
    path.put(b"year,month,day\n2013,1,1\n")
    return Path(path)


def test_a_run_without_new_data_succeeds_without_an_application_and_sends_lost_events(
    runs: Any, dag: Any, layout: Layout, spark_submit: Any
) -> None:
    (layout.landing_root / "flights").make_folder()
    layout.open()
    Lake(layout).batch("flights", "silver", 7, read=9, written=9, target_version=2500)
    events = len(runs.events("silver.flights"))
    spark_submit("sys.exit('must not be started')")
    run = runs.start(dag)
    assert run.state == "success"
    assert runs.states(run) == IDLE
    assert "bronze" in runs.xcom(run, "plan", "reason")
    assert runs.xcom(run, "run", "attempt") is None
    (planned,) = plans.read(FlowPlace(layout, "flights", "bronze"))
    assert planned.behind == 0, "recorded for alerts"
    (event,) = runs.events("silver.flights")[events:]
    assert (event["rows"], event["delta_version"]) == (9, 2500)


def test_the_application_gets_the_checked_request_and_excluded_flows_are_skipped(
    runs: Any, dag: Any, layout: Layout, landed: Path, spark_submit: Any, tmp_path: Path
) -> None:
    spark_submit(
        f"pathlib.Path({str(tmp_path / 'argv')!r}).write_text(' '.join(sys.argv[-8:]))\n"
        "report.flows = report.flows[:1]; wrote('bronze', 42, 1); report.write(path)"
    )
    events = len(runs.events("bronze.flights"))
    run = runs.start(dag, {"flows": ["bronze"]})
    assert runs.states(run) == ALL_SUCCESS | {"silver": "skipped", "gold": "skipped"}
    request_id, attempt = runs.xcom(run, "plan", "request"), runs.xcom(run, "run", "attempt")
    assert RunRequest.read(layout, "flights", run_key(run.run_id), request_id).flows == ("bronze",)
    argv = (tmp_path / "argv").read_text().split()
    assert (argv[argv.index("--request") + 1], argv[argv.index("--attempt") + 1]) == (request_id, attempt)
    (event,) = runs.events("bronze.flights")[events:]
    assert (event["rows"], event["delta_version"], event["attempt"]) == (42, 1, attempt)


def test_a_refused_flow_fails_and_clearing_it_runs_the_application_again(
    runs: Any,
    dag: Any,
    layout: Layout,
    landed: Path,
    spark_submit: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TIDEGATE_SPARK_HISTORY", "http://spark:18080/")
    spark_submit(
        """
report.application = "local-17"
wrote("bronze", 5, 3000 + nth)
if nth == 1:
    silver = report.flow("silver")
    silver.state = "refused"
    silver.error = ErrorReport(kind="GateRefusedError", message="batch 0 refused.", transient=False, exit_code=65)
    report.flow("gold").state = "skipped"
else:
    wrote("silver", 5, 3000)
    wrote("gold", 1, 3000)
report.write(path)
"""
    )
    run = runs.start(dag)
    assert run.state == "failed"
    assert runs.states(run) == ALL_SUCCESS | {"silver": "failed", "gold": "upstream_failed"}
    log = capsys.readouterr().out
    assert "flow 'silver': batch 0 refused." in log
    assert 'Clear this task without the option "Only Failed"; that clears `run` too.' in log
    assert ("Traceback" in log) is not HAS_RETRY_POLICIES
    # Links are stored when a task ends in any state.
    assert runs.xcom(run, "run", "_link_HistoryLink") == "http://spark:18080/history/local-17/jobs/"
    flows = "/plugin/tidegate/tidegate/pipelines/flights/flows"
    links = [runs.xcom(run, task, "_link_ReportsLink") for task in ("bronze", "silver")]
    assert links == [f"{flows}/bronze", f"{flows}/silver"]
    attempt, request = runs.xcom(run, "run", "attempt"), runs.xcom(run, "plan", "request")

    assert runs.clear(dag, run, "silver") == ["gold", "run", "silver"]
    run = runs.resume(dag, run)
    assert run.state == "success"
    assert runs.states(run) == ALL_SUCCESS
    assert runs.xcom(run, "run", "attempt") != attempt
    assert runs.xcom(run, "plan", "request") == request


def test_a_transient_error_is_retried_as_a_new_attempt(
    runs: Any, dag: Any, layout: Layout, landed: Path, spark_submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry_at_once(dag, monkeypatch)
    spark_submit(
        """
if nth == 1:
    report.error = ErrorReport(kind="LeaseHeldError", message="held", transient=True, exit_code=75)
else:
    wrote("bronze", 1, 6000)
report.write(path)
sys.exit(75 if nth == 1 else 0)
"""
    )
    run = runs.start(dag)
    assert runs.states(run)["bronze"] == "success"
    paths = Path(PipelinePlace(layout, "flights").reports).glob(f"{run_key(run.run_id)}/*/report.json")
    reports = [RunReport.read(Address.local(path)) for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns)]
    assert [report is not None and report.error is None for report in reports] == [False, True]


def test_a_transient_error_of_one_flow_fails_only_that_flow_after_the_last_try(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    retry_at_once(dag, monkeypatch)
    spark_submit(
        """
if nth == 1:
    wrote("bronze", 3, 7000)
silver = report.flow("silver")
silver.state = "failed"
silver.error = ErrorReport(kind="SourceUnavailableError", message="no broker answers.", transient=True, exit_code=75)
report.flow("gold").state = "skipped"
report.ended_at = now()
report.write(path)
sys.exit(75)
"""
    )
    events = len(runs.events("bronze.flights"))
    run = runs.start(dag)
    assert run.state == "failed"
    assert runs.states(run) == ALL_SUCCESS | {"silver": "failed", "gold": "upstream_failed"}
    assert int((tmp_path / "submissions").read_text()) == dag.task_dict["run"].retries + 1
    (event,) = runs.events("bronze.flights")[events:]
    assert event["rows"] == 3


def test_a_terminal_error_of_the_application_is_not_retried(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, tmp_path: Path
) -> None:
    spark_submit(
        'report.error = ErrorReport(kind="SpecError", message="wrong", transient=False, exit_code=78); report.write(path); sys.exit(78)'
    )
    run = runs.start(dag)
    assert runs.states(run) == {"plan": "success", "run": "failed"} | dict.fromkeys(
        ("bronze", "silver", "gold"), "upstream_failed"
    )
    assert (tmp_path / "submissions").read_text() == "1"


def test_a_crash_is_retried_and_the_lost_event_is_sent(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry_at_once(dag, monkeypatch)
    # The first try writes its batch and crashes; the second has no new data.
    spark_submit("nth == 1 and wrote('gold', 7, 2000); report.write(path); sys.exit(1 if nth == 1 else 0)")
    before = len(runs.events("gold.daily_delay"))
    run = runs.start(dag)
    assert runs.states(run) == ALL_SUCCESS | {"bronze": "skipped", "silver": "skipped"}
    (event,) = runs.events("gold.daily_delay")[before:]
    assert (event["rows"], event["delta_version"]) == (7, 2000)


def test_each_complete_day_has_one_stored_event(runs: Any, layout: Layout) -> None:
    bronze = pipeline.flow("bronze")
    assert isinstance(bronze.source, FileSource)
    days = Intervals("%Y-%m-%d", marker="%Y-%m-%d.done")
    own = dataclasses.replace(bronze, source=dataclasses.replace(bronze.source, intervals=days))
    dag = build_dag(dataclasses.replace(pipeline, flows=(own, *pipeline.flows[1:])))
    layout.open()
    files = [layout.landing("flights") / f"2026-01-0{day}.csv" for day in (1, 2, 3)]
    files[0].parent.make_folder()
    for file in files:
        file.put(b"year,month,day\n2013,1,1\n")
    checkpoint = Checkpoint(Place(layout, "flights", "bronze", 1, 0).checkpoint)
    checkpoint.list_files(0, {str(file): file.stat().modified_ns // 1_000_000 for file in files})
    checkpoint.run(0, {"logOffset": 0})
    for day in (1, 2):
        (files[0].parent / f"2026-01-0{day}.done").put(b"")
    rows = len(runs.events("bronze.flights"))

    states = [runs.start(dag).state for _ in range(2)]

    assert states == ["success", "success"]
    sent = [event["interval"] for event in runs.events("bronze.flights/intervals")]
    assert sent == ["2026-01-01", "2026-01-02"], "the second run sends none again"
    assert len(runs.events("bronze.flights")) == rows, "no row was written"
