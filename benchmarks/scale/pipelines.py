"""Projects with many pipelines: the processor time to parse all DAGs, of one task, and of one plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
SIZES = (50, 200, 1_000)
_LOAD = """
import json, os, sys, time
import airflow.sdk
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
from tidegate.airflow import build_dags

file, only = sys.argv[1] + "/dags/tidegate_dags.py", sys.argv[2]
started = time.process_time()
if only:
    with _airflow_parsing_context_manager(only):
        dags = build_dags(file)
else:
    dags = build_dags(file)
made = time.process_time() - started
if not only:
    from airflow.serialization.serialized_objects import DagSerialization
    for dag in dags.values():
        DagSerialization.to_dict(dag)
assert not [dag for dag in dags.values() if "broken" in dag.tags]
print(json.dumps({"dags": len(dags), "made": made, "all": time.process_time() - started, "process": time.process_time()}))
"""


def measure() -> dict[str, Any]:
    """The DAGs of each number of pipelines, and of one task among them."""
    from devstack import airflow_home

    points = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        home.mkdir()
        environment = airflow_home.environment(PROJECT, {"PATH": os.defpath, "HOME": str(home)})
        environment = {name: value for name, value in environment.items() if not name.startswith("TIDEGATE_")} | {
            "AIRFLOW_HOME": str(home),
            "PYTHONPATH": str(PROJECT),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        }
        for number in SIZES:
            project = _project(Path(folder, f"project-{number}"), number)
            every, one, plan = (
                _loaded(project, "", environment),
                _loaded(project, "orders0001", environment),
                _planned(project, environment),
            )
            assert (every["dags"], one["dags"]) == (number + 3, 1), (every, one)
            points.append({"pipelines": number, "every": every, "task": one, "plan_processor": plan})
            print(f"  {points[-1]}", flush=True)
    return {"points": points}


def _project(folder: Path, number: int) -> Path:
    from tidegate.environment import Environment
    from tidegate.scaffolding.project_files import NewProject

    NewProject.of(folder, Environment.read({"TIDEGATE_PROJECT": str(folder)})).write()
    first = folder / "pipelines" / "orders.py"
    text = first.read_text()
    first.unlink()
    for each in range(number):
        name = f"orders{each:04}"
        own = text.replace('name="orders"', f'name="{name}"').replace(".orders", f".{name}")
        (folder / "pipelines" / f"{name}.py").write_text(own)
    return folder


def _loaded(project: Path, only: str, environment: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-P", "-c", _LOAD, str(project), only]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _planned(project: Path, environment: dict[str, str]) -> float:
    """Processor seconds of ``tidegate plan`` of one pipeline."""
    before = os.times()
    command = [str(Path(sys.executable).parent / "tidegate"), "plan", "orders0001"]
    there = {**environment, "TIDEGATE_PROJECT": str(project)}
    done = subprocess.run(command, cwd=project, env=there, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
