"""The same tests of refusals, retries and clearing in the oldest and the last but newest Airflow that the platform accepts.

Each has an environment of its own with Airflow as of its release, because its official constraints are not in a package index, and
the wheel without any extra under the versions of that environment. The newest one is the lock's, with which all tests run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import wheel

pytestmark = [pytest.mark.packages, pytest.mark.airflow, pytest.mark.timeout(1800)]

VERSIONS = {"3.1.8": "2026-03-15", "3.2.2": "2026-06-01"}
"""Version to a day soon after its release."""
PROVIDERS = ("apache-airflow-providers-apache-spark", "pyspark", "pandas", "great-expectations")
OF_TESTS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "pyarrow")
"""What these tests need; PyArrow writes the ledger in the place of a job."""
SHOW = """
import json, os
from airflow.plugins_manager import get_plugin_info
from airflow.providers_manager import ProvidersManager
from tidegate.airflow.spark_connection import SparkConnection

plugins = [each["name"] for each in get_plugin_info()]
os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = '{"conn_type": "spark", "host": "local[2]"}'
master = SparkConnection.read("spark_default").master
print()
print(json.dumps(["tidegate" in plugins, ProvidersManager().providers["tidegate"].data["name"], master]))
"""
"""What the installed package, without a file in a folder of plugins and without the Spark provider, is to Airflow."""
TESTS = ("test_whole_runs.py", "test_failure.py")


@pytest.mark.parametrize("version", VERSIONS)
def test_refuse_retry_and_clear(version: str, tmp_path: Path) -> None:
    uv, python, constraints = (
        Path(sys.executable).with_name("uv"),
        tmp_path / "venv/bin/python",
        tmp_path / "frozen.txt",
    )

    def install(*words: str | Path) -> None:
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *words], check=True)

    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    install("--compile-bytecode", "--exclude-newer", VERSIONS[version], f"apache-airflow=={version}")
    frozen = subprocess.check_output([uv, "pip", "freeze", "--quiet", "--python", python], text=True)
    constraints.write_text(frozen)
    install("--compile-bytecode", "--constraint", constraints, wheel.build(tmp_path), *OF_TESTS)
    installed = subprocess.check_output([uv, "pip", "freeze", "--quiet", "--python", python], text=True)
    assert set(frozen.splitlines()) < set(installed.splitlines()), "no package of Airflow was changed"
    assert [name for name in PROVIDERS if f"\n{name}==" in installed] == []
    options = ("-q", "--noconftest", "-p", "tests.airflow.conftest", "-o", f"cache_dir={tmp_path / 'cache'}")
    shown = subprocess.run(
        [python, "-c", SHOW],
        env={"PATH": os.defpath, "AIRFLOW_HOME": str(tmp_path / "home"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout.splitlines()[-1]) == [True, "Tidegate", "local[2]"]
    done = subprocess.run(
        [str(python), "-m", "pytest", *options, *(f"tests/airflow/{name}" for name in TESTS)],
        cwd=wheel.PROJECT,
        env={**os.environ, "PYTHONPATH": str(wheel.PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
