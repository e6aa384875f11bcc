"""The same tests of refusals, retries and clearing in the oldest and the last but newest Airflow that the platform accepts.

Each has an environment of its own with Airflow as of its release, because its official constraints are not in a package index, and
the wheel without any extra under the versions of that environment. The newest one is the lock's, with which all tests run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import wheel

pytestmark = [pytest.mark.packages, pytest.mark.airflow, pytest.mark.timeout(1800)]

VERSIONS = {"3.1.8": "2026-03-15", "3.2.2": "2026-06-01"}
"""Version to a day soon after its release."""
NOT_NEEDED = ("apache-airflow-providers-apache-spark", "duckdb", "pyspark", "pandas", "great-expectations")
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
LIMIT_MEGABYTES = 200
"""Of what the wheel without extras adds to Airflow, most of which is deltalake."""
PIPELINES = 50
LIMIT_SECONDS, LIMIT_SHARE = 1.0, 0.9
"""Of processor time for the DAGs of so many pipelines, beyond the import of Airflow; on a busy machine, which is slower, a share of it."""
PARSE = """
import json, runpy, sys, time
import airflow.sdk
imported = time.process_time()
found = runpy.run_path(sys.argv[1])
dags = [name for name, each in found.items() if type(each).__name__ == "DAG" and "broken" not in each.tags]
print()
print(json.dumps([len(dags), imported, time.process_time() - imported]))
"""


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
    before = _megabytes(tmp_path / "venv")
    install("--compile-bytecode", "--constraint", constraints, wheel.build(tmp_path))
    added = _megabytes(tmp_path / "venv") - before
    assert added < LIMIT_MEGABYTES, added
    install("--compile-bytecode", "--constraint", constraints, *OF_TESTS)
    installed = subprocess.check_output([uv, "pip", "freeze", "--quiet", "--python", python], text=True)
    assert set(frozen.splitlines()) < set(installed.splitlines()), "no package of Airflow was changed"
    assert [name for name in NOT_NEEDED if f"\n{name}==" in installed] == []
    options = ("-q", "--noconftest", "-p", "tests.airflow.conftest", "-o", f"cache_dir={tmp_path / 'cache'}")
    shown = subprocess.run(
        [python, "-c", SHOW],
        env={"PATH": os.defpath, "AIRFLOW_HOME": str(tmp_path / "home"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout.splitlines()[-1]) == [True, "Tidegate", "local[2]"]
    of_airflow, of_dags = _parsing_seconds(python, tmp_path)
    print(
        f"{added:.0f} MB beside Airflow {version}; its import {of_airflow:.2f} s, {PIPELINES} pipelines {of_dags:.2f} s"
    )
    assert of_dags < max(LIMIT_SECONDS, LIMIT_SHARE * of_airflow)
    done = subprocess.run(
        [str(python), "-m", "pytest", *options, *(f"tests/airflow/{name}" for name in TESTS)],
        cwd=wheel.PROJECT,
        # A run is refused where its jobs have no Spark, which this environment has not.
        env={**os.environ, "PYTHONPATH": str(wheel.PROJECT), "TIDEGATE_JOB_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]


def _megabytes(folder: Path) -> float:
    """The size of all files but bytecode."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files) / 1e6


def _parsing_seconds(python: Path, folder: Path) -> tuple[float, float]:
    """Of a process with little other work beside it: the import of Airflow, and what the DAGs of a project take beyond it."""
    environment = {"PATH": os.defpath, "AIRFLOW_HOME": str(folder / "home"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

    def run(*words: str | Path) -> str:
        return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout

    run(python.with_name("tidegate"), "init", "shop")
    for number in range(1, PIPELINES):
        for kind in ("pipelines", "spark_jobs"):
            text = (folder / f"shop/{kind}/orders.py").read_text()
            (folder / f"shop/{kind}/orders_{number}.py").write_text(text.replace("orders", f"orders_{number}"))
        shutil.copytree(folder / "shop/expectations/orders", folder / f"shop/expectations/orders_{number}")
    tried = [json.loads(run(python, "-c", PARSE, "shop/dags/tidegate_dags.py").splitlines()[-1]) for _ in range(3)]
    # With the DAGs for alerts, quarantine and schema changes.
    assert {dags for dags, *_ in tried} == {PIPELINES + 3}
    return min((imported, parsed) for _, imported, parsed in tried)
