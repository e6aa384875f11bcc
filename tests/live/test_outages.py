"""Parts of Airflow that are away for a moment while a run works: its flows end green, or their logs say why they were tried again.

Also a run that a person ends. The tests of leases cover that two applications never write at the same time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.live.tables import rows, wrong_flights
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.live_airflow import Live

pytestmark = [
    pytest.mark.live,
    pytest.mark.jvm,
    pytest.mark.kafka,
    pytest.mark.airflow,
    pytest.mark.nightly,
    pytest.mark.timeout(2400),
]

ALL_SUCCESS = dict.fromkeys(("plan", "run", "bronze", "silver", "gold"), "success")
AWAY_SECONDS = 20.0
"""Longer than a client of Airflow waits for one answer, and than its own default of retries lasts."""


@contextlib.contextmanager
def suspended(live: Live, name: str) -> Iterator[None]:
    """A component that accepts connections and answers nothing."""
    group = os.getpgid(live.console.leader(name).pid)
    os.killpg(group, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(group, signal.SIGCONT)


@contextlib.contextmanager
def killed(live: Live, name: str) -> Iterator[None]:
    """A component that the watch starts again."""
    live.console.kill(name)
    yield
    wait_until(lambda: live.console.is_running(name), f"the watch starts {name} again")
    wait_until(live.server.healthy, "all components are healthy")


@contextlib.contextmanager
def locked(live: Live) -> Iterator[None]:
    """A database in which nobody else can read or write."""
    with contextlib.closing(sqlite3.connect(live.project / ".airflow/airflow.db", isolation_level=None)) as database:
        wait_until(lambda: _locks(database), "the database is locked")
        yield
        database.execute("ROLLBACK")


def _locks(database: sqlite3.Connection) -> bool:
    with contextlib.suppress(sqlite3.OperationalError):
        database.execute("BEGIN EXCLUSIVE")
        return True
    return False


def expect_success(live: Live, run: str) -> None:
    """Every task is green, a task that was tried again says something in each log, and every row was written once."""
    assert live.end(run) == ALL_SUCCESS
    for name, task in live.tasks(run).items():
        for number in range(1, task.try_number + 1):
            assert live.log(run, name, number).strip(), f"try {number} of {name} says nothing"
    assert wrong_flights(live.layout) == []


def test_a_locked_database_and_an_api_server_that_is_suspended_and_then_killed_end_no_component_and_turn_no_flow_red(
    steady: Live,
) -> None:
    before = steady.server.running()
    with locked(steady):
        time.sleep(AWAY_SECONDS)
    assert steady.server.running() == before

    steady.land(20)
    with contextlib.ExitStack() as paused:
        paused.enter_context(steady.silver_paused())
        run = steady.trigger()
        steady.wait_for_silver(run)
        with suspended(steady, "api-server"):
            # `run` goes on, and may end, while nobody answers.
            paused.close()
            time.sleep(AWAY_SECONDS)
    wait_until(lambda: steady.states(run)["run"] == "success", "`run` ends")
    # The tasks of the flows start now.
    with killed(steady, "api-server"):
        pass
    expect_success(steady, run)


def test_after_a_killed_worker_and_scheduler_the_next_attempt_completes_the_run_and_no_two_applications_write(
    steady: Live,
) -> None:
    steady.land(5)
    run = steady.trigger()
    wait_until(lambda: steady.is_running(run, "bronze"), "bronze runs")
    before = steady.attempt(run)
    others = {name: pid for name, pid in steady.server.running().items() if name != "scheduler"}
    steady.kill(steady.workers())
    with killed(steady, "scheduler"):
        pass
    assert {name: steady.server.running()[name] for name in others} == others, "running components are not restarted"
    states = steady.end(run)
    assert steady.attempt(run) != before
    # The orphaned application may have completed; then the new one had no work, and the tasks sent the events.
    assert {states["plan"], states["run"]} == {"success"}
    assert set(states.values()) <= {"success", "skipped"}
    assert wrong_flights(steady.layout) == []


def test_a_run_that_is_marked_failed_stops_spark_and_the_next_run_sends_its_events(steady: Live) -> None:
    steady.land(15)
    before = steady.events("bronze.flights")
    with steady.silver_paused():
        run = steady.trigger()
        steady.wait_for_silver(run)
        steady.fail(run, "run")
        wait_until(lambda: not steady.applications(), "the worker stops Spark after its next heartbeat")
    assert steady.end(run)["run"] == "failed"
    assert steady.events("bronze.flights") == before, "a crash between the commit and the event"

    assert steady.end(steady.trigger()) == ALL_SUCCESS
    after = steady.events("bronze.flights")
    assert len(after) == len(before) + 1
    assert sum(event["rows"] for event in after) == len(rows(steady.layout, "bronze.flights", "_row_id"))
    assert wrong_flights(steady.layout) == []
