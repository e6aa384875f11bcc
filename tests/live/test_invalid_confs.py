"""Invalid confs of a run, by Airflow's command line, its API and the form behind *Trigger*.

What they refuse is also tested without a server in tests/airflow/test_commands.py and test_dag.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from airflow_client.client.api.dag_run_api import DagRunApi
from airflow_client.client.exceptions import ApiException
from airflow_client.client.models import TriggerDAGRunPostBody

from tests.airflow.refused_confs import REFUSED_AT_ONCE
from tests.waiting import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.live_airflow import Live

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.browser,
    pytest.mark.live,
    pytest.mark.jvm,
    pytest.mark.kafka,
    pytest.mark.airflow,
    pytest.mark.timeout(2400),
]

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


def test_every_invalid_conf_is_refused_by_form_command_and_api_before_any_application(
    steady: Live, browser: Browser
) -> None:
    before, form = set(steady.runs("flights")), Form(steady, browser)
    triggers = [["dags", "trigger", "flights", "--conf", json.dumps(conf)] for conf in REFUSED_AT_ONCE]
    assert "0" not in commands(steady, *triggers)
    assert [trigger(steady, conf) for conf in REFUSED_AT_ONCE] == [None] * len(REFUSED_AT_ONCE)
    # The form sends what is typed to the API: a word that is none of the allowed, and one in place of a list.
    assert [form.trigger(conf) for conf in (REFUSED_AT_ONCE[0], REFUSED_AT_ONCE[2])] == [None, None]
    assert set(steady.runs("flights")) == before, "no run was created"

    by_command: list[str | None] = [f"by_command_{number}" for number in range(len(REFUSED_BY_PLAN))]
    lines = [
        ["dags", "trigger", "flights", "--run-id", str(run_id), "--conf", json.dumps(conf)]
        for run_id, (conf, _) in zip(by_command, REFUSED_BY_PLAN, strict=True)
    ]
    assert commands(steady, *lines) == ["0"] * len(lines)
    by_form = form.trigger(REFUSED_BY_PLAN[0][0])
    for run, (conf, message) in ((by_form, REFUSED_BY_PLAN[0]), *zip(by_command, REFUSED_BY_PLAN, strict=True)):
        assert run is not None
        assert steady.end(run)["plan"] == "failed", conf
        assert message in steady.log(run, "plan")
        assert steady.attempt(run) == ""
    assert steady.applications() == []
