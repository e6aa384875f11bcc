"""A live scheduler, real Spark, a person who clears and processes that die: every colour is that of the last attempt.

The tests share one Airflow and one lake, and run in this order; each says in the end that the tables are right.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.live_airflow import open_to_others, until
from tidegate.embedded.service import processes

if TYPE_CHECKING:
    from tests.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.airflow, pytest.mark.timeout(600)]

FLOWS = ("bronze", "silver", "gold")
GREEN = dict.fromkeys(("plan", "run", *FLOWS), "success")
IDLE = {"plan": "success"} | dict.fromkeys(("run", *FLOWS), "skipped")
NOTHING_NEW = {"plan": "success", "run": "success"} | dict.fromkeys(FLOWS, "skipped")


def _seconds_to_tell(live: Live, run: str, last: str) -> float:
    """From the end of `run` until the last flow of the chain has its colour."""
    tasks = live.tasks(run)
    return float((tasks[last].end_date - tasks["run"].end_date).total_seconds())


def test_airflow_is_ready_within_ninety_seconds_and_runs_what_it_was_given(live: Live) -> None:
    assert live.ready_after < 90
    # A new DAG with a schedule gets one run, of its last interval, and none of those before.
    until(lambda: len(live.runs("flights")) == 1, 60)


def test_a_run_without_news_starts_no_jvm_and_costs_at_most_two_seconds_of_cpu(live: Live) -> None:
    (run,) = live.runs("flights")
    assert live.end(run) == IDLE
    assert live.applications() == []
    # The first try may have come before the API server was there for it.
    told = live.log(run, "plan", live.tasks(run)["plan"].try_number)
    spent = re.search(r"Looked for news in ([\d.]+) s of CPU time", told)
    assert spent and float(spent[1]) <= 2
    assert "nothing new in flights" in told
    assert live.attempt(run) == ""


def test_a_refused_flow_is_red_and_clearing_it_runs_spark_again(live: Live) -> None:
    suite = live.project / "expectations/flights/silver.json"
    allowed = suite.read_text()
    strict = json.loads(allowed)
    origin = next(e for e in strict["expectations"] if e["kwargs"].get("column") == "origin")
    origin["kwargs"]["value_set"] = ["CDG"]
    suite.write_text(json.dumps(strict))
    live.land(1)
    with live.silver_held():
        run = live.trigger()
        until(lambda: live.works_on(run, "silver"), 180)
        # The state of a flow is told while `run` goes on.
        until(lambda: "tidegate silver: runs" in live.log(run, "run"), 30)
        page = live.page(run)
        assert live.states(run)["run"] == "running"
    row = r'silver</a><span class="under">silver\.flights</span></th>\s*<td><span class="pill busy">running</span>'
    assert re.search(row, page), page
    assert "pill bad" not in page
    assert live.end(run) == GREEN | {"silver": "failed", "gold": "upstream_failed"}
    told = [_seconds_to_tell(live, run, "silver")]
    assert "refused by suite flights/silver" in live.log(run, "silver")
    refused = live.attempt(run)

    suite.write_text(allowed)
    assert live.clear(run, "silver") == ["gold", "run", "silver"]
    assert live.end(run) == GREEN
    told.append(_seconds_to_tell(live, run, "gold"))
    # The better of two, because the machine may be busy with something else.
    assert min(told) < 5, told
    assert live.attempt(run) != refused
    assert live.wrong() == []


def test_a_pipeline_that_follows_a_table_runs_once_for_its_rows(live: Live) -> None:
    until(lambda: len(live.runs("punctuality")) == 1, 60)
    (run,) = live.runs("punctuality")
    assert run.startswith("asset_triggered__")
    assert live.end(run, "punctuality")["gold"] == "success"
    live.pause("punctuality")


def test_clearing_run_or_the_whole_run_shows_that_nothing_was_new_and_sends_no_event(live: Live) -> None:
    run = next(name for name in live.runs("flights") if name.startswith("manual__"))
    before, events = live.attempt(run), live.events("silver.flights")
    assert live.clear(run, "run") == ["bronze", "gold", "run", "silver"]
    assert live.end(run) == NOTHING_NEW, "green of the attempt before is not shown again"
    assert live.attempt(run) != before

    live.clear_all(run)
    assert live.end(run) == IDLE
    assert live.events("silver.flights") == events
    assert live.wrong() == []


def test_an_application_that_dies_without_a_word_or_in_the_middle_is_tried_again(live: Live) -> None:
    live.land(2)
    run = live.trigger()
    until(lambda: bool(live.applications()) and live.report(run) is None, 120)
    # Before the kill: the next attempt begins a second after it.
    first = live.attempt(run)
    live.kill(live.applications())
    with live.silver_held():
        until(lambda: live.attempt(run) not in ("", first) and live.works_on(run, "silver"), 180)
        live.kill(live.applications())
    assert live.end(run) == GREEN
    assert live.tasks(run)["run"].try_number == 3
    assert live.wrong() == []


def test_a_killed_worker_is_noticed_and_the_lease_keeps_two_applications_apart(live: Live) -> None:
    live.land(3)
    run = live.trigger()
    until(lambda: live.works_on(run, "bronze"), 180)
    before = live.attempt(run)
    live.kill(live.workers())
    states = live.end(run)
    assert live.attempt(run) != before
    # The orphaned application may have ended in order; then the new one found nothing to do and told Airflow of it.
    assert {states["plan"], states["run"]} == {"success"}
    assert set(states.values()) <= {"success", "skipped"}
    assert live.wrong() == []


def test_after_a_killed_scheduler_the_next_start_brings_the_run_to_its_end(live: Live) -> None:
    live.land(4)
    run = live.trigger()
    until(lambda: live.works_on(run, "bronze"), 180)
    before = live.attempt(run)
    others = {name: pid for name, pid in live.server.running().items() if name != "scheduler"}
    live.kill([live.leader("scheduler")])
    live.up()
    assert {name: live.server.running()[name] for name in others} == others, "what runs is left alone"
    states = live.end(run)
    assert live.attempt(run) != before
    assert set(states.values()) <= {"success", "skipped"}
    assert live.wrong() == []


def test_a_run_that_a_person_ends_stops_spark_and_what_it_committed_is_told_by_the_next_run(live: Live) -> None:
    rows = live.land(5)
    told = len(live.events("bronze.flights"))
    with live.silver_held():
        run = live.trigger()
        until(lambda: live.works_on(run, "silver"), 180)
        live.fail(run, "run")
        # The worker hears of it with its next heartbeat, 5 to 10 s later; then Spark has 5 s.
        until(lambda: not live.applications(), 30)
    assert live.end(run)["run"] == "failed"
    assert len(live.events("bronze.flights")) == told, "a crash between the commit and the event"

    assert live.end(live.trigger()) == GREEN
    (event,) = live.events("bronze.flights")[told:]
    assert event["rows"] == rows
    assert live.wrong() == []


def test_nothing_listens_beyond_this_machine_and_nobody_else_reads_what_is_written(live: Live) -> None:
    ours = {process.pid for process in processes(live.server.services.values())}
    listening = {
        connection.laddr.ip
        for connection in psutil.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN and connection.pid in ours
    }
    assert listening and {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
    assert open_to_others(live.project / ".airflow", live.layout.lake) == []
