"""Backfills by command and by API, in parallel to the schedule, and invalid requests.

After each backfill the tables are as if the current code had always run. What Airflow's command line, its API and the form
behind *Trigger* refuse is also tested without a server in tests/airflow/test_commands.py and test_dag.py.
"""

from __future__ import annotations

import getpass
import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from airflow_client.client.api.backfill_api import BackfillApi
from airflow_client.client.api.dag_run_api import DagRunApi
from airflow_client.client.exceptions import ApiException, ConflictException
from airflow_client.client.models import BackfillPostBody, ReprocessBehavior, TriggerDAGRunPostBody

from tests.live.project import TRANSFORM_IN_LOWER_CASE, TRANSFORM_UNCHANGED, transform_dest
from tests.live.tables import days_in_lower_case, requested_by, wrong_flights
from tests.waiting import TIMEOUT_SECONDS, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.live.conftest import Backfilled, Cleared, Refused
    from tests.live_airflow import Live

pytestmark = [pytest.mark.live, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.airflow, pytest.mark.timeout(2400)]

PARALLEL_DAY = 20
"""A day of January that lands during a backfill."""
BACKFILLED = dict.fromkeys(("plan", "run", "silver", "gold"), "success") | {"bronze": "any"}

REFUSED_AT_ONCE: list[dict[str, Any]] = [
    {"mode": "again"},
    {"flows": ["platinum"]},
    {"flows": "silver"},
    {"from_date": "yesterday"},
    {"to_date": "2013-01-20; rm"},
    {"dry_run": "maybe"},
]
"""Confs that Airflow itself refuses by the types of the form's fields; no run is created."""
REFUSED_BY_PLAN: list[tuple[dict[str, Any], str]] = [
    ({"since": "2013-01-20"}, "allowed: mode, flows, from_date, to_date, gaps, undo_run, dry_run, accept"),
    ({"mode": "backfill", "from_date": "2013-01-21", "to_date": "2013-01-20"}, "is after"),
]
"""Confs that only `plan` can refuse: it fails, and no later task runs. More of them: tests/airflow/test_tasks.py."""

# One process for all commands, because importing Airflow takes seconds.
COMMANDS = """
import json, sys, time
from airflow.cli import cli_parser
from sqlalchemy.exc import OperationalError
parser = cli_parser.get_parser()
for number, words in enumerate(json.load(sys.stdin)):
    for delay in (1, 2, 4, 8, 0):
        try:
            arguments = parser.parse_args(words)
            arguments.func(arguments)
            answer = "0"
        except OperationalError:
            # The scheduler had locked SQLite; try again.
            answer = "busy"
            time.sleep(delay)
            continue
        except BaseException as error:
            answer = f"{type(error).__name__}:{error}".replace(" ", "_")
        break
    print("ANSWER", number, answer)
"""


def commands(live: Live, *lines: list[str]) -> list[str]:
    """Run commands of Airflow's command line; returns ``0`` or the error of each."""
    environment = live.console.leader("scheduler").environ()
    result = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=json.dumps(lines),
        env=environment,
        cwd=live.project,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split()[2] for line in result.stdout.splitlines() if line.startswith("ANSWER")]


def trigger(live: Live, conf: dict[str, Any]) -> str | None:
    """Trigger a run by the API; returns its id, None when Airflow refuses the conf."""
    body = TriggerDAGRunPostBody(logical_date=None, conf=conf)
    try:
        return str(DagRunApi(live.client).trigger_dag_run("flights", body).dag_run_id)
    except ApiException as error:
        assert 400 <= error.status < 500, error
        return None


class Form:
    """The form behind Airflow's *Trigger* in a browser; confs are typed into its JSON editor."""

    def __init__(self, live: Live, browser: Browser) -> None:
        self.address = f"{live.server.url}/dags/flights"
        self.page = browser.new_page(viewport={"width": 1300, "height": 1200})
        self.page.set_default_timeout(TIMEOUT_SECONDS * 1000)
        self.page.goto(self.address)
        self.page.fill("input[name=username]", "admin")
        self.page.fill("input[name=password]", live.server.password)
        self.page.click("button[type=submit]")
        self.page.wait_for_url(self.address)

    def trigger(self, conf: dict[str, Any]) -> str | None:
        """Trigger a run; returns its id, None when Airflow refuses the conf."""
        page = self.page
        page.goto(self.address)
        page.get_by_role("button", name="Trigger").first.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_text("Advanced Options").click()
        dialog.locator(".monaco-editor").last.click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(json.dumps(conf))
        # Delete the quotes and brackets that the editor added after the text.
        page.keyboard.press("Control+Shift+End")
        page.keyboard.press("Delete")
        with page.expect_response(lambda answer: answer.request.method == "POST" and "dagRuns" in answer.url) as posted:
            dialog.get_by_role("button", name="Trigger").click()
        answer = posted.value
        assert answer.status < 500, "Airflow itself failed"
        sent: Any = answer.request.post_data_json
        assert sent["conf"] == conf
        return str(answer.json()["dag_run_id"]) if answer.ok else None


