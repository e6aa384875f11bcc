"""Two live Airflows for the tests of this folder, one at a time, and session fixtures for events that several tests check.

Each fixture depends on the fixtures of the events before it, so any test can be run alone and in any order. The Spark
applications dominate the run time: all fixtures together run nine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow_client.client.api.backfill_api import BackfillApi
from airflow_client.client.api.dag_run_api import DagRunApi
from airflow_client.client.exceptions import ConflictException
from airflow_client.client.models import BackfillPostBody, ReprocessBehavior

from tests.docs import guides
from tests.live.console import Console
from tests.live.project import (
    PEOPLE_RECORDS,
    TRANSFORM_IN_LOWER_CASE,
    TRANSFORM_UNCHANGED,
    allow_origins,
    schedule_clickstream,
    transform_dest,
)
from tests.live.tables import days_in_lower_case, flight_ids, wrong_flights
from tests.live_airflow import Live
from tests.waiting import wait_until

AIRPORTS = ["EWR", "JFK", "LGA"]
FLOWS = ("bronze", "silver", "gold")
ALL_SUCCESS = dict.fromkeys(("plan", "run", *FLOWS), "success")


_FOLDER = Path(__file__).parent
_STARTED: list[Live] = []


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Stop Airflow before tests of another folder: its processes would take a tenth of a core until the end. `up` starts it again."""
    if nextitem is None or _FOLDER not in nextitem.path.parents:
        while _STARTED:
            _STARTED.pop().console.remove()


def up(airflow: Live) -> Live:
    """Start it as docs/guides/scheduling.md says, unless it is running, in place of the other one."""
    while _STARTED and _STARTED[-1] is not airflow:
        _STARTED.pop().console.remove()
    _STARTED[:] = [airflow]
    airflow.up()
    return airflow


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """In which silver refuses the first run of flights. Tests use `live`."""
    airflow = Live(tmp_path_factory.mktemp("live") / "project")
    yield airflow
    airflow.console.remove()


@pytest.fixture(scope="session")
def steady_airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """In which nothing runs by itself. Tests use `steady`."""
    airflow = Live(tmp_path_factory.mktemp("steady") / "project", refusing=False)
    yield airflow
    airflow.console.remove()


@pytest.fixture
def live(airflow: Live) -> Live:
    """The live Airflow of the fixtures `refused` and later, started again if the previous test stopped parts of it."""
    return up(airflow)


@pytest.fixture
def steady(steady_airflow: Live) -> Live:
    """The other live Airflow, for tests that do not need what `refused` and later fixtures have done."""
    return up(steady_airflow)


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    """A shell in a project in which nothing is running."""
    folder = tmp_path / "project"
    console = Console(folder, guides.scaffold(folder))
    yield console
    console.remove()


@pytest.fixture(scope="session")
def people_run(steady_airflow: Live) -> str:
    """A manual run for records with canaries; it may still be running."""
    airflow = up(steady_airflow)
    lines = "".join(f"{json.dumps(record)}\n" for record in PEOPLE_RECORDS)
    file = airflow.layout.landing("people") / "people.json"
    file.put(b"")
    file.put(lines.encode())
    wait_until(lambda: "people" in airflow.dags(), "Airflow has read the new file")
    return airflow.trigger("people")


@dataclass(frozen=True)
class Refused:
    """The first run of flights, which the schedule created."""

    run: str
    page: str
    """HTML of the run's page while silver was running."""
    state_of_run: str | None
    """The state of its task `run` at that time."""
    states: dict[str, str | None]
    """The states of its tasks after its end."""
    attempt: str


@pytest.fixture(scope="session")
def refused(airflow: Live) -> Refused:
    """Silver refused its first batch, because its suite allows another airport only."""
    up(airflow)
    wait_until(lambda: bool(airflow.runs("flights")), "the schedule's first run")
    run = min(run for run in airflow.runs("flights") if run.startswith("scheduled__"))
    airflow.wait_for_silver(run)
    tries = airflow.tasks(run)["run"].try_number
    # The page shows the state of a flow while `run` is running.
    wait_until(lambda: "tidegate silver: started" in airflow.log_so_far(run, "run", tries), "the log of `run` shows it")
    page, state = airflow.page(run), airflow.states(run)["run"]
    airflow.release_silver()
    states = airflow.end(run)
    return Refused(run, page, state, states, airflow.attempt(run))


