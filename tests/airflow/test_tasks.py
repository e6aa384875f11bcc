"""What `plan` decides and what a flow's task shows, each executed with the context of a run; no scheduler, no Spark."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pendulum
import pytest

from pipelines.flights import pipeline
from tests.airflow.in_process import EventsByAsset, InProcessRun
from tests.airflow.lake import Lake
from tidegate.airflow.dag import build_dag
from tidegate.checkpoints.checkpoint import write_sidecar
from tidegate.errors import RequestError, SourceUnavailableError
from tidegate.layout import Layout, run_key
from tidegate.ops import plans
from tidegate.report import BatchRecord, FlowReport
from tidegate.request import RunRequest
from tidegate.spec import FileSource, Flow, KafkaSource, Pipeline, Table

pytestmark = pytest.mark.airflow

JANUARY = {"mode": "replay", "from_date": "2013-01-01", "to_date": "2013-01-31"}


@pytest.fixture
def dag() -> Any:
    from dags.flights import dag as flights

    return flights


@pytest.fixture
def lake(places: Path) -> Lake:
    """An empty lake, and a landing folder without a file: nothing is new."""
    (places / ".data/landing/flights").mkdir(parents=True)
    layout = Layout(places / ".data/lake", places / ".data/landing")
    layout.open()
    return Lake(layout)


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """With one file in the landing folder, so that there is work."""
    lake.land("flights/2013-01-01.csv", "year,month,day\n2013,1,1\n")
    return lake


def request_of(lake: Lake, run: InProcessRun) -> RunRequest:
    """What `plan` stored for the application."""
    return RunRequest.read(lake.layout, "flights", run_key(run.run_id), run.xcom("plan", "request"))


def attempted(dag: Any, lake: Lake, events: EventsByAsset | None = None, **states: Any) -> InProcessRun:
    """A run whose application reported these states of its flows; the others were idle."""
    run = InProcessRun(dag, events={} if events is None else events)
    flows = [
        FlowReport(flow=flow.name, target=flow.target.name, checkpoint_version=1, state=states.get(flow.name, "idle"))
        for flow in pipeline.flows
    ]
    lake.report(run.run_id, "a1", flows=flows)
    run.xcoms["run", "attempt"] = "a1"
    return run


def wrote(lake: Lake, flow: str, rows: int, version: int) -> BatchRecord:
    """A batch of a flow, in the ledger."""
    counts = {"groups": rows, "upserted": rows} if flow == "gold" else {"read": rows, "written": rows}
    return lake.batch("flights", flow, version, target_version=version, **counts)


# ---------------------------------------------------------------------------------------------------------------- plan


def test_a_missing_landing_folder_is_red_in_plan_for_a_person(dag: Any, places: Path) -> None:
    run = InProcessRun(dag)
    assert run.execute("plan") == "failed", "not to be tried again"
    (planned,) = plans.read(Layout(places / ".data/lake", places / ".data/landing"), "flights", "bronze")
    assert planned.behind is None, "a plan that did not get to an answer"


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"flwos": ["silver"]}, "unknown key 'flwos'; allowed: mode, flows, from_date, to_date, dry_run"),
        ({"lake": "/etc"}, "unknown key 'lake'"),
        ({"mode": "replay", "from_date": "2013-01-01", "to_date": None}, "go together"),
        ({"mode": "replay", "from_date": "2013-01-02", "to_date": "2013-01-01"}, "lies after to_date"),
        ({"mode": "full_refresh", "flows": ["bronze"]}, "is not for flow 'bronze'; it is for: silver, gold"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_plan_before_any_application(
    dag: Any, landed: Lake, conf: dict[str, Any], message: str
) -> None:
    run = InProcessRun(dag, conf)
    assert run.execute("plan") == "failed"
    assert message in run.message
    assert run.xcom("plan", "request") is None


def test_an_incompatible_declaration_is_refused_before_any_application(dag: Any, landed: Lake) -> None:
    silver = pipeline.flow("silver")
    other = dataclasses.replace(silver, target=dataclasses.replace(silver.target, keys=("flight_id", "carrier")))
    write_sidecar(landed.layout, pipeline, other)
    run = InProcessRun(dag)
    assert run.execute("plan") == "failed"
    assert "checkpoint_version=2" in run.message


def test_a_replay_reaches_the_application_as_it_was_checked(dag: Any, landed: Lake) -> None:
    run = InProcessRun(dag, {**JANUARY, "flows": ["silver"]})
    assert run.execute("plan") == "success"
    request = request_of(landed, run)
    assert request.told() == "replay of 2013-01-01 to 2013-01-31, flows silver"
    assert not request.small, "C1 loses where there is much to do"


def test_an_increment_with_little_to_do_is_a_small_one(dag: Any, landed: Lake) -> None:
    run = InProcessRun(dag)
    assert run.execute("plan") == "success"
    request = request_of(landed, run)
    assert (request.mode, request.small, request.requested_by) == ("incremental", True, "ada")


def test_a_cleared_plan_makes_another_request(dag: Any, landed: Lake) -> None:
    run = InProcessRun(dag, JANUARY)
    run.execute("plan")
    first_id, first = run.xcom("plan", "request"), request_of(landed, run)
    run.execute("plan")
    assert run.xcom("plan", "request") != first_id
    assert request_of(landed, run) == first
    assert RunRequest.read(landed.layout, "flights", run_key(run.run_id), first_id) == first


def test_a_dry_run_tells_what_would_be_done_and_starts_nothing(
    dag: Any, landed: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    run = InProcessRun(dag, {**JANUARY, "dry_run": True})
    assert run.execute("plan") == "short circuit"
    assert run.xcom("plan", "reason") == "dry run: replay of 2013-01-01 to 2013-01-31; nothing was run"
    assert "airflow dags trigger flights --conf" in capsys.readouterr().out


def test_a_dry_run_of_an_increment_tells_as_much_as_that_of_a_replay(
    dag: Any, landed: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    run = InProcessRun(dag, {"dry_run": True})
    assert run.execute("plan") == "short circuit"
    assert run.xcom("plan", "reason").startswith("dry run: bronze: 1 new file in flights")
    log = capsys.readouterr().out
    assert "what changes reaches flights/silver, flights/gold" in log
    assert "to start it: airflow dags trigger flights" in log


def test_advice_that_cannot_be_given_stops_a_dry_run_and_no_other(
    dag: Any, landed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise SyntaxError("of a neighbour")

    monkeypatch.setattr("tidegate.airflow.tasks.preview", broken)
    assert InProcessRun(dag, JANUARY).execute("plan") == "success"
    with pytest.raises(SyntaxError):
        InProcessRun(dag, {**JANUARY, "dry_run": True}).execute("plan")


def backfill_run(dag: Any, conf: dict[str, Any] | None, user: str | None) -> InProcessRun:
    """A run of a backfill; of one that was there before, a backfill changes neither id nor user."""
    day = pendulum.datetime(2013, 1, 1)
    return InProcessRun(
        dag, conf, run_id="scheduled__2013-01-01", run_type="backfill", user=user, interval=(day, day.add(days=1))
    )


@pytest.mark.parametrize(
    ("user", "requested_by"), [("ada", "ada"), (None, "airflow backfill"), ("", "airflow backfill")]
)
def test_a_run_of_a_backfill_replays_its_interval_and_says_who_asked(
    dag: Any, landed: Lake, user: str | None, requested_by: str
) -> None:
    run = backfill_run(dag, {"mode": "incremental"}, user)
    assert run.execute("plan") == "success"
    request = request_of(landed, run)
    assert (request.told(), request.requested_by) == ("replay of 2013-01-01", requested_by)


@pytest.mark.parametrize("mode", ["full_refresh", "reingest"])
def test_a_backfill_of_another_mode_is_refused(dag: Any, landed: Lake, mode: str) -> None:
    run = backfill_run(dag, {"mode": mode}, "ada")
    assert run.execute("plan") == "failed"
    assert "does not go with a backfill" in run.message


def test_a_backfill_of_a_pipeline_without_intervals_is_refused(dag: Any, landed: Lake) -> None:
    run = dataclasses.replace(backfill_run(dag, None, "ada"), interval=(None, None))
    assert run.execute("plan") == "failed"
    assert RequestError.__name__ not in run.message
    assert "has no schedule with data intervals" in run.message


@pytest.fixture
def mixed(landed: Lake, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The DAG of a pipeline that reads a folder with a file, one that is missing, and a topic whose broker is away."""
    monkeypatch.setenv("TIDEGATE_KAFKA", "127.0.0.1:9")
    bronze = pipeline.flow("bronze")
    source = FileSource(path="lost", format="csv", schema="a INT")
    lost = dataclasses.replace(bronze, name="lost", source=source, target=Table("bronze.lost"))
    clicks = Flow(name="clicks", source=KafkaSource(topic="clicks", schema="a INT"), target=Table("bronze.clicks"))
    return build_dag(Pipeline(name="mixed", flows=(lost, clicks, bronze)))