@pytest.mark.nightly
@pytest.mark.browser
def test_every_invalid_conf_is_refused_by_form_command_and_api_before_any_application(
    live: Live, refused: Refused, browser: Browser
) -> None:
    # The first run has ended, so that others may begin.
    assert refused.states["silver"] == "failed"
    before, form = set(live.runs("flights")), Form(live, browser)
    triggers = [["dags", "trigger", "flights", "--conf", json.dumps(conf)] for conf in REFUSED_AT_ONCE]
    assert "0" not in commands(live, *triggers)
    for trigger_run in (lambda conf: trigger(live, conf), form.trigger):
        assert [trigger_run(conf) for conf in REFUSED_AT_ONCE] == [None] * len(REFUSED_AT_ONCE)
    assert set(live.runs("flights")) == before, "no run was created"

    by_command: list[str | None] = [f"by_command_{number}" for number in range(len(REFUSED_BY_PLAN))]
    lines = [
        ["dags", "trigger", "flights", "--run-id", str(run_id), "--conf", json.dumps(conf)]
        for run_id, (conf, _) in zip(by_command, REFUSED_BY_PLAN, strict=True)
    ]
    assert commands(live, *lines) == ["0"] * len(lines)
    by_form = form.trigger(REFUSED_BY_PLAN[0][0])
    for run, (conf, message) in ((by_form, REFUSED_BY_PLAN[0]), *zip(by_command, REFUSED_BY_PLAN, strict=True)):
        assert run is not None
        assert live.end(run)["plan"] == "failed", conf
        assert message in live.log(run, "plan")
        assert live.attempt(run) == ""
    assert live.applications() == []


@pytest.mark.nightly
def test_an_airflow_backfill_runs_each_interval_in_order(live: Live, cleared: Cleared, backfilled: Backfilled) -> None:
    assert [states | {"bronze": "any"} for states in backfilled.states] == [BACKFILLED, BACKFILLED]
    first, second = backfilled.runs
    assert live.tasks(first)["run"].end_date <= live.tasks(second)["run"].start_date
    assert requested_by(live.layout, first) == requested_by(live.layout, second) == {getpass.getuser()}


@pytest.mark.nightly
def test_after_a_backfill_the_tables_are_as_if_the_current_code_had_always_run(
    cleared: Cleared, backfilled: Backfilled
) -> None:
    assert cleared.in_lower_case == {1, 2}
    assert backfilled.in_lower_case == set()
    assert backfilled.ids == cleared.ids
    assert backfilled.wrong == []


@pytest.mark.nightly
def test_a_backfill_in_parallel_to_the_schedule_continues_where_it_stopped(live: Live, backfilled: Backfilled) -> None:
    first, second = backfilled.runs
    transform_dest(live.project, TRANSFORM_UNCHANGED, TRANSFORM_IN_LOWER_CASE)
    suite = live.project / "expectations/flights/silver.json"
    suite_before = suite.read_text()
    strict = json.loads(suite_before)
    unexpected_rows = "SELECT * FROM {batch} WHERE day = DATE '2013-01-02'"
    strict["expectations"].append(
        {
            "type": "unexpected_rows_expectation",
            "kwargs": {"unexpected_rows_query": unexpected_rows},
            "severity": "critical",
        }
    )
    suite.write_text(json.dumps(strict))
    create_backfill(live, ReprocessBehavior.COMPLETED)
    live.land(PARALLEL_DAY)
    parallel_run = live.trigger()
    wait_until(lambda: live.tasks(second)["run"].try_number == 2, "the second interval is backfilled again")
    assert live.end(first) | {"bronze": "any"} == BACKFILLED
    assert live.end(second) | {"bronze": "any"} == BACKFILLED | {"silver": "failed", "gold": "upstream_failed"}
    assert "failed" not in live.end(parallel_run).values()
    assert days_in_lower_case(live.layout) - {PARALLEL_DAY} == {1}

    suite.write_text(suite_before)
    create_backfill(live, ReprocessBehavior.FAILED)
    wait_until(
        lambda: live.runs("flights")[second] in ("queued", "running", "success"), "the second interval starts again"
    )
    assert live.end(second) | {"bronze": "any"} == BACKFILLED
    assert live.tasks(first)["run"].try_number == 2, "the successful interval did not run again"
    assert days_in_lower_case(live.layout) - {PARALLEL_DAY} == {1, 2}
    assert wrong_flights(live.layout) == []
    transform_dest(live.project, TRANSFORM_IN_LOWER_CASE, TRANSFORM_UNCHANGED)


def create_backfill(live: Live, behaviour: ReprocessBehavior) -> None:
    """Create a backfill of the first two days of January by the API."""
    body = BackfillPostBody(
        dag_id="flights",
        from_date=datetime(2013, 1, 1, tzinfo=UTC),
        to_date=datetime(2013, 1, 2, tzinfo=UTC),
        reprocess_behavior=behaviour,
        max_active_runs=1,
        dag_run_conf={},
    )

    def is_created() -> bool:
        try:
            BackfillApi(live.client).create_backfill(body)
        except ConflictException:
            # Airflow has not yet marked the previous backfill as completed.
            return False
        return True

    wait_until(is_created, "Airflow creates the backfill")
