"""What the tasks of a run decide and show, run by Airflow; Spark's place is taken by a script that writes reports."""

from __future__ import annotations

import dataclasses
import shutil
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest

from pipelines.flights import pipeline
from tidegate.checkpoints.checkpoint import write_sidecar
from tidegate.errors import RequestError
from tidegate.layout import Layout, run_key
from tidegate.ops import plans
from tidegate.report import RunReport
from tidegate.request import RunRequest

pytestmark = pytest.mark.airflow

GREEN = {"plan": "success", "run": "success", "bronze": "success", "silver": "success", "gold": "success"}


@pytest.fixture
def dag(database: Path) -> Any:
    from dags.flights import dag as flights

    return flights


@pytest.fixture
def landed(places: Path) -> Path:
    """A landing folder with one file, so that there is work."""
    folder = places / ".data/landing/flights"
    folder.mkdir(parents=True)
    (folder / "2013-01-01.csv").write_text("year,month,day\n2013,1,1\n")
    return places


def _layout(project: Path) -> Layout:
    return Layout(project / ".data/lake", project / ".data/landing")


def test_with_nothing_new_the_run_ends_green_without_an_application(
    runs: Any, dag: Any, places: Path, spark_submit: Any
) -> None:
    (places / ".data/landing/flights").mkdir(parents=True)
    spark_submit("sys.exit('nobody may start this')")
    run = runs.start(dag)
    assert run.state == "success"
    assert runs.states(run) == {"plan": "success"} | dict.fromkeys(("run", "bronze", "silver", "gold"), "skipped")
    assert "bronze" in runs.xcom(run, "plan", "reason")
    assert runs.xcom(run, "run", "attempt") is None
    (planned,) = plans.read(_layout(places), "flights", "bronze")
    assert planned.behind == 0, "noted for alerts"


