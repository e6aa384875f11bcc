"""One temporary Airflow home, with its own database, for all tests of this folder."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devstack import airflow_home
from tests.airflow.entry_points import airflow_app, airflow_command
from tests.airflow_database import migrated_database

PROJECT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="tidegate-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

# At import time and not in a fixture: Airflow reads its settings at import, and test modules import it during collection.
os.environ.update(
    {name: value for name, value in airflow_home.environment(PROJECT).items() if name.startswith("AIRFLOW")}
)
os.environ["AIRFLOW_HOME"] = str(HOME)
os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{HOME / 'airflow.db'}"


@pytest.fixture(scope="session")
def database() -> Path:
    """The Airflow home with a migrated database."""
    shutil.copyfile(migrated_database(), HOME / "airflow.db")
    return HOME


@pytest.fixture(scope="session")
def home_with_dags(database: Path) -> Path:
    """The Airflow home with a database that contains the project's DAGs."""
    airflow_command("dags", "reserialize")
    return database


@pytest.fixture
def project_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary project with a lake, a landing zone and suites that a test may edit.

    The folders of the pipeline ``delays`` are there and empty; no test is about it.
    """
    project = tmp_path / "project"
    project.mkdir()
    for name in ("expectations", "spark_jobs", "pipelines", "dags"):
        shutil.copytree(PROJECT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    (project / ".cache").symlink_to(PROJECT / ".cache")
    for source in ("weather", "airlines"):
        (project / ".data/landing" / source).mkdir(parents=True)
    for name in ("TIDEGATE_LAKE", "TIDEGATE_LANDING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIDEGATE_PROJECT", str(project))
    return project


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces spark-submit by a Python script; the operator, its process and its report stay real.

    The script can use ``report`` (a `RunReport` of this attempt), ``path`` (the path for it) and ``nth`` (the number of this
    submission, from 1).
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    counter = tmp_path / "submissions"
    # The provider also allows this name, and no real program with this name is on the PATH.
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    extra = {"deploy-mode": "client", "spark-binary": "spark3-submit"}
    connection = {"conn_type": "spark", "host": "local[2]", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))

    def replace(body: str) -> None:
        script = folder / "spark3-submit"
        # A plain shebang cannot contain a path with a space; for Python, the second line is a string literal.
        start = f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n"
        script.write_text(f"{start}{_SCRIPT.format(counter=str(counter))}\n{body}\n")
        script.chmod(0o755)

    return replace


_SCRIPT = """
import os, pathlib, sys, time
from tidegate.project import registry
from tidegate.environment import Environment
from tidegate.lake.layout import Layout
from tidegate.lake.place import AttemptPlace, PipelinePlace
from tidegate.reports.ledger_line import LedgerLine
from tidegate.reports.report import ErrorReport, FlowReport, RunReport, now
from tidegate.reports.verdict import Verdict

arguments = dict(zip(sys.argv[-8::2], sys.argv[-7::2]))
dag_id, run_key, attempt = arguments["--dag-id"], arguments["--run-key"], arguments["--attempt"]
layout = Layout.of(Environment.read())
path = AttemptPlace(layout, dag_id, run_key, attempt).report
flows = [
    FlowReport(flow=flow.name, target=flow.target.name, checkpoint_version=1, state="idle")
    for flow in registry.load(dag_id).flows
]
report = RunReport(dag_id=dag_id, run_key=run_key, attempt=attempt, started_at=now(), flows=flows)
counter = pathlib.Path("{counter}")
nth = (int(counter.read_text()) if counter.exists() else 0) + 1
counter.write_text(str(nth))

def wrote(name, rows, version):
    import pyarrow
    from deltalake import write_deltalake

    counts = dict(read=rows, written=rows, target_version=version)
    batch = LedgerLine(flow=name, batch_id=version, app_id=name, kind="append", **counts)
    flow = report.flow(name)
    flow.batches.append(batch)
    flow.state, flow.target_version = "done", version
    line = {{k: v for k, v in vars(batch).items() if k != "rules" and not isinstance(v, dict)}}
    ledger = PipelinePlace(layout, dag_id).ops("ledger")
    ledger.parent.make_folder()
    write_deltalake(str(ledger), pyarrow.Table.from_pylist([line]), mode="append")
