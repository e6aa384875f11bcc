"""One live Airflow for all tests of this folder, and its story: what happens in it once, for several tests to look at.

Each part of the story is a fixture that brings about what it is named after, after the parts that it builds on. So any
test can be run alone, and in any order. Spark applications are what costs time: all of the story has eight of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from airflow_client.client.api.dag_run_api import DagRunApi

from tests.live.project import (
    PEOPLE_RECORDS,
    TRANSFORM_AS_IT_IS,
    TRANSFORM_IN_LOWER_CASE,
    allow_origins,
    transform_dest,
)
from tests.live.tables import days_in_lower_case, flight_ids, wrong_flights
from tests.live_airflow import Live
from tests.patience import until

AIRPORTS = ["EWR", "JFK", "LGA"]
FLOWS = ("bronze", "silver", "gold")
GREEN = dict.fromkeys(("plan", "run", *FLOWS), "success")


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Started as the guide to schedules says; stopped in the end. Tests take `live`."""
    started = Live(tmp_path_factory.mktemp("live") / "project")
    try:
        started.up()
        yield started
    finally:
        started.console.remove()


@pytest.fixture
def live(airflow: Live) -> Live:
    """It runs, whatever the test before did to it."""
    airflow.up()
    return airflow


@pytest.fixture(scope="session")
def people_run(airflow: Live) -> str:
    """A run that a person triggered for records with canaries; it may go on still."""
    airflow.up()
    landed = "".join(f"{json.dumps(record)}\n" for record in PEOPLE_RECORDS)
    file = airflow.layout.landing("people") / "people.json"
    file.touch(mode=0o600)
    file.write_text(landed)
    until(lambda: "people" in airflow.dags(), "Airflow has read the new file")
    return airflow.trigger("people")


@dataclass(frozen=True)
class Refused:
    """The first run of flights, which the schedule made."""

    run: str
    page: str
    """In Airflow, while silver worked."""
    state_of_run: str | None
    """Of its task `run`, meanwhile."""
    states: dict[str, str | None]
    """In the end."""
    attempt: str


@pytest.fixture(scope="session")
def refused(airflow: Live, people_run: str) -> Refused:
    """Silver refused its first batch, because its suite allows another airport only. People's run goes on meanwhile."""
    airflow.up()
    until(lambda: bool(airflow.runs("flights")), "the schedule's first run")
    run = min(airflow.runs("flights"))
    airflow.wait_for_silver(run)
    tries = airflow.tasks(run)["run"].try_number
    # The state of a flow is told while `run` goes on.
    until(lambda: "tidegate silver: runs" in airflow.log(run, "run", tries), "the log of `run` says so")
    page, state = airflow.page(run), airflow.states(run)["run"]
    airflow.release_silver()
    states = airflow.end(run)
    return Refused(run, page, state, states, airflow.attempt(run))


@dataclass(frozen=True)
class Idle:
    """A run that a person triggered while the refused batch waits."""

    states: dict[str, str | None]
    log_of_plan: str
    attempt: str
    applications: int


@pytest.fixture(scope="session")
def idle(airflow: Live, refused: Refused) -> Idle:
    """The same suite would say the same, so nothing is to be done."""
    run = airflow.trigger()
    states = airflow.end(run)
    log = airflow.log(run, "plan", airflow.tasks(run)["plan"].try_number)
    return Idle(states, log, airflow.attempt(run), len(airflow.applications()))


@pytest.fixture(scope="session")
def clicks(airflow: Live) -> str:
    """A run of clickstream that read what the feeder sent; then a person paused it by the command of the guide."""
    airflow.up()

    def green() -> list[str]:
        return [run for run in airflow.runs("clickstream") if airflow.states(run, "clickstream") == GREEN]

    until(lambda: bool(airflow.runs("clickstream")), "the schedule makes a run")
    for run in sorted(airflow.runs("clickstream")):
        airflow.end(run, "clickstream")
    until(lambda: bool(green()), "clickstream has run")
    airflow.console.follow("source .airflow/env")
    airflow.console.follow("airflow dags pause clickstream")
    return green()[0]


@pytest.fixture(scope="session")
def follower(airflow: Live) -> str:
    """The name of the pipeline that the guide declares: it follows the table silver.flights."""
    airflow.up()
    for command in ("source .airflow/env", "cat > pipelines/punctuality.py", "sed ", "tidegate plan punctuality"):
        airflow.console.follow(command)
    until(lambda: "punctuality" in airflow.dags(), "Airflow has read the new file")
    return "punctuality"


@dataclass(frozen=True)
class Mended:
    """The refused run once more, after its suite was mended and silver's task cleared."""

    run: str
    cleared: list[str]
    killed_attempt: str
    """Whose application died in the middle of silver."""
    states: dict[str, str | None]
    attempt: str
    tries: int
    ids: list[str]
    """Of the flights in silver, then."""
    in_lower_case: set[int]
    wrong: list[str]
    events_of_silver: list[dict[str, Any]]


@pytest.fixture(scope="session")
def mended(airflow: Live, refused: Refused, idle: Idle, follower: str) -> Mended:
    """Clearing runs Spark again; that application is killed, and tried again by Airflow."""
    run = refused.run
    allow_origins(airflow.project, AIRPORTS)
    with airflow.silver_held():
        cleared = airflow.clear(run, "silver")
        airflow.wait_for_silver(run, but_for=refused.attempt)
        killed_attempt = airflow.attempt(run)
        airflow.kill(airflow.applications())
    states = airflow.end(run)
    return Mended(
        run,
        cleared,
        killed_attempt,
        states,
        attempt=airflow.attempt(run),
        tries=airflow.tasks(run)["run"].try_number,
        ids=flight_ids(airflow.layout),
        in_lower_case=days_in_lower_case(airflow.layout),
        wrong=wrong_flights(airflow.layout),
        events_of_silver=airflow.events("silver.flights"),
    )


@pytest.fixture(scope="session")
def following_run(airflow: Live, mended: Mended, follower: str) -> str:
    """The run of the follower that the event of silver started; no other will follow."""
    until(lambda: len(airflow.runs(follower)) == 1, "the event of silver starts a run")
    (run,) = airflow.runs(follower)
    airflow.end(run, follower)
    airflow.pause(follower)
    return run


@dataclass(frozen=True)
class Backfilled:
    """A backfill of two days, whose rows an older transform had made."""

    runs: list[str]
    """In the order of their intervals."""
    states: list[dict[str, str | None]]
    ids: list[str]
    in_lower_case: set[int]
    wrong: list[str]


@pytest.fixture(scope="session")
def backfilled(airflow: Live, following_run: str) -> Backfilled:
    """By the command that `tidegate plan` prints."""
    transform_dest(airflow.project, TRANSFORM_IN_LOWER_CASE, TRANSFORM_AS_IT_IS)
    plan = airflow.console.shell("tidegate plan flights --mode replay --from 2013-01-01 --to 2013-01-02")
    (line,) = [line for line in plan.splitlines() if "airflow backfill create" in line]
    airflow.console.shell(line[line.index("airflow backfill create") :])

    def found() -> list[str]:
        every = DagRunApi(airflow.client).get_dag_runs("flights").dag_runs
        ours = [run for run in every if run.run_type.value == "backfill"]
        return [run.dag_run_id for run in sorted(ours, key=lambda run: run.logical_date)]

    until(lambda: len(found()) == 2, "Airflow makes the runs of the backfill")
    runs = found()
    states = [airflow.end(run) for run in runs]
    layout = airflow.layout
    return Backfilled(runs, states, flight_ids(layout), days_in_lower_case(layout), wrong_flights(layout))