def test_a_missing_landing_folder_is_red_in_plan_and_not_retried(
    runs: Any, dag: Any, places: Path, spark_submit: Any
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    run = runs.start(dag)
    assert runs.states(run)["plan"] == "failed"
    assert runs.states(run)["run"] == "upstream_failed"
    (planned,) = plans.read(_layout(places), "flights", "bronze")
    assert planned.behind is None, "a plan that did not get to an answer"


def test_an_unknown_key_is_refused_by_plan_with_the_allowed_ones(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    run = runs.start(dag, {"flwos": ["silver"]})
    assert runs.states(run) == {"plan": "failed"} | dict.fromkeys(
        ("run", "bronze", "silver", "gold"), "upstream_failed"
    )
    assert "unknown key 'flwos'; allowed: mode, flows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("conf", "told"),
    [
        ({"mode": "replay", "from_date": "2013-01-01", "to_date": None}, "go together"),
        ({"mode": "replay", "from_date": "2013-01-02", "to_date": "2013-01-01"}, "lies after to_date"),
        ({"mode": "full_refresh", "flows": ["bronze"]}, "is not for flow 'bronze'; it is for: silver, gold"),
        ({"lake": "/etc"}, "unknown key 'lake'"),
    ],
)
def test_pairs_that_do_not_fit_are_refused_by_plan_before_any_application(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str], conf: Any, told: str
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    run = runs.start(dag, conf)
    assert runs.states(run)["plan"] == "failed"
    assert told in capsys.readouterr().out


def test_a_dry_run_tells_what_would_be_done_and_starts_nothing(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    asked = {"mode": "replay", "from_date": "2013-01-01", "to_date": "2013-01-31", "dry_run": True}
    run = runs.start(dag, asked)
    assert runs.states(run) == {"plan": "success"} | dict.fromkeys(("run", "bronze", "silver", "gold"), "skipped")
    assert runs.xcom(run, "plan", "reason") == "dry run: replay of 2013-01-01 to 2013-01-31; nothing was run"
    assert "airflow dags trigger flights --conf" in capsys.readouterr().out


def test_a_replay_reaches_the_application_as_it_was_checked(
    runs: Any, dag: Any, landed: Path, spark_submit: Any
) -> None:
    spark_submit("report.write(path)")
    asked = {"mode": "replay", "flows": ["silver"], "from_date": "2013-01-01", "to_date": "2013-01-31"}
    run = runs.start(dag, asked)
    request = RunRequest.read(_layout(landed), "flights", run_key(run.run_id), runs.xcom(run, "plan", "request"))
    assert request.told() == "replay of 2013-01-01 to 2013-01-31, flows silver"
    assert not request.small, "C1 loses where there is much to do"


def test_a_cleared_run_is_another_request_and_a_cleared_task_of_a_flow_is_not(
    runs: Any, dag: Any, landed: Path, spark_submit: Any
) -> None:
    spark_submit("wrote('silver', 1, 5000 + nth); report.write(path)")
    run = runs.start(dag, {"mode": "replay", "from_date": "2013-01-01", "to_date": "2013-01-31"})
    asked = [runs.xcom(run, "plan", "request")]
    for task in ("silver", "plan"):
        runs.clear(dag, run, task)
        run = runs.go_on(dag, run)
        asked.append(runs.xcom(run, "plan", "request"))
    first, shown_again, cleared = asked
    assert shown_again == first != cleared
    key = run_key(run.run_id)
    requests = [RunRequest.read(_layout(landed), "flights", key, each) for each in (first, cleared)]
    assert [request.request_id for request in requests] == [first, cleared]
    assert requests[0] == requests[1]


def of_backfill(conf: dict[str, Any] | None, user: str | None) -> Any:
    """A run as Airflow hands it to `plan`; of one that was there before, a backfill changes neither id nor user."""
    day = pendulum.datetime(2013, 1, 1)
    run = SimpleNamespace(
        run_id="scheduled__2013-01-01",
        run_type="backfill",
        conf=conf,
        triggering_user_name=user,
        data_interval_start=day,
        data_interval_end=day.add(days=1),
    )
    return {"dag_run": run}


def test_a_run_of_a_backfill_replays_its_interval_and_says_who_asked(dag: Any) -> None:
    plan = dag.task_dict["plan"]
    for user, told in (("ada", "ada"), (None, "airflow backfill"), ("", "airflow backfill")):
        request = plan._request(of_backfill({"mode": "incremental"}, user))
        assert (request.told(), request.requested_by) == ("replay of 2013-01-01", told)


@pytest.mark.parametrize("mode", ["full_refresh", "reingest"])
def test_a_backfill_of_another_mode_is_refused(dag: Any, mode: str) -> None:
    with pytest.raises(RequestError, match="does not go with a backfill"):
        dag.task_dict["plan"]._request(of_backfill({"mode": mode}, "ada"))


def test_advice_that_cannot_be_given_stops_a_dry_run_and_no_other(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise SyntaxError("of a neighbour")

    monkeypatch.setattr("tidegate.airflow.tasks.preview", broken)
    spark_submit("wrote('silver', 1, 7000); report.write(path)")
    asked = {"mode": "replay", "from_date": "2013-01-01", "to_date": "2013-01-31"}
    assert runs.states(runs.start(dag, asked))["silver"] == "success"
    monkeypatch.setattr(dag.task_dict["plan"], "retries", 0)
    assert runs.states(runs.start(dag, {**asked, "dry_run": True}))["plan"] == "failed"


def test_a_dry_run_of_an_increment_tells_as_much_as_that_of_a_replay(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit("sys.exit('nobody may start this')")
    run = runs.start(dag, {"dry_run": True})
    assert runs.xcom(run, "plan", "reason").startswith("dry run: bronze: 1 new file in flights")
    told = capsys.readouterr().out
    assert "what changes reaches flights/silver, flights/gold" in told
    assert "to start it: airflow dags trigger flights" in told


def test_an_incompatible_declaration_is_refused_before_any_application(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    silver = pipeline.flow("silver")
    other = dataclasses.replace(silver, target=dataclasses.replace(silver.target, keys=("flight_id", "carrier")))
    write_sidecar(_layout(landed), pipeline, other)
    spark_submit("sys.exit('nobody may start this')")
    run = runs.start(dag)
    assert runs.states(run)["plan"] == "failed"
    assert "checkpoint_version=2" in capsys.readouterr().out


def test_plan_stores_the_checked_request_and_the_application_gets_its_id(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, tmp_path: Path
) -> None:
    spark_submit(f"pathlib.Path({str(tmp_path / 'argv')!r}).write_text(' '.join(sys.argv[-8:])); report.write(path)")
    run = runs.start(dag, {"flows": ["bronze"]})
    request_id = runs.xcom(run, "plan", "request")
    request = RunRequest.read(_layout(landed), "flights", run_key(run.run_id), request_id)
    assert request.flows == ("bronze",)
    argv = (tmp_path / "argv").read_text().split()
    assert argv[argv.index("--request") + 1] == request_id
    assert argv[argv.index("--attempt") + 1] == runs.xcom(run, "run", "attempt")


def test_a_flow_that_wrote_is_green_and_tells_airflow_of_its_table(
    runs: Any, dag: Any, landed: Path, spark_submit: Any
) -> None:
    spark_submit("wrote('bronze', 40, 0); wrote('bronze', 2, 1); report.write(path)")
    before = len(runs.events("bronze.flights"))
    run = runs.start(dag)
    assert runs.states(run) == GREEN | {"silver": "skipped", "gold": "skipped"}
    (event,) = runs.events("bronze.flights")[before:]
    told = {name: event[name] for name in ("rows", "delta_version", "attempt")}
    assert told == {"rows": 42, "delta_version": 1, "attempt": runs.xcom(run, "run", "attempt")}


def test_an_event_counts_only_what_is_new_and_is_sent_once(
    runs: Any, dag: Any, landed: Path, spark_submit: Any
) -> None:
    spark_submit("nth < 3 and wrote('bronze', 10 * nth, 10 * nth); report.write(path)")
    before = len(runs.events("bronze.flights"))
    states = [runs.states(runs.start(dag))["bronze"] for _ in range(3)]
    assert states == ["success", "success", "skipped"]
    told = [(event["rows"], event["delta_version"]) for event in runs.events("bronze.flights")[before:]]
    assert told == [(10, 10), (20, 20)]


def test_a_lake_that_was_made_anew_is_told_of_although_its_versions_begin_again(
    runs: Any, dag: Any, landed: Path, spark_submit: Any
) -> None:
    spark_submit("wrote('bronze', 1, 500 if nth == 1 else 0); report.write(path)")
    runs.start(dag)
    shutil.rmtree(landed / ".data/lake")
    runs.start(dag)
    assert [event["delta_version"] for event in runs.events("bronze.flights")[-2:]] == [500, 0]


def test_a_flow_that_set_every_row_aside_is_green_and_sends_no_event(
    runs: Any, dag: Any, landed: Path, spark_submit: Any
) -> None:
    spark_submit("wrote('silver', 0, 1000); report.write(path)")
    before = len(runs.events("silver.flights"))
    run = runs.start(dag)
    assert runs.states(run) == GREEN | {"bronze": "skipped", "gold": "skipped"}
    assert len(runs.events("silver.flights")) == before


def test_an_event_that_a_crash_swallowed_is_sent_by_the_next_try(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag.task_dict["run"], "retry_delay", timedelta(0))
    # The first try writes its batch and dies; the second finds nothing new.
    spark_submit("nth == 1 and wrote('gold', 7, 2000); report.write(path); sys.exit(1 if nth == 1 else 0)")
    before = len(runs.events("gold.daily_delay"))
    run = runs.start(dag)
    assert runs.states(run) == GREEN | {"bronze": "skipped", "silver": "skipped"}
    (event,) = runs.events("gold.daily_delay")[before:]
    assert (event["rows"], event["delta_version"]) == (7, 2000)


def test_an_event_that_the_last_try_swallowed_is_sent_by_the_next_run_though_it_finds_nothing_new(
    runs: Any, dag: Any, places: Path, spark_submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = places / ".data/landing/flights"
    landing.mkdir(parents=True)
    (landing / "2013-01-01.csv").write_text("year,month,day\n2013,1,1\n")
    monkeypatch.setattr(dag.task_dict["run"], "retries", 0)
    # The application commits and dies, and nobody is left to tell Airflow.
    spark_submit("wrote('gold', 9, 2500); sys.exit(1)")
    before = len(runs.events("gold.daily_delay"))
    assert runs.start(dag).state == "failed"
    assert len(runs.events("gold.daily_delay")) == before

    (landing / "2013-01-01.csv").unlink()
    idle = runs.start(dag)
    assert runs.states(idle) == {"plan": "success"} | dict.fromkeys(("run", "bronze", "silver", "gold"), "skipped")
    (event,) = runs.events("gold.daily_delay")[before:]
    assert (event["rows"], event["delta_version"]) == (9, 2500)

    runs.start(dag)
    assert len(runs.events("gold.daily_delay")) == before + 1, "an event is sent once"


def test_a_refused_flow_is_red_and_clearing_it_runs_the_application_again(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit(
        """
wrote("bronze", 5, 3000 + nth)
if nth == 1:
    silver = report.flow("silver")
    silver.state = "refused"
    silver.error = {"kind": "GateRefusedError", "message": "batch 0 refused.", "transient": False}
    report.flow("gold").state = "skipped"
else:
    wrote("silver", 5, 3000)
    wrote("gold", 1, 3000)
report.write(path)
"""
    )
    run = runs.start(dag)
    assert run.state == "failed"
    assert runs.states(run) == GREEN | {"silver": "failed", "gold": "upstream_failed"}
    told = capsys.readouterr().out
    assert "batch 0 refused. Clear this task, with only-failed off; that clears `run` too." in told
    first = runs.xcom(run, "run", "attempt")

    assert runs.clear(dag, run, "silver") == ["gold", "run", "silver"]
    run = runs.go_on(dag, run)
    assert run.state == "success"
    assert runs.states(run) == GREEN
    assert runs.xcom(run, "run", "attempt") != first


def test_a_task_never_takes_its_colour_from_an_earlier_attempt(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    # The first attempt is all green; the second ends with 0 and writes no report.
    spark_submit(
        "wrote('bronze', 1, 4000); wrote('silver', 1, 4000); wrote('gold', 1, 4000); nth == 1 and report.write(path)"
    )
    run = runs.start(dag)
    assert runs.states(run) == GREEN
    runs.clear(dag, run, "silver")
    run = runs.go_on(dag, run)
    assert runs.states(run) == GREEN | {"silver": "failed", "gold": "upstream_failed"}
    assert "crashed" in capsys.readouterr().out


@pytest.mark.parametrize("left", ["pass", "report.flow('bronze').state = 'running'; report.write(path)"])
def test_a_missing_or_half_report_means_crashed_and_never_no_rows(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, left: str
) -> None:
    spark_submit(left)
    run = runs.start(dag)
    assert runs.states(run) == GREEN | {"bronze": "failed", "silver": "upstream_failed", "gold": "upstream_failed"}


def test_a_flow_that_was_left_out_is_skipped(runs: Any, dag: Any, landed: Path, spark_submit: Any) -> None:
    spark_submit("report.flows = report.flows[:1]; wrote('bronze', 1, 5000); report.write(path)")
    run = runs.start(dag, {"flows": ["bronze"]})
    assert runs.states(run) == GREEN | {"silver": "skipped", "gold": "skipped"}


def test_a_flow_that_is_missing_in_the_report_crashed(runs: Any, dag: Any, landed: Path, spark_submit: Any) -> None:
    spark_submit("report.flows = report.flows[:1]; report.write(path)")
    run = runs.start(dag)
    assert runs.states(run) == GREEN | {"bronze": "skipped", "silver": "failed", "gold": "upstream_failed"}


def test_a_transient_error_is_tried_again_as_a_new_attempt(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.airflow.retry.FIRST_DELAY", timedelta(0))
    spark_submit(
        """
if nth == 1:
    report.error = {"kind": "LeaseHeldError", "message": "held", "transient": True}
else:
    wrote("bronze", 1, 6000)
report.write(path)
sys.exit(75 if nth == 1 else 0)
"""
    )
    run = runs.start(dag)
    assert runs.states(run)["bronze"] == "success"
    paths = _layout(landed).reports("flights").glob(f"{run_key(run.run_id)}/*/report.json")
    reports = [RunReport.read(path) for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns)]
    assert [report is not None and report.error is None for report in reports] == [False, True]


def test_a_terminal_error_of_the_application_is_not_tried_again(
    runs: Any, dag: Any, landed: Path, spark_submit: Any, tmp_path: Path
) -> None:
    spark_submit(
        'report.error = {"kind": "SpecError", "message": "wrong", "transient": False}; report.write(path); sys.exit(78)'
    )
    started = time.monotonic()
    run = runs.start(dag)
    assert time.monotonic() - started < 30
    assert runs.states(run) == {"plan": "success", "run": "failed"} | dict.fromkeys(
        ("bronze", "silver", "gold"), "upstream_failed"
    )
    assert (tmp_path / "submissions").read_text() == "1"
