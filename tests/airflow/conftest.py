"""One Airflow home for all tests of this folder, in a temporary place, with a database of its own."""

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

from tests.airflow.entrances import airflow_app, airflow_command
from tests.airflow_database import migrated_database
from tidegate.embedded import airflow_home

PROJECT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="tidegate-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

# Here and not in a fixture: Airflow reads its settings when it is imported, and test modules import it while pytest
# collects them.
os.environ.update(
    {name: value for name, value in airflow_home.environment(PROJECT).items() if name.startswith("AIRFLOW")}
)
os.environ["AIRFLOW_HOME"] = str(HOME)
os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{HOME / 'airflow.db'}"


@pytest.fixture(scope="session")
def database() -> Path:
    """The home, with a migrated database."""
    shutil.copyfile(migrated_database(), HOME / "airflow.db")
    return HOME


@pytest.fixture(scope="session")
def knowing(database: Path) -> Path:
    """The home, with a database that knows the project's DAGs."""
    airflow_command("dags", "reserialize")
    return database


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own: a lake, a landing zone and suites that a test may edit; jars are the real project's."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("expectations", "spark_jobs", "pipelines", "dags"):
        shutil.copytree(PROJECT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("jars", "jars.lock.json", ".cache"):
        (project / name).symlink_to(PROJECT / name)
    (project / ".data/landing").mkdir(parents=True)
    for name in ("TIDEGATE_LAKE", "TIDEGATE_LANDING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIDEGATE_PROJECT", str(project))
    return project


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a script of the test's own in Spark's place; the operator, its process and its report stay real.

    The script is Python; it finds ``report`` (a `RunReport` of this attempt), ``path`` (where it belongs) and ``nth``
    (which submission this is, from 1).
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    counter = tmp_path / "submissions"
    # The provider allows this name beside `spark-submit`, and no real one is on the path.
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    extra = {"deploy-mode": "client", "spark-binary": "spark3-submit"}
    connection = {"conn_type": "spark", "host": "local[2]", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))

    def put(body: str) -> None:
        script = folder / "spark3-submit"
        # A shebang of its own cannot name a path with a blank; to Python, the second line is a text.
        start = f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n"
        script.write_text(f"{start}{_SCRIPT.format(counter=str(counter))}\n{body}\n")
        script.chmod(0o755)

    return put


_SCRIPT = """
import os, pathlib, sys, time
from tidegate import registry
from tidegate.environment import Environment
from tidegate.layout import Layout
from tidegate.report import BatchRecord, FlowReport, RunReport, Verdict, now

given = dict(zip(sys.argv[-8::2], sys.argv[-7::2]))
dag_id, run_key, attempt = given["--dag-id"], given["--run-key"], given["--attempt"]
layout = Layout.of(Environment.read())
path = layout.report(dag_id, run_key, attempt)
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
    batch = BatchRecord(flow=name, batch_id=version, app_id=name, kind="append", **counts)
    flow = report.flow(name)
    flow.batches.append(batch)
    flow.state, flow.target_version = "done", version
    line = {{k: v for k, v in batch.to_json().items() if k not in ("filtered", "rules")}}
    ledger = layout.ops(dag_id, "ledger")
    ledger.parent.mkdir(parents=True, exist_ok=True)
    write_deltalake(str(ledger), pyarrow.Table.from_pylist([line]), mode="append")
"""


@pytest.fixture
def runs(database: Path, places: Path) -> Runs:
    """Runs DAGs in this process with Airflow's own parts: trigger rules, execution API, XComs, Assets, clearing."""
    return Runs()


class Runs:
    """Starts runs of a DAG, and clears them as a person does in the UI."""

    def start(self, dag: Any, conf: dict[str, Any] | None = None) -> Any:
        """Make a new run and bring it to its end; returns Airflow's DagRun."""
        return dag.test(run_conf=conf)

    def clear(self, dag: Any, dag_run: Any, task_id: str) -> list[str]:
        """Clear a task through Airflow's API, as the UI does with only-failed off; returns what was cleared."""
        answer = self.ask_api(
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
        return sorted(cleared["task_id"] for cleared in answer["task_instances"])

    def ask_api(self, method: str, path: str, content: Any = None) -> Any:
        """What Airflow's own REST API answers to the user ``admin``."""
        answer = self.try_api(method, path, content)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def try_api(self, method: str, path: str, content: Any = None) -> Any:
        """The same, with the status code, which may be that of a refusal."""
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
        from fastapi.testclient import TestClient

        client = TestClient(airflow_app())
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="admin", role="admin"))
        return client.request(method, f"/api/v2/{path}", headers={"Authorization": f"Bearer {token}"}, json=content)

    def go_on(self, dag: Any, dag_run: Any) -> Any:
        """Bring a cleared or triggered run to its end, or to where it waits for a person: the loop of ``dag.test``."""
        from airflow.models.dagrun import DagRun
        from airflow.sdk.definitions.dag import _run_task
        from airflow.serialization.serialized_objects import DagSerialization
        from airflow.utils.session import create_session
        from airflow.utils.state import DagRunState, TaskInstanceState
        from sqlalchemy import select

        with create_session() as session:
            run = session.scalar(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == dag_run.run_id))
            run.dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
            run.set_state(DagRunState.RUNNING)
            session.commit()
            while run.state == DagRunState.RUNNING:
                session.expire_all()
                ready, _ = run.update_state(session=session)
                # What a person answered was scheduled by Airflow's API.
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
        """A run that somebody triggered."""
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            return session.scalar(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == run_id))

    def states(self, dag_run: Any) -> dict[str, str | None]:
        """Every task's state."""
        return {instance.task_id: instance.state for instance in dag_run.get_task_instances()}

    def xcom(self, dag_run: Any, task_id: str, key: str) -> Any:
        """What a task pushed last under a key."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = XComModel.get_many(run_id=dag_run.run_id, key=key, task_ids=task_id, dag_ids=dag_run.dag_id)
            row = session.scalars(query).first()
            return None if row is None else XComModel.deserialize_value(row)

    def events(self, asset: str) -> list[dict[str, Any]]:
        """What Airflow was told of a table, oldest first."""
        from airflow.models.asset import AssetEvent, AssetModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            query = select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            return list(session.scalars(query.where(AssetModel.name == asset).order_by(AssetEvent.id)))
