"""Airflow accepts the commands of the guides and of `tidegate plan`, and refuses an invalid conf by command and by API."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from pipelines.flights import pipeline
from tests.airflow.entry_points import airflow_command
from tests.airflow.refused_confs import REFUSED_AT_ONCE
from tidegate.planning.backfill import commands
from tidegate.requests.request import RunRequest

pytestmark = pytest.mark.airflow

DOCUMENTS = sorted((Path(__file__).parents[2] / "docs/guides").glob("*.md"))


def commands_of_guides() -> list[str]:
    """Every Airflow command that a guide shows, also in the output of `tidegate plan`."""
    matches = set()
    for document in DOCUMENTS:
        text = document.read_text().replace("\\\n", " ")
        matches |= set(re.findall(r"(?:^\$ |^|: )(airflow (?:dags|backfill) [^`\n]+)$", text, re.MULTILINE))
    return sorted(matches)


def test_the_guides_contain_airflow_commands() -> None:
    assert len(commands_of_guides()) >= 8


@pytest.mark.parametrize("command", commands_of_guides())
def test_airflow_accepts_the_commands_of_the_guides(command: str) -> None:
    from airflow.cli import cli_parser

    arguments = cli_parser.get_parser().parse_args(shlex.split(command)[1:])
    assert arguments.dag_id


@pytest.mark.parametrize(
    "params",
    [{}, {"flows": ["silver"]}, {"mode": "backfill", "from_date": "2013-01-01", "to_date": "2013-01-31"}],
)
def test_airflow_accepts_the_commands_that_plan_prints(params: dict[str, Any]) -> None:
    from airflow.cli import cli_parser

    request = RunRequest.check(pipeline, "plan", params)
    printed = [command for command in commands(pipeline, request).all if command.startswith("airflow")]
    assert len(printed) == (2 if "mode" in params else 1)
    for command in printed:
        arguments = cli_parser.get_parser().parse_args(shlex.split(command)[1:])
        conf = getattr(arguments, "conf", None)
        if conf is not None:
            assert RunRequest.check(pipeline, "plan", json.loads(conf)) == request


@pytest.mark.nightly
def test_a_dry_run_of_the_command_that_plan_prints_lists_its_intervals(
    runs: Any, home_with_dags: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = RunRequest.check(
        pipeline, "plan", {"mode": "backfill", "from_date": "2013-01-01", "to_date": "2013-01-03"}
    )
    printed = commands(pipeline, request).by_interval
    assert printed is not None
    before = number_of_runs(runs)
    airflow_command(*shlex.split(printed)[1:], "--dry-run")
    listed = re.findall(r"2013-01-\d\d(?= 00:00:00\+00:00 *\|)", capsys.readouterr().out)
    assert listed == ["2013-01-01", "2013-01-02", "2013-01-03"]
    assert number_of_runs(runs) == before


def number_of_runs(runs: Any) -> int:
    return int(runs.call_api("GET", "dags/flights/dagRuns?limit=1")["total_entries"])


@pytest.mark.parametrize("conf", REFUSED_AT_ONCE)
def test_an_invalid_conf_is_refused_by_command_and_api_and_creates_no_run(
    runs: Any, home_with_dags: Path, conf: dict[str, Any]
) -> None:
    before = number_of_runs(runs)
    with pytest.raises(ParamValidationError):
        airflow_command("dags", "trigger", "flights", "--conf", json.dumps(conf))
    answer = runs.try_api("POST", "dags/flights/dagRuns", {"logical_date": None, "conf": conf})
    assert 400 <= answer.status_code < 500, answer.text
    assert number_of_runs(runs) == before


def test_a_valid_conf_creates_a_run_by_command_and_by_api(runs: Any, home_with_dags: Path) -> None:
    before = number_of_runs(runs)
    conf = {"flows": ["silver"]}
    airflow_command("dags", "trigger", "flights", "--conf", json.dumps(conf))
    assert runs.call_api("POST", "dags/flights/dagRuns", {"logical_date": None, "conf": conf})["conf"]["flows"] == [
        "silver"
    ]
    assert number_of_runs(runs) == before + 2
