"""What people type into Airflow's command line and send to its API: taken or refused as without this project it would be."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from pipelines.flights import pipeline
from tests.airflow.entrances import airflow_command
from tidegate.planning.backfill import commands
from tidegate.request import RunRequest

pytestmark = pytest.mark.airflow

DOCUMENTS = sorted((Path(__file__).parents[2] / "docs/guides").glob("*.md"))

REFUSED: list[dict[str, Any]] = [
    {"mode": "again"},
    {"flows": ["platinum"]},
    {"flows": "silver"},
    {"from_date": "yesterday"},
    {"to_date": "2013-01-20; rm"},
    {"dry_run": "maybe"},
]
"""What Airflow itself refuses by the types of the form's fields; no run is made."""


def commands_of_guides() -> list[str]:
    """Every command of Airflow that a guide shows, also as what `tidegate plan` prints."""
    found = set()
    for document in DOCUMENTS:
        text = document.read_text().replace("\\\n", " ")
        found |= set(re.findall(r"(?:^\$ |^|: )(airflow (?:dags|backfill) [^`\n]+)$", text, re.MULTILINE))
    return sorted(found)


def test_the_guides_show_commands_of_airflow() -> None:
    assert len(commands_of_guides()) >= 8


@pytest.mark.parametrize("command", commands_of_guides())
def test_airflow_takes_the_commands_of_the_guides(command: str) -> None:
    from airflow.cli import cli_parser

    arguments = cli_parser.get_parser().parse_args(shlex.split(command)[1:])
    assert arguments.dag_id


@pytest.mark.parametrize(
    "asked",
    [{}, {"flows": ["silver"]}, {"mode": "replay", "from_date": "2013-01-01", "to_date": "2013-01-31"}],
)
def test_airflow_takes_the_commands_that_plan_prints(asked: dict[str, Any]) -> None:
    from airflow.cli import cli_parser

    request = RunRequest.check(pipeline, "plan", asked)
    printed = [command for command in commands(pipeline, request).every if command.startswith("airflow")]
    assert len(printed) == (2 if "mode" in asked else 1)
    for command in printed:
        arguments = cli_parser.get_parser().parse_args(shlex.split(command)[1:])
        conf = getattr(arguments, "conf", None)
        if conf is not None:
            assert RunRequest.check(pipeline, "plan", json.loads(conf)) == request


def number_of_runs(runs: Any) -> int:
    return int(runs.ask_api("GET", "dags/flights/dagRuns?limit=1")["total_entries"])


@pytest.mark.parametrize("conf", REFUSED)
def test_a_wrong_conf_is_refused_by_command_and_api_and_no_run_is_made(
    runs: Any, knowing: Path, conf: dict[str, Any]
) -> None:
    before = number_of_runs(runs)
    with pytest.raises(ParamValidationError):
        airflow_command("dags", "trigger", "flights", "--conf", json.dumps(conf))
    answer = runs.try_api("POST", "dags/flights/dagRuns", {"logical_date": None, "conf": conf})
    assert 400 <= answer.status_code < 500, answer.text
    assert number_of_runs(runs) == before


def test_a_conf_that_fits_makes_a_run_by_command_and_by_api(runs: Any, knowing: Path) -> None:
    before = number_of_runs(runs)
    conf = {"flows": ["silver"]}
    airflow_command("dags", "trigger", "flights", "--conf", json.dumps(conf))
    assert runs.ask_api("POST", "dags/flights/dagRuns", {"logical_date": None, "conf": conf})["conf"]["flows"] == [
        "silver"
    ]
    assert number_of_runs(runs) == before + 2