@dataclass(frozen=True)
class Idle:
    """A manual run while the refused batch waits."""

    states: dict[str, str | None]
    log_of_plan: str
    attempt: str
    applications: int


@pytest.fixture(scope="session")
def idle(airflow: Live, refused: Refused) -> Idle:
    """With the same suite the batch would be refused again, so there is no work.

    When another test has started the parts again, the feeder may have landed a day, which the first run reads.
    """
    up(airflow)
    run = airflow.trigger()
    states = airflow.end(run)
    if states["bronze"] == "success":
        run = airflow.trigger()
        states = airflow.end(run)
    log = airflow.log(run, "plan", airflow.tasks(run)["plan"].try_number)
    return Idle(states, log, airflow.attempt(run), len(airflow.applications()))


@pytest.fixture(scope="session")
def clicks(steady_airflow: Live) -> str:
    """The id of a run of clickstream that read the feeder's messages; then the DAG was paused by the guide's command."""
    airflow = steady_airflow
    # Before the start, so that Airflow need not read the file again.
    schedule_clickstream(airflow.project)
    up(airflow)

    def successful() -> list[str]:
        ended = {run: airflow.states(run, "clickstream") for run in airflow.runs("clickstream")}
        return [run for run, states in ended.items() if {*states.values()} == {"success"}]

    wait_until(lambda: bool(airflow.runs("clickstream")), "the schedule makes a run")
    for run in sorted(airflow.runs("clickstream")):
        airflow.end(run, "clickstream")
    wait_until(lambda: bool(successful()), "clickstream has run")
    airflow.console.follow("source .airflow/env")
    airflow.console.follow("airflow dags pause clickstream")
    return successful()[0]


@pytest.fixture(scope="session")
def follower(airflow: Live) -> str:
    """The name of the guide's pipeline that runs after new rows in silver.flights."""
    up(airflow)
    for command in ("source .airflow/env", "cat > pipelines/punctuality.py", "sed ", "tidegate plan punctuality"):
        airflow.console.follow(command)
    wait_until(lambda: "punctuality" in airflow.dags(), "Airflow has read the new file")
    return "punctuality"


@dataclass(frozen=True)
class Cleared:
    """The refused run after its suite was fixed and silver's task was cleared."""

    run: str
    tasks: list[str]
    """That clearing silver cleared."""
    killed_attempt: str
    """The attempt whose application was killed while silver was running."""
    states: dict[str, str | None]
    attempt: str
    tries: int
    ids: list[str]
    """Of the flights in silver afterwards."""
    in_lower_case: set[int]
    wrong: list[str]
    events_of_silver: list[dict[str, Any]]


