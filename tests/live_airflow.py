"""A live Airflow with its own project, lake, database and real Spark, and the actions of a user in it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx
import psutil
from airflow_client.client import ApiClient, Configuration
from airflow_client.client.api.asset_api import AssetApi
from airflow_client.client.api.dag_api import DAGApi
from airflow_client.client.api.dag_run_api import DagRunApi
from airflow_client.client.api.pool_api import PoolApi
from airflow_client.client.api.task_instance_api import TaskInstanceApi
from airflow_client.client.api.x_com_api import XComApi
from airflow_client.client.exceptions import NotFoundException
from airflow_client.client.models import (
    ClearTaskInstancesBody,
    ClearTaskInstancesBodyTaskIdsInner,
    DAGPatchBody,
    DAGRunClearBody,
    PatchTaskInstanceBody,
    TaskInstanceState,
    TriggerDAGRunPostBody,
)
from urllib3 import BaseHTTPResponse, Retry

from devstack.airflow_server import AirflowServer
from tests.live.console import Console
from tests.live.project import declare_people, land_day, make_project
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.errors import AirflowUnavailableError
from tidegate.lake.layout import Layout, run_key
from tidegate.lake.place import AttemptPlace
from tidegate.processes import end, living
from tidegate.reports.report import RunReport


class _Retries(Retry):
    """A server that is busy may close an idle connection. Only a GET is sent again: another request may have been carried out."""

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        error: Exception | None = None,
        *of_pool: Any,
        **by_pool: Any,
    ) -> Self:
        if error is not None and method != "GET":
            raise error
        return super().increment(method, url, response, error, *of_pool, **by_pool)


@dataclass
class Live:
    """A user's actions and views, through `make` and through Airflow's API client."""

    project: Path
    refusing: bool = True
    """Whether silver refuses the first run of flights; see `make_project`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """More environment variables of the shell that starts it."""

    def __post_init__(self) -> None:
        environment = make_project(self.project, refusing=self.refusing)
        self.console = Console(self.project, environment | dict(self.variables))
        self.server = AirflowServer(self.project)
        self.layout = Layout.local(self.project / ".data/lake", self.project / ".data/landing")
        self.first_output = ""

    def up(self) -> None:
        """Start it as docs/guides/scheduling.md says, unless it is running."""
        if len(self.server.running()) == len(self.server.services):
            return
        if not self.first_output:
            self.first_output = self.console.first_up()
            declare_people(self.project)
        else:
            self.console.shell("make up")
            self.console.kill("feeder")
        # SQLite allows one writer: a conflicting request gets status 500 and is retried.
        retries = _Retries(
            total=5, connect=0, read=2, status=5, status_forcelist=[500], allowed_methods=None, backoff_factor=0.3
        )
        self.client = ApiClient(Configuration(host=self.server.url, access_token=self._token(), retries=retries))

    # -------------------------------------------------------------------------------------------------------- user actions

    def land(self, day: int) -> int:
        """Land the first records of a day of January; returns their number."""
        return land_day(Path(self.layout.landing_root), day)

    @contextlib.contextmanager
    def silver_paused(self) -> Iterator[None]:
        """Block the flow silver in its transform."""
        (self.project / "hold").touch()
        try:
            yield
        finally:
            self.release_silver()

    def release_silver(self) -> None:
        """Unblock the flow silver."""
        (self.project / "hold").unlink()

    def trigger(self, dag_id: str = "flights") -> str:
        """Trigger a run, and return its id."""
        body = TriggerDAGRunPostBody(logical_date=None)
        return str(DagRunApi(self.client).trigger_dag_run(dag_id, body).dag_run_id)

    def clear(self, run: str, *tasks: str) -> list[str]:
        """Clear tasks and all downstream tasks, without "Only Failed"; returns the ids of all cleared tasks."""
        body = ClearTaskInstancesBody(
            dry_run=False,
            dag_run_id=run,
            task_ids=[ClearTaskInstancesBodyTaskIdsInner(task) for task in tasks],
            include_downstream=True,
            only_failed=False,
        )
        cleared = TaskInstanceApi(self.client).post_clear_task_instances("flights", body)
        return sorted(instance.task_id for instance in cleared.task_instances)

    def clear_all(self, run: str) -> None:
        """Clear the whole run."""
        DagRunApi(self.client).clear_dag_run("flights", run, DAGRunClearBody(dry_run=False, only_failed=False))

    def fail(self, run: str, task: str) -> None:
        """Mark a task failed."""
        body = PatchTaskInstanceBody(new_state=TaskInstanceState.FAILED)
        TaskInstanceApi(self.client).patch_task_instance("flights", run, task, body)

    def pause(self, dag_id: str) -> None:
        """Pause a DAG."""
        DAGApi(self.client).patch_dag(dag_id, DAGPatchBody(is_paused=True))

    # ---------------------------------------------------------------------------------------------------------- user views

    def dags(self) -> dict[str, bool]:
        """Every DAG that Airflow lists, and whether it is paused."""
        return {dag.dag_id: bool(dag.is_paused) for dag in DAGApi(self.client).get_dags(exclude_stale=True).dags}

    def runs(self, dag_id: str) -> dict[str, str]:
        """The state of each run of a DAG."""
        dag_runs = DagRunApi(self.client).get_dag_runs(dag_id).dag_runs
        return {run.dag_run_id: str(run.state.value) for run in dag_runs}

    def tasks(self, run: str, dag_id: str = "flights") -> dict[str, Any]:
        """Task instances of a run by task id."""
        instances = TaskInstanceApi(self.client).get_task_instances(dag_id, run).task_instances
        return {instance.task_id: instance for instance in instances}

    def states(self, run: str, dag_id: str = "flights") -> dict[str, str | None]:
        """The state of each task of a run."""
        return {
            name: instance.state.value if instance.state else None for name, instance in self.tasks(run, dag_id).items()
        }

    def end(self, run: str, dag_id: str = "flights") -> dict[str, str | None]:
        """Wait for a run's end, and return the state of each of its tasks."""
        final = ("success", "failed")
        self._wait(lambda: self.runs(dag_id).get(run) in final, run, dag_id, "ends")
        return self.states(run, dag_id)

    def slots(self) -> tuple[int, int]:
        """How many tasks hold a slot of a worker or wait for one, and how many are deferred."""
        pool = PoolApi(self.client).get_pool("default_pool")
        return pool.running_slots + pool.queued_slots, pool.deferred_slots

    def attempt(self, run: str) -> str:
        """The id of the last attempt of `run`; empty when there is none."""
        key: dict[str, Any] = {"dag_id": "flights", "dag_run_id": run, "task_id": "run", "xcom_key": "attempt"}
        try:
            value = XComApi(self.client).get_xcom_entry(**key).actual_instance
            return "" if value is None else str(value.value)
        except NotFoundException:
            return ""

    def report(self, run: str) -> RunReport | None:
        """The report of the last attempt."""
        attempt = self.attempt(run)
        return RunReport.read(AttemptPlace(self.layout, "flights", run_key(run), attempt).report) if attempt else None

    def is_running(self, run: str, flow: str) -> bool:
        """Whether the last attempt's application is running a flow."""
        report = self.report(run)
        return report is not None and any(each.flow == flow and each.state == "running" for each in report.flows)

    def wait_for_silver(self, run: str, *, excluding: str = "") -> None:
        """Wait until an attempt other than ``excluding`` is running silver."""
        self._wait(
            lambda: self.attempt(run) != excluding and self.is_running(run, "silver"), run, "flights", "runs silver"
        )

    def _wait(self, condition: Callable[[], bool], run: str, dag_id: str, what: str) -> None:
        """Wait as long as the run makes progress: a whole run may take longer than the timeout of `until`."""

        def progress() -> Any:
            report = self.report(run) if dag_id == "flights" else None
            flows = [(flow.flow, flow.state) for flow in report.flows] if report is not None else []
            logs = self.project.glob(f".airflow/logs/dag_id={dag_id}/run_id={run}/*/*.log")
            return self.states(run, dag_id), flows, sum(log.stat().st_size for log in logs)

        def has_progressed() -> bool:
            # Limits the load on the API server.
            time.sleep(0.5)
            return condition() or progress() != before

        while not condition():
            before = progress()
            wait_until(has_progressed, f"run {run} of {dag_id} {what}, or makes progress")

    def page(self, run: str) -> str:
        """The HTML of the page of a run."""
        path = f"/tidegate/pipelines/flights/runs/{quote(run, safe='')}"
        headers = {"Authorization": f"Bearer {self._token()}"}
        response = httpx.get(self.server.url + path, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False)
        return response.raise_for_status().text

    def log(self, run: str, task: str, attempt: int = 1) -> str:
        """The whole log of a task's attempt.

        A supervisor may report the state of its task before it has written the last lines: wait until it closes the file.
        """
        path, project = str(self._log_file(run, task, attempt)), str(self.project)

        def has_it_open(process: psutil.Process) -> bool:
            of_project = process.environ().get("TIDEGATE_PROJECT") == project
            return of_project and any(each.path == path for each in process.open_files())

        wait_until(lambda: not living(has_it_open), f"the log of {task} is closed")
        return self.log_so_far(run, task, attempt)

    def log_so_far(self, run: str, task: str, attempt: int = 1) -> str:
        """What is written of the log of a task's attempt, which may be running."""
        return self._log_file(run, task, attempt).read_text()

    def _log_file(self, run: str, task: str, attempt: int) -> Path:
        return self.project / f".airflow/logs/dag_id=flights/run_id={run}/task_id={task}/attempt={attempt}.log"

    def events(self, table: str) -> list[dict[str, Any]]:
        """The extras of a table's Asset events, oldest first."""
        events = AssetApi(self.client).get_asset_events(name_pattern=table, order_by=["timestamp"]).asset_events
        return [dict(event.extra or {}) for event in events]

    # ------------------------------------------------------------------------------------------------------- processes

    def applications(self) -> list[psutil.Process]:
        """The JVMs of the Spark applications of flights."""
        return self._processes(
            lambda words: "org.apache.spark.deploy.SparkSubmit" in words and "tidegate-flights" in words
        )

    def workers(self) -> list[psutil.Process]:
        """The processes of the task `run`: the task itself, and the worker that supervises it."""
        (application,) = self.applications()
        # spark-submit is a child of the task, and the task is a child of the worker.
        chain = [application, *application.parents()]
        task = next(each for each in chain if os.getpgid(each.pid) != os.getpgid(application.pid))
        return [task, *filter(None, [task.parent()])]

    def kill(self, processes: list[psutil.Process]) -> None:
        """Send SIGKILL, and wait until they have exited."""
        assert processes
        end(lambda: living(lambda process: process in processes), grace=0)

    def _token(self) -> str:
        tokens: list[str] = []

        def has_token() -> bool:
            # A busy server may not answer in time.
            with contextlib.suppress(AirflowUnavailableError):
                tokens.append(self.server.token())
            return bool(tokens)

        wait_until(has_token, "Airflow returns a token")
        return tokens[0]

    def _processes(self, matches: Callable[[list[str]], bool]) -> list[psutil.Process]:
        project = str(self.project)
        return living(
            lambda process: process.environ().get("TIDEGATE_PROJECT") == project and matches(process.cmdline())
        )


def accessible_to_others(*folders: Path) -> list[Path]:
    """Files and folders that others than their owner can access; those that are removed meanwhile are ignored."""
    accessible = []
    for folder in folders:
        for parent, *children in os.walk(folder):
            for path in (Path(parent), *(Path(parent, name) for names in children for name in names)):
                with contextlib.suppress(FileNotFoundError):
                    if not path.is_symlink() and path.stat().st_mode & 0o077:
                        accessible.append(path)
    return accessible
