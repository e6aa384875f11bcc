"""The decisions of `plan` and the states of the flows' tasks, without a scheduler and without Spark."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pendulum
import pytest

from pipelines.flights import pipeline
from tests import places
from tests.airflow.in_process import EventsByAsset, InProcessRun
from tests.airflow.lake import Lake
from tests.spark_files import Checkpoint
from tests.with_fields import with_fields
from tidegate.airflow.dag import build_dag
from tidegate.checkpoints.checkpoint import write_sidecar
from tidegate.errors import RequestError
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import FlowPlace, Place
from tidegate.ops import plans
from tidegate.reports.impact import Impact
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import FlowReport
from tidegate.requests.request import RunRequest
from tidegate.spec import FileSource, Flow, Gate, Intervals, KafkaSource, Pipeline, Table

pytestmark = pytest.mark.airflow

JANUARY = {"mode": "backfill", "from_date": "2013-01-01", "to_date": "2013-01-31"}


@pytest.fixture
def dag() -> Any:
    from dags.flights import dag as flights

    return flights


@pytest.fixture
def lake(project_dir: Path) -> Lake:
    """An empty lake and an empty landing folder: there is nothing new."""
    (project_dir / ".data/landing/flights").mkdir(parents=True)
    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    layout.open()
    return Lake(layout)


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """The lake with one file in the landing folder, so that there is work."""
    lake.land("flights/2013-01-01.csv", "year,month,day\n2013,1,1\n")
    return lake


def request_of(lake: Lake, run: InProcessRun) -> RunRequest:
    """The request that `plan` stored for the application."""
    return RunRequest.read(lake.layout, "flights", run_key(run.run_id), run.xcom("plan", "request"))


def attempted(dag: Any, lake: Lake, events: EventsByAsset | None = None, **states: Any) -> InProcessRun:
    """A run whose application reported these states of flows; the other flows are idle."""
    run = InProcessRun(dag, events={} if events is None else events)
    flows = [
        FlowReport(flow=flow.name, target=flow.target.name, checkpoint_version=1, state=states.get(flow.name, "idle"))
        for flow in pipeline.flows
    ]
    lake.report(run.run_id, "a1", flows=flows)
    run.xcoms["run", "attempt"] = "a1"
    return run


def wrote(lake: Lake, flow: str, rows: int, version: int) -> LedgerLine:
    """Add a batch of a flow to the ledger."""
    counts: dict[str, Any] = {"groups": rows, "upserted": rows} if flow == "gold" else {"read": rows, "written": rows}
    return lake.batch("flights", flow, version, target_version=version, **counts)


# ---------------------------------------------------------------------------------------------------------------- plan


def test_plan_fails_without_a_retry_if_the_landing_folder_is_a_file(dag: Any, project_dir: Path) -> None:
    layout = Layout.local(project_dir / ".data/lake", project_dir / ".data/landing")
    layout.landing("flights").put(b"a file in place of the folder")
    run = InProcessRun(dag)
    assert run.execute("plan") == "failed", "without a retry"
    (planned,) = plans.read(FlowPlace(layout, "flights", "bronze"))
    assert planned.behind is None, "the plan failed"


def test_a_landing_folder_that_does_not_exist_yet_ends_the_run_without_an_application(dag: Any) -> None:
    run = InProcessRun(dag)
    assert run.execute("plan") == "short circuit"
    assert "not delivered yet" in run.xcom("plan", "reason")


def test_the_log_of_plan_names_a_flow_that_ran_and_is_not_declared_any_more(
    dag: Any, landed: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    removed = dataclasses.replace(pipeline.flow("gold"), name="hours", target=Table("gold.hours", keys=("hour",)))
    write_sidecar(FlowPlace(landed.layout, "flights", "hours"), removed)

    assert InProcessRun(dag).execute("plan") == "success"

    log = capsys.readouterr().out
    assert "1 flow is not declared any more, and all that it wrote is still there" in log
    assert "hours: gold.hours, checkpoint v1/0 before its first batch" in log
    assert "tidegate flow keep flights hours" in log


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        (
            {"flwos": ["silver"]},
            "unknown key 'flwos'; allowed: mode, flows, from_date, to_date, gaps, undo_run, dry_run, accept",
        ),
        ({"accept": ["bronze:deleted=5"]}, "accept='bronze:deleted=5' is not allowed"),
        ({"lake": "/etc"}, "unknown key 'lake'"),
        ({"mode": "backfill", "from_date": "2013-01-01", "to_date": None}, "only allowed together"),
        ({"mode": "backfill", "from_date": "2013-01-02", "to_date": "2013-01-01"}, "is after to_date"),
        ({"mode": "backfill", "from_date": "0001-01-01", "to_date": "2013-01-01"}, "'0001-01-01' is out of range"),
        ({"mode": "backfill", "from_date": "2013-01-01", "to_date": "9999-12-31"}, "'9999-12-31' is out of range"),
        ({"mode": "reingest", "from_date": "2013-01-01", "to_date": "9999-12-31"}, "'9999-12-31' is out of range"),
        ({"mode": "full_refresh", "flows": ["bronze"]}, "does not apply to flow 'bronze'; it applies to: silver, gold"),
    ],
)
def test_plan_refuses_an_invalid_conf_before_any_application(
    dag: Any, landed: Lake, conf: dict[str, Any], message: str
) -> None:
    run = InProcessRun(dag, conf)
    assert run.execute("plan") == "failed"
    assert message in run.message
    assert run.xcom("plan", "request") is None


def test_an_incompatible_declaration_is_refused_before_any_application(dag: Any, landed: Lake) -> None:
    silver = pipeline.flow("silver")
    other = dataclasses.replace(silver, target=with_fields(silver.target, keys=("flight_id", "carrier")))
    write_sidecar(places.of(landed.layout, pipeline, other), other)
    run = InProcessRun(dag)
    assert run.execute("plan") == "failed"
    assert "checkpoint_version=2" in run.message


def test_the_application_gets_the_checked_request_of_a_backfill(dag: Any, landed: Lake) -> None:
    run = InProcessRun(dag, {**JANUARY, "flows": ["silver"]})
    assert run.execute("plan") == "success"
    request = request_of(landed, run)
    assert request.summary() == "backfill of 2013-01-01 to 2013-01-31, flows silver"
    assert not request.small, "C1-only compilation is slower for large runs"


def test_an_increment_with_little_data_is_small(dag: Any, landed: Lake) -> None:
    run = InProcessRun(dag)
    assert run.execute("plan") == "success"
    request = request_of(landed, run)
    assert (request.mode, request.small, request.requested_by) == ("incremental", True, "ada")


def test_a_cleared_plan_writes_a_new_request(dag: Any, landed: Lake) -> None:
    run = InProcessRun(dag, JANUARY)
    run.execute("plan")
    first_id, first = run.xcom("plan", "request"), request_of(landed, run)
    run.execute("plan")
    assert run.xcom("plan", "request") != first_id
    assert request_of(landed, run) == first
    assert RunRequest.read(landed.layout, "flights", run_key(run.run_id), first_id) == first


def test_a_dry_run_of_a_backfill_prints_the_preview_and_lets_the_application_judge_it(
    dag: Any, landed: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    run = InProcessRun(dag, {**JANUARY, "dry_run": True})
    assert run.execute("plan") == "success"
    assert run.xcom("plan", "reason") == "dry run: backfill of 2013-01-01 to 2013-01-31; nothing is written"
    assert "airflow dags trigger flights --conf" in capsys.readouterr().out
    assert request_of(landed, run).dry_run


def test_a_dry_run_of_a_reingest_has_nothing_to_judge_and_starts_nothing(dag: Any, landed: Lake) -> None:
    run = InProcessRun(dag, {"mode": "reingest", "dry_run": True})
    assert run.execute("plan") == "short circuit"
    assert run.xcom("plan", "reason") == "dry run: reingest; nothing was run"


def test_accepted_numbers_start_the_application_although_nothing_is_new(dag: Any, landed: Lake) -> None:
    """What a refused swap has staged is no new work until its numbers are accepted."""
    assert InProcessRun(dag, {"flows": ["gold"]}).execute("plan") == "short circuit"
    run = InProcessRun(dag, {"flows": ["gold"], "accept": ["gold:deleted=12"]})
    assert run.execute("plan") == "success"
    assert request_of(landed, run).accept == ("gold:deleted=12",)


def test_a_dry_run_shows_its_counts_and_sends_no_event(
    dag: Any, landed: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    run = InProcessRun(dag, {**JANUARY, "dry_run": True})
    loss = Impact(before=355, after=0, deleted=355, changed=0, added=0, read=427, quarantined=427)
    silver = pipeline.flow("silver")
    judged = FlowReport(
        flow="silver", target=silver.target.name, checkpoint_version=1, state="done", dry_run=True, impact=loss
    )
    landed.report(run.run_id, "a1", flows=[judged])
    run.xcoms["run", "attempt"] = "a1"
    assert run.execute("silver") == "success"
    assert f"impact: would be: {loss.summary()}" in capsys.readouterr().out
    assert run.events == {}


def test_a_dry_run_of_an_increment_prints_a_preview_too(
    dag: Any, landed: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    run = InProcessRun(dag, {"dry_run": True})
    assert run.execute("plan") == "short circuit"
    assert run.xcom("plan", "reason").startswith("dry run: bronze: 1 new file in flights")
    log = capsys.readouterr().out
    assert "its changes are read by flights/silver, delays/delays, flights/gold" in log
    assert "to start it: airflow dags trigger flights" in log


def test_an_error_in_the_preview_fails_only_a_dry_run(dag: Any, landed: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise SyntaxError("in another pipeline")

    monkeypatch.setattr("tidegate.airflow.tasks.preview", broken)
    assert InProcessRun(dag, JANUARY).execute("plan") == "success"
    with pytest.raises(SyntaxError):
        InProcessRun(dag, {**JANUARY, "dry_run": True}).execute("plan")


def backfilled(lake: Lake, run_id: str = "manual__bad") -> None:
    """Silver has a backfill of a run: its commit, and its ledger line."""
    import pyarrow
    from deltalake import CommitProperties, write_deltalake

    app_id = "flights/silver/v1/0/window"
    metadata = json.dumps({"app_id": app_id, "batch_id": 0})
    write_deltalake(
        str(lake.layout.table("silver.flights")),
        pyarrow.table({"flight_id": ["a"]}),
        commit_properties=CommitProperties(custom_metadata={"userMetadata": metadata}),
    )
    counts: dict[str, Any] = {"read": 3, "written": 3, "groups": 3, "upserted": 2, "deleted": 1}
    lake.batch(
        "flights",
        "silver",
        0,
        run_id=run_id,
        purpose="window",
        kind="backfill",
        target_version=0,
        seconds=1.0,
        **counts,
    )


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_application_gets_the_request_of_an_undo_also_if_it_is_a_dry_run(
    dag: Any, lake: Lake, capsys: pytest.CaptureFixture[str], dry_run: bool
) -> None:
    backfilled(lake)
    run = InProcessRun(dag, {"mode": "undo", "undo_run": "manual__bad", "dry_run": dry_run})
    assert run.execute("plan") == "success"
    request = request_of(lake, run)
    assert (request.mode, request.undoes, request.flows) == ("undo", run_key("manual__bad"), ("silver",))
    assert (request.dry_run, request.requested_by, request.small) == (dry_run, "ada", True)
    assert "silver: puts back backfill 0" in capsys.readouterr().out
    undone = LedgerLine(
        flow="silver", batch_id=0, app_id="u", kind="undo", groups=3, upserted=2, unchanged=1, undoes=request.undoes
    )
    report = FlowReport(
        flow="silver", target="silver.flights", checkpoint_version=1, state="done", batches=[undone], dry_run=dry_run
    )
    lake.report(run.run_id, "a1", flows=[report])
    run.xcoms["run", "attempt"] = "a1"
    assert [run.execute(flow.name) for flow in pipeline.flows] == ["skipped", "success", "skipped"]
    would = "would be: " if dry_run else ""
    assert f"undone: {would}3 changed rows = 2 put back (0 deleted) + 1 left" in capsys.readouterr().out


def test_an_undo_sends_an_asset_event_so_that_what_follows_the_table_runs(dag: Any, lake: Lake) -> None:
    backfilled(lake)
    lake.batch(
        "flights", "silver", 1, purpose="window", kind="undo", groups=3, upserted=2, unchanged=1, target_version=1
    )
    run = attempted(dag, lake, silver="done")
    assert run.execute("silver") == "success"
    assert [event["rows"] for event in run.events["silver.flights"]] == [3 + 2], "of the backfill, and of the undo"


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"mode": "undo"}, "needs undo_run, the id of the run"),
        ({"mode": "undo", "undo_run": "manual__other"}, "has no line of run 'manual__other'"),
        ({"undo_run": "manual__bad"}, "undo_run cannot be used with mode='incremental'"),
    ],
)
def test_plan_refuses_an_undo_of_nothing(dag: Any, lake: Lake, conf: dict[str, Any], message: str) -> None:
    backfilled(lake)
    run = InProcessRun(dag, conf)
    assert run.execute("plan") == "failed"
    assert message in run.message


def backfill_run(dag: Any, conf: dict[str, Any] | None, user: str | None) -> InProcessRun:
    """A run of a backfill. A backfill of an existing run changes neither its id nor its user."""
    day = pendulum.datetime(2013, 1, 1)
    return InProcessRun(
        dag, conf, run_id="scheduled__2013-01-01", run_type="backfill", user=user, interval=(day, day.add(days=1))
    )


@pytest.mark.parametrize(
    ("user", "requested_by"), [("ada", "ada"), (None, "airflow backfill"), ("", "airflow backfill")]
)
def test_a_run_of_an_airflow_backfill_backfills_its_interval_and_records_the_requester(
    dag: Any, landed: Lake, user: str | None, requested_by: str
) -> None:
    run = backfill_run(dag, {"mode": "incremental"}, user)
    assert run.execute("plan") == "success"
    request = request_of(landed, run)
    assert (request.summary(), request.requested_by) == ("backfill of 2013-01-01", requested_by)


@pytest.mark.parametrize("mode", ["full_refresh", "reingest"])
def test_a_backfill_of_another_mode_is_refused(dag: Any, landed: Lake, mode: str) -> None:
    run = backfill_run(dag, {"mode": mode}, "ada")
    assert run.execute("plan") == "failed"
    assert "cannot be used with `airflow backfill create`" in run.message


def test_a_backfill_of_a_pipeline_without_intervals_is_refused(dag: Any, landed: Lake) -> None:
    run = dataclasses.replace(backfill_run(dag, None, "ada"), interval=(None, None))
    assert run.execute("plan") == "failed"
    assert RequestError.__name__ not in run.message
    assert "has no schedule with data intervals" in run.message


@pytest.fixture
def mixed(landed: Lake, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The DAG of a pipeline with three sources: a folder with a file, a file in place of a folder, and a topic without a broker."""
    monkeypatch.setenv("TIDEGATE_KAFKA", "127.0.0.1:9")
    landed.layout.landing("lost").put(b"a file in place of the folder")
    bronze = pipeline.flow("bronze")
    source = FileSource(path="lost", format="csv", schema="a INT")
    lost = dataclasses.replace(bronze, name="lost", source=source, target=Table("bronze.lost"))
    clicks = Flow(name="clicks", source=KafkaSource(topic="clicks", schema="a INT"), target=Table("bronze.c"))
    files = dataclasses.replace(bronze, target=Table("bronze.mixed"))
    return build_dag(Pipeline(name="mixed", flows=(lost, clicks, files)))


