"""Task states with a live scheduler and real Spark, after clearing and after killed processes.

Every task must show the result of the last attempt. Tests that kill parts of Airflow run nightly. Per merge, tests/airflow covers
the project's own code: attempts and states (test_tasks), retries and lost events (test_whole_runs), the end of an application
(test_submit). The tests of leases cover that two applications never write at the same time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.live.conftest import Cleared, Idle, Refused
    from tests.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.timeout(2400)]

FLOWS = ("bronze", "silver", "gold")
ALL_SUCCESS = dict.fromkeys(("plan", "run", *FLOWS), "success")
IDLE = {"plan": "success"} | dict.fromkeys(("run", *FLOWS), "skipped")
NOTHING_NEW = {"plan": "success", "run": "success"} | dict.fromkeys(FLOWS, "skipped")


def test_the_page_of_a_run_shows_a_running_flow(refused: Refused) -> None:
    row = r'silver</a><span class="under">silver\.flights</span></th>\s*<td><span class="pill busy">running</span>'
    assert re.search(row, refused.page), refused.page
    assert "pill bad" not in refused.page
    assert refused.state_of_run == "running"


def test_a_refused_flow_fails_and_names_the_suite(live: Live, refused: Refused) -> None:
    assert refused.states == ALL_SUCCESS | {"silver": "failed", "gold": "upstream_failed"}
    log = live.log(refused.run, "silver")
    assert "refused by suite flights/silver" in log
    assert "error_detail" not in log, "Airflow's key of a traceback"


def test_a_run_without_new_data_starts_no_application(idle: Idle) -> None:
    assert idle.states == IDLE
    assert (idle.attempt, idle.applications) == ("", 0)
    assert "nothing new in flights" in idle.log_of_plan
    assert "refused" in idle.log_of_plan, "the refused batch still waits"


@pytest.mark.nightly
def test_clearing_a_refused_flow_runs_spark_again_and_a_killed_application_is_retried(
    refused: Refused, cleared: Cleared
) -> None:
    assert cleared.tasks == ["gold", "run", "silver"]
    assert cleared.states == ALL_SUCCESS
    assert len({refused.attempt, cleared.killed_attempt, cleared.attempt}) == 3
    assert cleared.tries == 3


@pytest.mark.nightly
def test_after_clearing_and_killing_every_row_is_written_once(cleared: Cleared) -> None:
    assert cleared.wrong == []
    assert cleared.in_lower_case == {1, 2}, "by the transform at that time"
    (event,) = cleared.events_of_silver
    assert event["rows"] == len(cleared.ids) > 900


@pytest.mark.nightly
def test_a_pipeline_that_follows_a_table_runs_once_for_new_rows(live: Live, following_run: str) -> None:
    assert following_run.startswith("asset_triggered__")
    assert live.states(following_run, "punctuality")["gold"] == "success"
    assert list(live.runs("punctuality")) == [following_run]


@pytest.mark.nightly
def test_clearing_a_run_without_new_data_skips_the_flows_and_sends_no_event(
    live: Live, cleared: Cleared, following_run: str
) -> None:
    run = cleared.run
    assert live.states(run) == ALL_SUCCESS
    before, events = live.attempt(run), live.events("silver.flights")
    assert live.clear(run, "run") == ["bronze", "gold", "run", "silver"]
    assert live.end(run) == NOTHING_NEW, "states of the previous attempt are not shown again"
    assert live.attempt(run) != before

    live.clear_all(run)
    assert live.end(run) == IDLE
    assert live.events("silver.flights") == events