@pytest.fixture(scope="session")
def cleared(airflow: Live, refused: Refused, idle: Idle, follower: str) -> Cleared:
    """Clearing starts a new application, which is killed and then retried by Airflow."""
    up(airflow)
    run = refused.run
    allow_origins(airflow.project, AIRPORTS)
    with airflow.silver_paused():
        tasks = airflow.clear(run, "silver")
        airflow.wait_for_silver(run, excluding=refused.attempt)
        killed_attempt = airflow.attempt(run)
        airflow.kill(airflow.applications())
    states = airflow.end(run)
    return Cleared(
        run,
        tasks,
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
def following_run(airflow: Live, cleared: Cleared, follower: str) -> str:
    """The id of the follower's only run, which silver's Asset event started."""
    up(airflow)
    wait_until(lambda: len(airflow.runs(follower)) == 1, "the event of silver starts a run")
    (run,) = airflow.runs(follower)
    airflow.end(run, follower)
    airflow.pause(follower)
    return run


@dataclass(frozen=True)
class Backfilled:
    """A backfill of two days whose rows were written by an older transform. The second interval is refused first."""

    runs: list[str]
    """In the order of their intervals."""
    states: list[dict[str, str | None]]
    """After the first attempts of both."""
    left_in_lower_case: set[int]
    beside: dict[str, str | None]
    """The states of the tasks of a run that was triggered during the backfill."""
    tries_of_first: tuple[int, int]
    """Of the first interval's task `run`, before and after the failed interval ran again."""
    retried: dict[str, str | None]
    """The states of the second interval, which ran again."""
    ids: list[str]
    in_lower_case: set[int]
    wrong: list[str]


def create_backfill(airflow: Live, command: str) -> None:
    """Run Airflow's command, again where SQLite refused one of its writes: what it had created until then is cancelled."""
    for _ in range(5):
        try:
            airflow.console.shell(command)
            return
        except AssertionError as refused:
            if "database is locked" not in str(refused):
                raise
        backfills = BackfillApi(airflow.client)
        for each in backfills.list_backfills("flights").backfills:
            if each.completed_at is None:
                backfills.cancel_backfill(each.id)
    raise AssertionError("SQLite was locked five times")


@pytest.fixture(scope="session")
def backfilled(airflow: Live, following_run: str) -> Backfilled:
    """The backfill is created by the command that `tidegate plan` prints, and what failed of it is repeated by the API."""
    up(airflow)
    transform_dest(airflow.project, TRANSFORM_IN_LOWER_CASE, TRANSFORM_UNCHANGED)
    suite = airflow.project / "expectations/flights/silver.json"
    suite_before = suite.read_text()
    strict = json.loads(suite_before)
    query = "SELECT * FROM {batch} WHERE day = DATE '2013-01-02'"
    rule = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}, "severity": "critical"}
    strict["expectations"].append(rule)
    suite.write_text(json.dumps(strict))
    plan = airflow.console.shell("tidegate plan flights --mode backfill --from 2013-01-01 --to 2013-01-02")
    (line,) = [line for line in plan.splitlines() if "airflow backfill create" in line]
    create_backfill(airflow, line[line.index("airflow backfill create") :])

    def backfill_runs() -> list[str]:
        dag_runs = DagRunApi(airflow.client).get_dag_runs("flights").dag_runs
        own = [run for run in dag_runs if run.run_type.value == "backfill"]
        return [run.dag_run_id for run in sorted(own, key=lambda run: str(run.logical_date))]

    wait_until(lambda: len(backfill_runs()) == 2, "Airflow creates the runs of the backfill")
    beside = airflow.trigger()
    runs, layout = backfill_runs(), airflow.layout
    states = [airflow.end(run) for run in runs]
    states_beside = airflow.end(beside)
    left, tries = days_in_lower_case(layout), airflow.tasks(runs[0])["run"].try_number
    suite.write_text(suite_before)
    repeat_failed(airflow)
    wait_until(
        lambda: airflow.runs("flights")[runs[1]] in ("queued", "running", "success"), "the second interval starts again"
    )
    retried = airflow.end(runs[1])
    return Backfilled(
        runs,
        states,
        left,
        states_beside,
        (tries, airflow.tasks(runs[0])["run"].try_number),
        retried,
        flight_ids(layout),
        days_in_lower_case(layout),
        wrong_flights(layout),
    )


def repeat_failed(airflow: Live) -> None:
    """Create a backfill of the first two days of January by the API, which runs only what failed."""
    body = BackfillPostBody(
        dag_id="flights",
        from_date=datetime(2013, 1, 1, tzinfo=UTC),
        to_date=datetime(2013, 1, 2, tzinfo=UTC),
        reprocess_behavior=ReprocessBehavior.FAILED,
        max_active_runs=1,
        dag_run_conf={},
    )

    def is_created() -> bool:
        try:
            BackfillApi(airflow.client).create_backfill(body)
        except ConflictException:
            # Airflow has not yet marked the previous backfill as completed.
            return False
        return True

    wait_until(is_created, "Airflow creates the backfill")
