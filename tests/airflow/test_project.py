"""One call loads all DAGs of a project, wherever its folder is, and a broken pipeline breaks no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devstack import airflow_home
from tidegate.environment import Environment
from tidegate.scaffolding.project_files import NewProject

pytestmark = pytest.mark.airflow

PROJECT = Path(__file__).parents[2]
LOAD = """
import json, os, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
from tidegate.airflow import build_dags
from tidegate.airflow.failure import TaskFailure

file = sys.argv[1] + "/dags/tidegate_dags.py"
bag = DagBag(sys.argv[1])
loaded = {
    "dags": {name: {"tags": sorted(dag.tags), "tasks": sorted(dag.task_dict), "doc": dag.doc_md} for name, dag in bag.dags.items()},
    "files": sorted({dag.fileloc for dag in bag.dags.values()}),
    "errors": bag.import_errors,
    "project": os.environ["TIDEGATE_PROJECT"],
    "first": sys.path[0],
}
for name in ("orders", "alerts"):
    with _airflow_parsing_context_manager(name):
        loaded[name] = sorted(build_dags(file))
try:
    bag.dags["torn"].task_dict["plan"].execute({})
except TaskFailure as failure:
    loaded["failure"] = [failure.message, failure.code]
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as Airflow copies it for a DAG bundle, with pipelines that cannot run."""
    folder = tmp_path_factory.mktemp("bundles") / "shop"
    NewProject.of(folder, Environment.read({"TIDEGATE_PROJECT": str(folder)})).write()
    orders = (folder / "pipelines" / "orders.py").read_text()
    (folder / "pipelines" / "torn.py").write_text("def pipeline(:\n")
    (folder / "pipelines" / "second.py").write_text(orders.replace('name="orders"', 'name="second"'))
    (folder / ".venv-job" / "lib").mkdir(parents=True)
    (folder / ".venv-job" / "lib" / "airflow_dag.py").write_text("raise ImportError('no DAG of the project')")
    return folder


@pytest.fixture(scope="module")
def loaded(bundle: Path, database: Path) -> dict[str, Any]:
    """What Airflow loads from the folder of the whole project, in a process that knows nothing else of it."""
    environment = airflow_home.environment(PROJECT, {"PATH": os.defpath, "HOME": str(database)})
    environment = {name: value for name, value in environment.items() if not name.startswith("TIDEGATE_")} | {
        "AIRFLOW_HOME": str(database),
        # Which has packages of the same names.
        "PYTHONPATH": str(PROJECT),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{database / 'airflow.db'}",
    }
    command = [sys.executable, "-P", "-c", LOAD, str(bundle)]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_all_dags_are_loaded_by_one_file(loaded: dict[str, Any], bundle: Path) -> None:
    assert loaded["errors"] == {}
    assert loaded["dags"].keys() == {"orders", "second", "torn", "alerts", "quarantine", "schema_approval"}
    assert loaded["files"] == [str(bundle / "dags" / "tidegate_dags.py")]
    assert (loaded["project"], loaded["first"]) == (str(bundle), str(bundle))


def test_a_task_builds_its_own_dag_only(loaded: dict[str, Any]) -> None:
    assert (loaded["orders"], loaded["alerts"]) == (["orders"], ["alerts"])


def test_a_pipeline_that_cannot_run_has_a_dag_that_says_why_and_fails(loaded: dict[str, Any]) -> None:
    message, code = loaded["failure"]
    assert message.startswith("pipelines/torn.py does not load (line 1): SyntaxError") and code == 78
    assert message in loaded["dags"]["torn"]["doc"]
    assert "broken" in loaded["dags"]["torn"]["tags"]
    for name in ("orders", "second"):
        assert "writes 'bronze.orders' too" in loaded["dags"][name]["doc"]


def test_pages_are_those_of_the_project_that_has_airflows_dag_folder(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.airflow import plugin

    monkeypatch.delenv("TIDEGATE_PROJECT", raising=False)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for dags in (bundle, bundle / "dags"):
        monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(dags))
        assert plugin._environment().project == bundle
        assert sys.path[0] == str(bundle)
    monkeypatch.setenv("TIDEGATE_PROJECT", str(PROJECT))
    assert plugin._environment().project == PROJECT
