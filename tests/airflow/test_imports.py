"""Reading the DAG files imports little, works from any folder, and creates a new DAG version for every edit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devstack import airflow_home

pytestmark = pytest.mark.airflow

PROJECT = Path(__file__).parents[2]
HEAVY = (
    "pyspark",
    "delta",
    "pandas",
    "great_expectations",
    "deltalake",
    "confluent_kafka",
    "pyarrow",
    "duckdb",
    "sqlglot",
)

_LOADED = """
import json, sys
import airflow.sdk, airflow.dag_processing.dagbag
import dags.flights, dags.clickstream, dags.alerts
print(json.dumps(sorted(sys.modules)))
"""

# One process for all commands, because importing Airflow takes seconds.
_COMMANDS = """
import sys
from airflow.cli import cli_parser

def airflow(*words):
    print(f"$ {' '.join(words)}")
    arguments = cli_parser.get_parser().parse_args(words)
    arguments.func(arguments)
"""

_FIND = """
airflow("dags", "reserialize")
airflow("dags", "list", "--output", "json")
airflow("dags", "list-import-errors", "--output", "json")
"""

_EDIT = """
import json, pathlib
from airflow.models.dag_version import DagVersion

declaration, versions = pathlib.Path("pipelines/flights.py"), []
for text in json.loads(pathlib.Path("edits.json").read_text()):
    declaration.write_text(text)
    # Airflow reads each file in a process of its own.
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pipelines", "dags")]:
        del sys.modules[name]
    airflow("dags", "reserialize")
    versions.append(DagVersion.get_latest_version("flights").version_number)
    # Airflow overwrites a version that no run has used yet.
    airflow("dags", "trigger", "flights")
print(json.dumps(versions))
"""


def _clean(home: Path) -> dict[str, str]:
    """The project's environment variables, plus only PATH and HOME."""
    environment = airflow_home.environment(PROJECT, {"PATH": os.defpath, "HOME": str(home)})
    return environment | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
    }


def test_reading_the_dags_imports_no_heavy_packages(database: Path) -> None:
    loaded = set(json.loads(_python(_LOADED, cwd=PROJECT, environment=_clean(database)).splitlines()[-1]))
    assert "tidegate.airflow.submit" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_airflow_finds_the_dags_from_any_folder(database: Path) -> None:
    output = _python(_COMMANDS + _FIND, cwd="/", environment=_clean(database))
    listed, errors = (_output_of(output, command) for command in ("dags list", "dags list-import-errors"))
    assert {"flights", "delays", "clickstream", "payments"} <= {dag["dag_id"] for dag in listed}
    assert errors == []


@pytest.mark.nightly
def test_an_edited_declaration_creates_a_new_dag_version(database: Path, tmp_path: Path) -> None:
    for name in ("dags", "pipelines"):
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    home = tmp_path / "home"
    shutil.copytree(database, home)
    environment = _clean(home) | {
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        # Otherwise Airflow serializes the same DAG at most every 30 seconds.
        "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
        # In place of an installation of the copy. No bytecode, because two edits may have the same size and second.
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    text = (tmp_path / "pipelines/flights.py").read_text()
    # A change that only the DAG's documentation contains.
    changed = text.replace('null_values=("", "NA")', 'null_values=("", "N/A")')
    assert changed != text
    (tmp_path / "edits.json").write_text(json.dumps([text, f"{text}\n# only a comment\n", changed]))
    output = _python(_COMMANDS + _EDIT, cwd=tmp_path, environment=environment)
    first, commented, edited = json.loads(output.splitlines()[-1])
    assert commented == first
    assert edited == first + 1


def _python(script: str, *, cwd: str | Path, environment: dict[str, str]) -> str:
    """Run a script in a new process; returns its output."""
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def _output_of(output: str, command: str) -> Any:
    """The JSON output of a command of `_COMMANDS`; Airflow prints a sentence instead of an empty list."""
    section = next(part for part in output.split("$ ") if part.startswith(f"{command} "))
    match = re.search(r"^\[.*\]\s*$", section, re.MULTILINE | re.DOTALL)
    return json.loads(match[0]) if match else []