def test_a_missing_suite_fails_plan_only_if_no_other_flow_has_work(landed: Lake) -> None:
    bronze, silver, gold = pipeline.flows
    flows = (bronze, dataclasses.replace(silver, gate=Gate("flights/lost")), gold)
    dag = build_dag(dataclasses.replace(pipeline, flows=flows))
    run = InProcessRun(dag)
    assert run.execute("plan") == "success"
    reason = run.xcom("plan", "reason")
    assert "bronze: 1 new file in flights" in reason
    assert "suite 'flights/lost' (flights/lost.json) does not exist" in reason
    for conf in ({"flows": ["silver", "gold"]}, {"mode": "full_refresh"}):
        run = InProcessRun(dag, conf)
        assert run.execute("plan") == "failed"
        assert "pipelines/flights.py, flow 'silver': suite 'flights/lost'" in run.message


def test_an_unreadable_source_does_not_stop_a_run_with_work_in_other_flows(mixed: Any, landed: Lake) -> None:
    run = InProcessRun(mixed)
    assert run.execute("plan") == "success"
    reason = run.xcom("plan", "reason")
    assert "lost: landing folder" in reason and "clicks: no Kafka broker" in reason
    assert "bronze: 1 new file in flights" in reason
    request = RunRequest.read(landed.layout, "mixed", run_key(run.run_id), run.xcom("plan", "request"))
    assert (request.flows, request.small) == ((), True), "the application reports the result of each flow"
    behind = {
        flow: plans.read(FlowPlace(landed.layout, "mixed", flow))[0].behind for flow in ("lost", "clicks", "bronze")
    }
    assert behind == {"lost": None, "clicks": None, "bronze": 1}