"""


@pytest.fixture
def runs(database: Path, project_dir: Path) -> Runs:
    """Runs DAGs in this process with Airflow's trigger rules, execution API, XComs, Assets and clearing."""
    return Runs()


class Runs:
    """Starts DAG runs, and clears tasks as the UI does."""

    def start(self, dag: Any, conf: dict[str, Any] | None = None) -> Any:
        """Execute a new run to its end; returns Airflow's DagRun."""
        return dag.test(run_conf=conf)

    def clear(self, dag: Any, dag_run: Any, task_id: str) -> list[str]:
        """Clear a task through Airflow's API, as the UI does without "Only Failed"; returns the ids of the cleared tasks."""
        response = self.call_api(
            "POST",
            f"dags/{dag.dag_id}/clearTaskInstances",
            {
                "dry_run": False,
                "dag_run_id": dag_run.run_id,
                "task_ids": [task_id],
                "include_downstream": True,
                "only_failed": False,
            },
        )
        return sorted(cleared["task_id"] for cleared in response["task_instances"])

    def call_api(self, method: str, path: str, content: Any = None) -> Any:
        """The JSON response of Airflow's REST API to the user ``admin``; fails unless the status is 200."""
        response = self.try_api(method, path, content)
        assert response.status_code == 200, response.text
        return response.json()

    def try_api(self, method: str, path: str, content: Any = None) -> Any:
        """The response of Airflow's REST API to the user ``admin``, with any status."""
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
        from fastapi.testclient import TestClient

        client = TestClient(airflow_app())
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="admin", role="admin"))
        return client.request(method, f"/api/v2/{path}", headers={"Authorization": f"Bearer {token}"}, json=content)

    def resume(self, dag: Any, dag_run: Any) -> Any:
        """Execute a cleared or triggered run until it ends or waits for a person: the loop of ``dag.test``."""
        from airflow.models.dagrun import DagRun
        from airflow.sdk.definitions.dag import _run_task
        from airflow.serialization import serialized_objects
        from airflow.utils.session import create_session
        from airflow.utils.state import DagRunState, TaskInstanceState
        from sqlalchemy import select

        with create_session() as session:
            run = session.scalar(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == dag_run.run_id))
            assert run is not None
            # Another class since Airflow 3.2.
            kinds = vars(serialized_objects)
            kind = kinds.get("DagSerialization") or kinds["SerializedDAG"]
            run.dag = kind.deserialize_dag(kind.serialize_dag(dag))
            run.set_state(DagRunState.RUNNING)
            session.commit()
            while run.state == DagRunState.RUNNING:
                session.expire_all()
                ready, _ = run.update_state(session=session)
                # A task that a person has answered was scheduled by Airflow's API.
                resumed = [each for each in run.get_task_instances() if each.state == TaskInstanceState.SCHEDULED]
                if not ready and not resumed and run.state == DagRunState.RUNNING:
                    break
                for instance in ready:
                    instance.try_number += 1
                    instance.state = TaskInstanceState.SCHEDULED
                session.commit()
                for instance in [*ready, *resumed]:
                    _run_task(ti=instance, task=dag.task_dict[instance.task_id])
            return run

    def find(self, dag: Any, run_id: str) -> Any:
        """An existing run."""
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            return session.scalar(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == run_id))

    def states(self, dag_run: Any) -> dict[str, str | None]:
        """Every task's state."""
        return {instance.task_id: instance.state for instance in dag_run.get_task_instances()}

    def xcom(self, dag_run: Any, task_id: str, key: str) -> Any:
        """The last XCom value of a task under a key."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = XComModel.get_many(run_id=dag_run.run_id, key=key, task_ids=task_id, dag_ids=dag_run.dag_id)
            row = session.scalars(query).first()
            return None if row is None else XComModel.deserialize_value(row)

    def events(self, asset: str) -> list[dict[str, Any]]:
        """The extras of a table's Asset events, oldest first."""
        from airflow.models.asset import AssetEvent, AssetModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            query = select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            return list(session.scalars(query.where(AssetModel.name == asset).order_by(AssetEvent.id)))
