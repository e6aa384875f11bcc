"""Parts of Airflow that are away for a moment while a run works: its flows end green, or their logs say why they were tried again."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.live.tables import wrong_flights
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


def test_an_api_server_that_is_suspended_while_a_run_works_turns_no_flow_red(live: Live, following_run: str) -> None:
    live.land(20)
    with contextlib.ExitStack() as paused:
        paused.enter_context(live.silver_paused())
        run = live.trigger()
        live.wait_for_silver(run)
        with suspended(live, "api-server"):
            # `run` goes on, and may end, while nobody answers.
            paused.close()
            time.sleep(AWAY_SECONDS)
    expect_success(live, run)


def test_an_api_server_that_is_killed_while_the_tasks_of_flows_start_turns_none_of_them_red(
    live: Live, following_run: str
) -> None:
    live.land(23)
    run = live.trigger()
    wait_until(lambda: live.states(run)["run"] == "success", "`run` ends")
    with killed(live, "api-server"):
        pass
    expect_success(live, run)


def test_a_database_that_is_locked_for_a_while_ends_no_component(live: Live, following_run: str) -> None:
    before = live.server.running()
    with locked(live):
        time.sleep(AWAY_SECONDS)
    live.land(22)
    expect_success(live, live.trigger())
    assert live.server.running() == before
