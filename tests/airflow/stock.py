"""A stock Airflow with the wheel and no PySpark, whose jobs have an environment of their own, outside of the repository.

Airflow is resolved without the wheel, with the provider of the FAB manager; the wheel is installed by a requirements file with what was
resolved as its constraints, as managed Airflows demand.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from devstack.ports import free_port
from tests import wheel
from tests.airflow.sealed import sealed
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.processes import end_group
from tidegate.runtime import jars

OF_AIRFLOW = (
    *("apache-airflow-providers-fab", "apache-airflow-providers-celery", "psycopg2-binary", "asyncpg"),
    # 5.7 lacks a name that the provider 3.26 imports, and accepts.
    "celery<5.7",
)
ROLES = {"op": "Op", "viewer": "Viewer"}
"""Each user, whose password is the name, with its role."""
_COMPONENTS = {"scheduler": ("--skip-serve-logs",), "dag-processor": (), "triggerer": ("--skip-serve-logs",)}
POLICY = """
def task_instance_mutation_hook(task_instance):
    task_instance.queue = "applications" if task_instance.task_id == "run" else "default"
"""
"""Airflow's hook by which a deployment sends Spark's applications to workers of their own."""
_ENDED = ("success", "failed", "skipped", "upstream_failed")
_OF_WORKER = {
    "AIRFLOW__CORE__DAGS_FOLDER": "project/dags",
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER": "logs",
    "AIRFLOW_HOME": "home",
    "HOME": "home",
    "TIDEGATE_CACHE": "cache",
    "TMPDIR": "tmp",
}
"""The variables of a worker with a disk of its own, and where in its folder each is."""
_OF_TESTS = ("AIRFLOW", "PYTEST", "PYTHON", "TIDEGATE", "VIRTUAL_ENV")
"""How variables begin that a deployment does not have."""


class StockDeployment:
    """A project, an environment of Airflow, and one of its jobs."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.project, self.home = folder, folder / "shop", folder / "home"
        self.python, self.port = folder / "venv/bin/python", free_port()
        for name in ("home", "tmp", "logs", "cache", "jars", "lake", "landing"):
            (folder / name).mkdir()
        for jar in (*jars.files(wheel.PROJECT, "spark"), *jars.files(wheel.PROJECT, "s3")):
            (folder / "jars" / jar.name).symlink_to(jar)
        self.seal = sealed(folder, writable=[folder / name for name in ("lake", "logs", "tmp")])
        passwords = folder / "tmp/passwords.json"
        passwords.write_text(json.dumps({name: name for name in ROLES}))
        others = {name: value for name, value in os.environ.items() if not name.startswith(_OF_TESTS)}
        self.variables = {
            **others,
            "PATH": f"{self.python.parent}:{folder / 'bin'}:{os.defpath}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(folder / "tmp"),
            "TIDEGATE_CACHE": str(folder / "cache"),
            "TIDEGATE_MAVEN_REPOSITORY": str(folder / "jars"),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.project / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
                f"{name}:{role.lower()}" for name, role in ROLES.items()
            ),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.replace("postgresql:", "postgresql+psycopg2:"),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(folder / "logs"),
            "AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(folder / "logs/dag_processor"),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "600",
            "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "15",
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{self.port}",
            "AIRFLOW__API_AUTH__JWT_SECRET": "a" * 64,
            "AIRFLOW__CORE__FERNET_KEY": "",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "generic", "host": "local[2]"}),
        }

    def install(self) -> None:
        """Airflow, then the wheel by a requirements file with constraints, which changes nothing of it; then project and jobs."""
        uv = Path(sys.executable).with_name("uv")
        (self.folder / "bin").mkdir()
        (self.folder / "bin/uv").symlink_to(uv)
        self.shell(uv, "venv", "--quiet", "--python", sys.executable, self.folder / "venv")
        version = next(
            line
            for line in (wheel.PROJECT / "requirements.txt").read_text().splitlines()
            if line.startswith("apache-airflow==")
        )
        install = (uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", self.python)
        self.shell(*install, version, *OF_AIRFLOW)
        frozen = self.shell(uv, "pip", "freeze", "--quiet", "--python", self.python)
        (self.folder / "constraints.txt").write_text(frozen)
        self.wheel = wheel.build(self.folder)
        (self.folder / "requirements.txt").write_text(f"--constraint constraints.txt\n{self.wheel}\n")
        self.shell(*install, "--requirement", self.folder / "requirements.txt")
        installed = self.shell(uv, "pip", "freeze", "--quiet", "--python", self.python)
        assert set(frozen.splitlines()) < set(installed.splitlines()), "no package of Airflow was changed"
        assert [
            name for name in ("duckdb", "pyspark", "pyarrow", "great-expectations") if f"\n{name}==" in installed
        ] == []
        self.shell("uv", "pip", "check", "--python", self.python)
        self.shell("tidegate", "init", "shop", "--job-env", UV_CONSTRAINT=str(wheel.PROJECT / "requirements.txt"))
        settings = self.project / "tidegate.toml"
        text = settings.read_text()
        for name in ("lake", "landing"):
            text = text.replace(f'"{".data"}/{name}"', f'"{self.folder / name}"')
        settings.write_text(text)
        (self.project / ".data/landing/orders").rename(self.folder / "landing/orders")
        # As where an image is built: a run finds all that it needs in the cache, which it cannot write.
        self.shell("tidegate", "setup", "--only-jars", TIDEGATE_PROJECT=str(self.project))
        self.shell("airflow", "db", "migrate")

    def shell(self, *words: str | Path, **variables: str) -> str:
        """The output of a command, which succeeds."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.variables | variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout

    @contextmanager
    def service(self, name: str, *options: str, seal: Sequence[str] | None = None, **variables: str) -> Iterator[None]:
        """A component of Airflow that runs. It can write to lake, logs and temporary folders; ``seal`` says otherwise."""
        written = Path((self.variables | variables)["TMPDIR"]) / f"{name}.log"
        with written.open("ab") as log:
            process = subprocess.Popen(
                [*(self.seal if seal is None else seal), self.python, "-m", "airflow", name, *options],
                cwd=self.folder,
                env=self.variables | {"HOME": str(self.home)} | variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield
            assert process.poll() is None, written.read_text(errors="replace")[-4000:]
        finally:
            end_group(process.pid, grace=20)
            process.wait()

    @contextmanager
    def api_server(self, seal: Sequence[str] | None = None, **variables: str) -> Iterator[None]:
        """The API server, which answers."""
        options = ("--host", "127.0.0.1", "--port", str(self.port), "--workers", "1")
        with self.service("api-server", *options, seal=seal, **variables):

            def answers() -> bool:
                try:
                    return self.get("/api/v2/version").is_success
                except httpx.TransportError:
                    return False

            wait_until(answers, "the API server answers")
            yield

    @contextmanager
    def airflow(self, **variables: str) -> Iterator[None]:
        """All components, with the DAG `orders`."""
        with ExitStack() as stack:
            stack.enter_context(self.api_server(**variables))
            for name, options in _COMPONENTS.items():
                stack.enter_context(self.service(name, *options, **variables))
            wait_until(lambda: self.get("/api/v2/dags/orders", "op").is_success, "Airflow lists the DAG")
            yield

    @contextmanager
    def celery(self, broker: str, **variables: str) -> Iterator[dict[str, Path]]:
        """Airflow with two workers, one for Spark's applications. Each sees its own folder alone; nobody sees the local lake.

        Yields:
            The folder of each worker by its queue. All that it has is there, but for programs.
        """
        for python, constraints in (
            (self.python, self.folder / "constraints.txt"),
            (self.project / ".venv-job/bin/python", wheel.PROJECT / "requirements.txt"),
        ):
            extra = f"tidegate[s3] @ {self.wheel.as_uri()}"
            self.shell("uv", "pip", "install", "--quiet", "--python", python, "--constraint", constraints, extra)
        (self.home / "config").mkdir(exist_ok=True)
        (self.home / "config/airflow_local_settings.py").write_text(POLICY)
        variables |= {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CELERY__BROKER_URL": broker,
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{self.variables['AIRFLOW__DATABASE__SQL_ALCHEMY_CONN']}",
            # Celery refuses to run as root, as containers do.
            "C_FORCE_ROOT": "yes",
        }
        workers = {queue: self.folder / "workers" / queue for queue in ("applications", "default")}
        lake, shared = [self.folder / "lake", self.folder / "landing"], [self.folder / "tmp", self.folder / "logs"]
        for folder in workers.values():
            self._lay_out(folder)
        with ExitStack() as stack:
            of_airflow = sealed(self.folder, writable=shared, hidden=[*lake, *workers.values()])
            stack.enter_context(self.api_server(of_airflow, **variables))
            for name in ("scheduler", "dag-processor"):
                stack.enter_context(self.service(name, *_COMPONENTS[name], seal=of_airflow, **variables))
            for queue, folder in workers.items():
                others = [other for other in workers.values() if other != folder]
                own = sealed(self.folder, writable=[folder], hidden=[*lake, *shared, *others, self.home])
                options = ("worker", "--queues", queue, "--concurrency", "1", "--skip-serve-logs", "-H", f"{queue}@%h")
                of_worker = {name: str(folder / value) for name, value in _OF_WORKER.items()}
                stack.enter_context(self.service("celery", *options, seal=own, **variables, **of_worker))
            wait_until(lambda: self.get("/api/v2/dags/orders", "op").is_success, "Airflow lists the DAG")
            yield workers

    def _lay_out(self, folder: Path) -> None:
        """All that a worker has but for programs: a copy of the project, a cache, a home."""
        for name in {value.partition("/")[0] for value in _OF_WORKER.values()} - {"project"}:
            (folder / name).mkdir(parents=True)
        ignored = shutil.ignore_patterns(".venv-job", ".data")
        shutil.copytree(self.project, folder / "project", ignore=ignored)
        (folder / "project/.venv-job").symlink_to(self.project / ".venv-job")

    def token(self, user: str) -> dict[str, str]:
        """The header of a user who is logged in."""
        answer = self._request("POST", "/auth/token", json={"username": user, "password": user})
        return {"Authorization": f"Bearer {answer.raise_for_status().json()['access_token']}"}

    def get(self, path: str, user: str = "") -> httpx.Response:
        """The response of a page or of the API."""
        return self._request("GET", path, headers=self.token(user) if user else {})

    def call(self, method: str, path: str, user: str, content: Any) -> httpx.Response:
        """The response of the API."""
        return self._request(method, f"/api/v2/{path}", headers=self.token(user), json=content)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return httpx.request(
            method, f"http://127.0.0.1:{self.port}{path}", timeout=TIMEOUT_SECONDS, trust_env=False, **options
        )

    def first_run(self) -> str:
        """The id of the first run of the DAG `orders`."""
        runs: list[str] = []

        def begun() -> bool:
            answer = self.get("/api/v2/dags/orders/dagRuns", "op").json()["dag_runs"]
            runs[:] = [each["dag_run_id"] for each in answer]
            return bool(runs)

        wait_until(begun, "a run begins")
        return runs[0]

    def trigger(self, conf: dict[str, Any], dag: str = "orders") -> str:
        """The path of a run that Op triggers, in the API."""
        answer = self.call("POST", f"dags/{dag}/dagRuns", "op", {"logical_date": None, "conf": conf})
        assert answer.is_success, answer.text
        return f"dags/{dag}/dagRuns/{quote(answer.json()['dag_run_id'])}"

    def log(self, run: str, task: str) -> str:
        """What the first try of a task logged, as Op reads it."""
        return self.get(f"/api/v2/{run}/taskInstances/{task}/logs/1", "op").raise_for_status().text

    def end(self, run: str) -> dict[str, str]:
        """Wait for the end of a run, by its path; returns the state of each task."""
        path, headers = f"/api/v2/{run}/taskInstances", self.token("op")

        def states() -> dict[str, str]:
            tasks = self._request("GET", path, headers=headers).json()["task_instances"]
            return {each["task_id"]: each["state"] for each in tasks}

        # A whole run takes longer than a wait may on a busy machine.
        wait_until(lambda: states().get("plan") in _ENDED, "plan ends")
        wait_until(lambda: states()["run"] in _ENDED, "run ends")
        wait_until(lambda: all(state in _ENDED for state in states().values()), "the flows end")
        return states()

    def tidegate(self, *words: str) -> Any:
        """What a command of the project prints as JSON."""
        return json.loads(self.shell("tidegate", *words, "--json", TIDEGATE_PROJECT=str(self.project)))

    def query(self, sql: str) -> list[list[Any]]:
        """The rows of a query of the lake, by the environment of jobs: that of Airflow has no DuckDB."""
        command = self.project / ".venv-job/bin/tidegate"
        rows: list[list[Any]] = json.loads(
            self.shell(command, "query", sql, "--json", TIDEGATE_PROJECT=str(self.project))
        )["rows"]
        return rows

    def customers(self) -> dict[str, str]:
        """The customer of each order in silver."""
        return dict(self.query("SELECT order_id, customer FROM silver.orders"))

    def open_entries(self) -> int:
        """The number of open entries in silver's quarantine."""
        flows = {flow["flow"]: flow for flow in self.tidegate("status")["flows"]}
        return int(flows["silver"]["quarantine"]["open"])

    def files(self) -> dict[str, tuple[int, int]]:
        """Size and time of each file that nothing may write: the project with its environment of jobs, Airflow's home and environment."""
        folders = (self.project, self.home, self.folder / "venv")
        files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}