def test_a_source_that_cannot_be_read_leaves_the_run_to_the_flows_that_have_work(mixed: Any, landed: Lake) -> None:
    run = InProcessRun(mixed)
    assert run.execute("plan") == "success"
    reason = run.xcom("plan", "reason")
    assert "lost: landing folder" in reason and "clicks: no Kafka broker" in reason
    assert "bronze: 1 new file in flights" in reason
    request = RunRequest.read(landed.layout, "mixed", run_key(run.run_id), run.xcom("plan", "request"))
    assert (request.flows, request.small) == ((), True), "the application tells of each flow how it fared"
    behind = {flow: plans.read(landed.layout, "mixed", flow)[0].behind for flow in ("lost", "clicks", "bronze")}
    assert behind == {"lost": None, "clicks": None, "bronze": 1}


def test_without_other_work_the_error_of_a_flow_is_red_in_plan_and_tried_again_if_one_heals(
    mixed: Any, landed: Lake
) -> None:
    run = InProcessRun(mixed, {"flows": ["lost"]})
    assert run.execute("plan") == "failed"
    assert "landing folder" in run.message
    with pytest.raises(SourceUnavailableError):
        InProcessRun(mixed, {"flows": ["lost", "clicks"]}).execute("plan")


def test_a_dry_run_tells_what_would_be_done_and_ends_with_the_error(
    mixed: Any, landed: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    run = InProcessRun(mixed, {"flows": ["lost", "bronze"], "dry_run": True})
    assert run.execute("plan") == "failed"
    assert "landing folder" in run.message
    assert "bronze: reads 1 new file in flights" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------- how each flow fared


def test_a_flow_that_wrote_is_green_and_tells_airflow_of_its_table(dag: Any, landed: Lake) -> None:
    wrote(landed, "bronze", 40, 0), wrote(landed, "bronze", 2, 1)
    run = attempted(dag, landed, bronze="done")
    assert [run.execute(flow.name) for flow in pipeline.flows] == ["success", "skipped", "skipped"]
    assert run.events.keys() == {"bronze.flights"}
    (event,) = run.events["bronze.flights"]
    assert {name: event[name] for name in ("rows", "delta_version", "attempt")} == {
        "rows": 42,
        "delta_version": 1,
        "attempt": "a1",
    }


def test_an_event_counts_only_what_is_new_and_is_sent_once(dag: Any, landed: Lake) -> None:
    events: EventsByAsset = {}
    states = []
    for rows in (10, 20, None):
        if rows:
            wrote(landed, "bronze", rows, rows)
        states.append(attempted(dag, landed, events, bronze="done" if rows else "idle").execute("bronze"))
    assert states == ["success", "success", "skipped"]
    assert [(event["rows"], event["delta_version"]) for event in events["bronze.flights"]] == [(10, 10), (20, 20)]


def test_an_event_that_somebody_made_by_hand_is_passed_over(dag: Any, landed: Lake) -> None:
    events: EventsByAsset = {}
    wrote(landed, "bronze", 10, 10)
    attempted(dag, landed, events, bronze="done").execute("bronze")
    events["bronze.flights"].append({})
    assert attempted(dag, landed, events).execute("bronze") == "skipped"


def test_a_lake_that_was_made_anew_is_told_of_although_its_versions_begin_again(dag: Any, landed: Lake) -> None:
    events: EventsByAsset = {}
    for version in (500, 0):
        shutil.rmtree(landed.layout.lake)
        landed.layout.open()
        wrote(landed, "bronze", 1, version)
        attempted(dag, landed, events, bronze="done").execute("bronze")
    assert [event["delta_version"] for event in events["bronze.flights"]] == [500, 0]


def test_a_flow_that_set_every_row_aside_is_green_and_sends_no_event(dag: Any, landed: Lake) -> None:
    landed.batch("flights", "silver", 0, read=5, quarantined=5, rules={"required(origin)": 5}, target_version=0)
    run = attempted(dag, landed, silver="done")
    assert run.execute("silver") == "success"
    assert run.events == {}


def test_an_event_that_a_crash_swallowed_is_sent_by_the_attempt_that_finds_nothing_new(dag: Any, landed: Lake) -> None:
    wrote(landed, "gold", 7, 2000)
    run = attempted(dag, landed)
    assert run.execute("gold") == "success"
    (event,) = run.events["gold.daily_delay"]
    assert (event["rows"], event["delta_version"]) == (7, 2000)


def test_an_event_that_the_last_try_swallowed_is_sent_by_the_next_plan_though_it_finds_nothing_new(
    dag: Any, lake: Lake
) -> None:
    wrote(lake, "gold", 9, 2500)
    events: EventsByAsset = {}
    assert InProcessRun(dag, events=events).execute("plan") == "short circuit"
    (event,) = events["gold.daily_delay"]
    assert (event["rows"], event["delta_version"]) == (9, 2500)
    assert InProcessRun(dag, events=events).execute("plan") == "short circuit"
    assert len(events["gold.daily_delay"]) == 1, "an event is sent once"


def test_a_refused_flow_is_red_and_says_how_to_clear_it(dag: Any, landed: Lake) -> None:
    run = attempted(dag, landed, silver="refused", gold="skipped")
    assert run.execute("silver") == "failed"
    assert "the flow was refused Clear this task, with only-failed off; that clears `run` too." in run.message
    assert run.execute("gold") == "skipped"


def test_a_task_never_takes_its_colour_from_an_earlier_attempt(dag: Any, landed: Lake) -> None:
    wrote(landed, "silver", 1, 4000)
    run = attempted(dag, landed, silver="done")
    run.xcoms["run", "attempt"] = "a2"
    assert run.execute("silver") == "failed"
    assert "crashed" in run.message
    assert run.events == {}


@pytest.mark.parametrize("state", ["waiting", "running"])
def test_a_half_report_means_crashed_and_never_no_rows(dag: Any, landed: Lake, state: str) -> None:
    run = attempted(dag, landed, bronze=state)
    assert run.execute("bronze") == "failed"
    assert "crashed" in run.message


def test_a_run_without_an_attempt_means_crashed(dag: Any, landed: Lake) -> None:
    run = InProcessRun(dag)
    assert run.execute("bronze") == "failed"
    assert "crashed" in run.message


@pytest.mark.parametrize(("flows", "state"), [(["bronze"], "skipped"), (None, "failed")])
def test_a_flow_that_is_missing_in_the_report_was_left_out_or_crashed(
    dag: Any, landed: Lake, flows: list[str] | None, state: str
) -> None:
    run = InProcessRun(dag, {"flows": flows})
    run.execute("plan")
    landed.report(
        run.run_id,
        "a1",
        flows=[FlowReport(flow="bronze", target="bronze.flights", checkpoint_version=1, state="idle")],
    )
    run.xcoms["run", "attempt"] = "a1"
    assert run.execute("silver") == state
    assert ("crashed" in run.message) == (state == "failed")