def test_without_other_work_plan_fails_with_the_error_of_a_flow_and_retries_if_one_is_transient(
    mixed: Any, landed: Lake
) -> None:
    run = InProcessRun(mixed, {"flows": ["lost"]})
    assert run.execute("plan") == "failed"
    assert "landing folder" in run.message
    run = InProcessRun(mixed, {"flows": ["lost", "clicks"]})
    assert run.execute("plan") == "up for retry"
    assert "no Kafka broker" in run.message


def test_a_dry_run_prints_the_preview_and_fails_with_the_error_of_a_flow(
    mixed: Any, landed: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    run = InProcessRun(mixed, {"flows": ["lost", "bronze"], "dry_run": True})
    assert run.execute("plan") == "failed"
    assert "landing folder" in run.message
    assert "bronze: reads 1 new file in flights" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------------- tasks of flows


def test_a_flow_that_wrote_succeeds_and_sends_an_asset_event(dag: Any, landed: Lake) -> None:
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


def test_an_event_counts_only_new_rows_and_is_sent_once(dag: Any, landed: Lake) -> None:
    events: EventsByAsset = {}
    states = []
    for rows in (10, 20, None):
        if rows:
            wrote(landed, "bronze", rows, rows)
        states.append(attempted(dag, landed, events, bronze="done" if rows else "idle").execute("bronze"))
    assert states == ["success", "success", "skipped"]
    assert [(event["rows"], event["delta_version"]) for event in events["bronze.flights"]] == [(10, 10), (20, 20)]


def with_days(lake: Lake) -> tuple[Any, Path]:
    """The DAG with days of files that are complete by a marker, and the folder in which one day has landed and is read."""
    bronze = pipeline.flow("bronze")
    assert isinstance(bronze.source, FileSource)
    days = Intervals("%Y-%m-%d", marker="%Y-%m-%d.done")
    own = dataclasses.replace(bronze, source=dataclasses.replace(bronze.source, intervals=days))
    changed = dataclasses.replace(pipeline, flows=(own, *pipeline.flows[1:]))
    folder = lake.layout.landing("flights")
    files = [lake.land(f"flights/2013-01-0{day}.csv", "year,month,day\n2013,1,1\n") for day in (1, 2)]
    checkpoint = Checkpoint(Place(lake.layout, "flights", "bronze", 1, 0).checkpoint)
    checkpoint.list_files(0, {str(file): file.stat().st_mtime_ns // 1_000_000 for file in files})
    checkpoint.run(0, {"logOffset": 0})
    return build_dag(changed), Path(folder)


def test_each_complete_interval_has_one_event_also_without_new_rows(lake: Lake) -> None:
    dag, folder = with_days(lake)
    events: EventsByAsset = {}
    name = "bronze.flights/intervals"

    (folder / "2013-01-01.done").touch()
    assert attempted(dag, lake, events).execute("bronze") == "success"
    assert attempted(dag, lake, events).execute("bronze") == "skipped", "a rerun sends no event again"
    (folder / "2013-01-02.done").touch()
    assert InProcessRun(dag, events=events).execute("plan") == "short circuit"
    assert InProcessRun(dag, events=events).execute("plan") == "short circuit"
    folder.rename(folder.with_name("moved"))
    assert attempted(dag, lake, events).execute("bronze") == "skipped", "the flow is done"

    assert [event["interval"] for event in events[name]] == ["2013-01-01", "2013-01-02"]
    assert events[name][0]["attempt"] == "a1"
    assert list(events) == [name], "no row was written"


def test_an_event_that_was_created_by_hand_is_ignored(dag: Any, landed: Lake) -> None:
    events: EventsByAsset = {}
    wrote(landed, "bronze", 10, 10)
    attempted(dag, landed, events, bronze="done").execute("bronze")
    events["bronze.flights"].append({})
    assert attempted(dag, landed, events).execute("bronze") == "skipped"


def test_a_recreated_lake_gets_events_although_its_versions_start_at_zero_again(dag: Any, landed: Lake) -> None:
    events: EventsByAsset = {}
    for version in (500, 0):
        shutil.rmtree(Path(landed.layout.root))
        landed.layout.open()
        wrote(landed, "bronze", 1, version)
        attempted(dag, landed, events, bronze="done").execute("bronze")
    assert [event["delta_version"] for event in events["bronze.flights"]] == [500, 0]


def test_a_flow_that_quarantined_every_row_succeeds_and_sends_no_event(dag: Any, landed: Lake) -> None:
    landed.batch("flights", "silver", 0, read=5, quarantined=5, rules={"required(origin)": 5}, target_version=0)
    run = attempted(dag, landed, silver="done")
    assert run.execute("silver") == "success"
    assert run.events == {}


def test_an_event_that_was_lost_in_a_crash_is_sent_by_the_next_attempt_without_new_data(dag: Any, landed: Lake) -> None:
    wrote(landed, "gold", 7, 2000)
    run = attempted(dag, landed)
    assert run.execute("gold") == "success"
    (event,) = run.events["gold.daily_delay"]
    assert (event["rows"], event["delta_version"]) == (7, 2000)


def test_an_event_that_was_lost_in_the_last_try_is_sent_by_the_next_plan_without_new_data(dag: Any, lake: Lake) -> None:
    wrote(lake, "gold", 9, 2500)
    events: EventsByAsset = {}
    assert InProcessRun(dag, events=events).execute("plan") == "short circuit"
    (event,) = events["gold.daily_delay"]
    assert (event["rows"], event["delta_version"]) == (9, 2500)
    assert InProcessRun(dag, events=events).execute("plan") == "short circuit"
    assert len(events["gold.daily_delay"]) == 1, "an event is sent once"


def test_a_refused_flow_fails_and_says_how_to_clear_it(dag: Any, landed: Lake) -> None:
    run = attempted(dag, landed, silver="refused", gold="skipped")
    assert run.execute("silver") == "failed"
    assert run.message.splitlines() == [
        "flow 'silver': the flow was refused.",
        'Next: correct suite, transform or data; or `tidegate quarantine take flights silver --reason "…"`.',
        'Clear this task without the option "Only Failed"; that clears `run` too.',
    ]
    assert run.execute("gold") == "skipped"


def test_a_task_never_takes_its_state_from_an_earlier_attempt(dag: Any, landed: Lake) -> None:
    wrote(landed, "silver", 1, 4000)
    run = attempted(dag, landed, silver="done")
    run.xcoms["run", "attempt"] = "a2"
    assert run.execute("silver") == "failed"
    assert "crashed" in run.message
    assert run.events == {}


@pytest.mark.parametrize("state", ["waiting", "running"])
def test_an_unfinished_report_means_a_crash(dag: Any, landed: Lake, state: str) -> None:
    run = attempted(dag, landed, bronze=state)
    assert run.execute("bronze") == "failed"
    assert "crashed" in run.message


def test_a_run_without_an_attempt_means_a_crash(dag: Any, landed: Lake) -> None:
    run = InProcessRun(dag)
    assert run.execute("bronze") == "failed"
    assert "crashed" in run.message


@pytest.mark.parametrize(("flows", "state"), [(["bronze"], "skipped"), (None, "failed")])
def test_a_flow_that_is_missing_in_the_report_is_excluded_or_crashed(
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
