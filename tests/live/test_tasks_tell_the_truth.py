"""A live scheduler, real Spark, a person who clears and processes that die: every colour is that of the last attempt.

Tests that kill parts of Airflow itself run nightly. Per merge, what the project's own code does then is held by
tests/airflow: attempts and colours (test_tasks), retries and swallowed events (test_whole_runs), how an application is
ended (test_submit); and that two applications never meet by the tests of leases.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.live.tables import wrong_clicks, wrong_flights
from tests.patience import until

if TYPE_CHECKING:
    from tests.live.conftest import Idle, Mended, Refused
    from tests.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.timeout(2400)]

FLOWS = ("bronze", "silver", "gold")
GREEN = dict.fromkeys(("plan", "run", *FLOWS), "success")
IDLE = {"plan": "success"} | dict.fromkeys(("run", *FLOWS), "skipped")
NOTHING_NEW = {"plan": "success", "run": "success"} | dict.fromkeys(FLOWS, "skipped")


def test_while_a_flow_works_its_page_and_the_log_of_run_say_so(refused: Refused) -> None:
    row = r'silver</a><span class="under">silver\.flights</span></th>\s*<td><span class="pill busy">running</span>'
    assert re.search(row, refused.page), refused.page
    assert "pill bad" not in refused.page
    assert refused.state_of_run == "running"


def test_a_refused_flow_is_red_and_says_by_which_suite(live: Live, refused: Refused) -> None:
    assert refused.states == GREEN | {"silver": "failed", "gold": "upstream_failed"}
    assert "refused by suite flights/silver" in live.log(refused.run, "silver")


def test_a_run_without_news_starts_no_application(idle: Idle) -> None:
    assert idle.states == IDLE
    assert (idle.attempt, idle.applications) == ("", 0)
    assert "nothing new in flights" in idle.log_of_plan
    assert "refused" in idle.log_of_plan, "the same suite would say the same"


@pytest.mark.nightly
def test_clearing_a_refused_flow_runs_spark_again_and_a_killed_application_is_tried_again(
    refused: Refused, mended: Mended
) -> None:
    assert mended.cleared == ["gold", "run", "silver"]
    assert mended.states == GREEN
    assert len({refused.attempt, mended.killed_attempt, mended.attempt}) == 3
    assert mended.tries == 3


@pytest.mark.nightly
def test_what_clearing_and_killing_left_is_every_row_once(mended: Mended) -> None:
    assert mended.wrong == []
    assert mended.in_lower_case == {1, 2}, "as the transform of that day made them"
    (event,) = mended.events_of_silver
    assert event["rows"] == len(mended.ids) > 900


@pytest.mark.nightly
def test_a_pipeline_that_follows_a_table_runs_once_for_its_rows(live: Live, following_run: str) -> None:
    assert following_run.startswith("asset_triggered__")
    assert live.states(following_run, "punctuality")["gold"] == "success"
    assert list(live.runs("punctuality")) == [following_run]


@pytest.mark.nightly
def test_a_topic_is_read_by_a_run_that_the_schedule_made(live: Live, clicks: str) -> None:
    assert clicks.startswith("scheduled__")
    (bootstrap,) = re.findall(r"Kafka broker +(127\.0\.0\.1:\d+)", live.first_output)
    assert wrong_clicks(live.layout, bootstrap) == []
    assert live.dags()["clickstream"], "the command of the guide paused it, in this Airflow"


@pytest.mark.nightly
def test_clearing_run_or_the_whole_run_shows_that_nothing_was_new_and_sends_no_event(
    live: Live, following_run: str
) -> None:
    live.land(3)
    run = live.trigger()
    assert live.end(run) == GREEN
    before, events = live.attempt(run), live.events("silver.flights")
    assert live.clear(run, "run") == ["bronze", "gold", "run", "silver"]
    assert live.end(run) == NOTHING_NEW, "green of the attempt before is not shown again"
    assert live.attempt(run) != before

    live.clear_all(run)
    assert live.end(run) == IDLE
    assert live.events("silver.flights") == events


@pytest.mark.nightly
def test_an_application_that_dies_without_a_word_is_tried_again(live: Live, following_run: str) -> None:
    live.land(4)
    run = live.trigger()
    until(lambda: bool(live.applications()) and live.report(run) is None, "the application starts")
    live.kill(live.applications())
    assert live.end(run) == GREEN
    assert live.tasks(run)["run"].try_number == 2
    assert wrong_flights(live.layout) == []


@pytest.mark.nightly
def test_a_killed_worker_is_noticed_and_the_lease_keeps_two_applications_apart(live: Live, following_run: str) -> None:
    live.land(5)
    run = live.trigger()
    until(lambda: live.works_on(run, "bronze"), "bronze works")
    before = live.attempt(run)
    live.kill(live.workers())
    states = live.end(run)
    assert live.attempt(run) != before
    # The orphaned application may have ended in order; then the new one found nothing to do and told Airflow of it.
    assert {states["plan"], states["run"]} == {"success"}
    assert set(states.values()) <= {"success", "skipped"}
    assert wrong_flights(live.layout) == []


@pytest.mark.nightly
def test_after_a_killed_scheduler_the_next_start_brings_the_run_to_its_end(live: Live, following_run: str) -> None:
    live.land(6)
    run = live.trigger()
    until(lambda: live.works_on(run, "bronze"), "bronze works")
    before = live.attempt(run)
    others = {name: pid for name, pid in live.server.running().items() if name != "scheduler"}
    live.console.kill("scheduler")
    live.up()
    assert {name: live.server.running()[name] for name in others} == others, "what runs is left alone"
    states = live.end(run)
    assert live.attempt(run) != before
    assert set(states.values()) <= {"success", "skipped"}
    assert live.end(live.trigger())["plan"] == "success", "the feeder landed another day"
    assert wrong_flights(live.layout) == []


@pytest.mark.nightly
def test_a_run_that_a_person_ends_stops_spark_and_what_it_committed_is_told_by_the_next_run(
    live: Live, following_run: str
) -> None:
    rows = live.land(15)
    events = len(live.events("bronze.flights"))
    with live.silver_held():
        run = live.trigger()
        live.wait_for_silver(run)
        live.fail(run, "run")
        until(lambda: not live.applications(), "the worker hears of it with its next heartbeat, then Spark ends")
    assert live.end(run)["run"] == "failed"
    assert len(live.events("bronze.flights")) == events, "a crash between the commit and the event"

    assert live.end(live.trigger()) == GREEN
    (event,) = live.events("bronze.flights")[events:]
    assert event["rows"] == rows
    assert wrong_flights(live.layout) == []
