"""What Airflow meets when it reads the DAG files: little to load, found from anywhere, a new version for every edit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.embedded import airflow_home

pytestmark = pytest.mark.airflow

PROJECT = Path(__file__).parents[2]
HEAVY = ("pyspark", "delta", "pandas", "great_expectations", "deltalake", "confluent_kafka", "pyarrow", "duckdb")

_MEASURE = """
import json, sys, time
import airflow.sdk, airflow.dag_processing.dagbag
started = time.process_time()
import dags.flights, dags.clickstream, dags.alerts
seconds = time.process_time() - started
print(json.dumps({"seconds": seconds, "modules": sorted(sys.modules)}))
"""


def _clean(home: Path) -> dict[str, str]:
    """The project's environment on top of nothing but a path and a home."""
    given = airflow_home.environment(PROJECT, {"PATH": os.defpath, "HOME": str(home)})
    return given | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
    }


def test_reading_the_dags_is_cheap_and_loads_nothing_heavy(database: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE], cwd=PROJECT, env=_clean(database), capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout.splitlines()[-1])
    loaded = set(told["modules"])
    assert "tidegate.airflow.submit" in loaded
    assert [name for name in HEAVY if name in loaded] == []
    assert told["seconds"] < 2


def test_airflow_finds_the_dags_from_any_folder(database: Path) -> None:
    environment = _clean(database)
    _airflow("dags", "reserialize", cwd="/", environment=environment)
    listed = json.loads(_airflow("dags", "list", "--output", "json", cwd="/", environment=environment))
    assert {"flights", "clickstream"} <= {dag["dag_id"] for dag in listed}
    errors = _airflow("dags", "list-import-errors", "--output", "json", cwd="/", environment=environment)
    assert json.loads(errors) == []


def test_editing_a_declaration_makes_a_new_version(database: Path, tmp_path: Path) -> None:
    for name in ("dags", "pipelines"):
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    home = tmp_path / "home"
    shutil.copytree(database, home)
    environment = _clean(home) | {
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        # Else Airflow waits for half a minute between two looks at the same DAG.
        "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
        # In place of an installation of the copy.
        "PYTHONPATH": str(tmp_path),
    }
    versions = []
    declaration = tmp_path / "pipelines/flights.py"
    text = declaration.read_text()
    commented = f"{text}\n# only a comment\n"
    # Something that no task shows: only the documentation tells it.
    changed = text.replace('null_values=("", "NA")', 'null_values=("", "N/A")')
    assert changed != text
    for edited in (text, commented, changed):
        declaration.write_text(edited)
        _airflow("dags", "reserialize", cwd=tmp_path, environment=environment)
        versions.append(_newest_version(environment))
        # Airflow overwrites a version that no run has used yet.
        _airflow("dags", "trigger", "flights", cwd=tmp_path, environment=environment)
    assert versions[1] == versions[0]
    assert versions[2] == versions[1] + 1


def _newest_version(environment: dict[str, str]) -> int:
    asked = (
        "from airflow.models.dag_version import DagVersion;"
        "print(DagVersion.get_latest_version('flights').version_number)"
    )
    done = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


def _airflow(*arguments: str, cwd: str | Path, environment: dict[str, str]) -> str:
    command = [sys.executable, "-m", "airflow", *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    if "--output" not in arguments:
        return done.stdout
    # Warnings stand before the answer.
    answer = re.search(r"^\[.*\]\s*\Z", done.stdout, re.MULTILINE | re.DOTALL)
    return answer[0] if answer else "[]"
