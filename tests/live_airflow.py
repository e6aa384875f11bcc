"""A live Airflow on a project of its own: lake, home, database and real Spark; what a person there does and sees."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
from airflow_client.client import ApiClient, Configuration
from airflow_client.client.api.asset_api import AssetApi
from airflow_client.client.api.dag_api import DAGApi
from airflow_client.client.api.dag_run_api import DagRunApi
from airflow_client.client.api.task_instance_api import TaskInstanceApi
from airflow_client.client.api.x_com_api import XComApi
from airflow_client.client.exceptions import NotFoundException
from airflow_client.client.models import (
    ClearTaskInstancesBody,
    ClearTaskInstancesBodyTaskIdsInner,
    DAGPatchBody,
    DAGRunClearBody,
    PatchTaskInstanceBody,
    TriggerDAGRunPostBody,
)
from urllib3 import Retry

from tests.live.console import Console
from tests.live.project import declare_people, land_day, make_project
from tests.patience import PATIENCE, until
from tidegate.embedded.airflow_server import AirflowServer
from tidegate.errors import NoAnswerError
from tidegate.layout import Layout, run_key
from tidegate.report import RunReport


@dataclass
class Live:
    """What a person at the console does and sees, through Airflow's own API client."""

    project: Path

    def __post_init__(self) -> None:
        self.console = Console(self.project, make_project(self.project))
        self.server = AirflowServer(self.project)
        self.layout = Layout(self.project / ".data/lake", self.project / ".data/landing")
        self.first_output = ""

    def up(self) -> None:
        """Start it as the guide says, unless it runs."""
        if len(self.server.running()) == len(self.server.services):
            return
        if not self.first_output:
            self.first_output = self.console.first_up()
            declare_people(self.project)
        else:
            self.console.shell("make up")
            self.console.kill("feeder")
        # Its database is one file: who meets another writer is answered with 500, and asks again.
        again = Retry(
            total=5, connect=0, read=0, status=5, status_forcelist=[500], allowed_methods=None, backoff_factor=0.3
        )
        self.client = ApiClient(Configuration(host=self.server.url, access_token=self._token(), retries=again))

    # ---------------------------------------------------------------------------------------------- what a person does

    def land(self, day: int) -> int:
        """The first records of a day of January; returns how many there are."""
        return land_day(self.layout.landing_root, day)

    @contextlib.contextmanager
    def silver_held(self) -> Iterator[None]:
        """Meanwhile the flow silver does not get beyond its transform."""
        (self.project / "hold").touch()
        try:
            yield
        finally:
            self.release_silver()

    def release_silver(self) -> None:
        """Let the flow silver go on."""
        (self.project / "hold").unlink()

    def trigger(self, dag_id: str = "flights") -> str:
        """Start a run, and return its id."""
        body = TriggerDAGRunPostBody(logical_date=None)
        return str(DagRunApi(self.client).trigger_dag_run(dag_id, body).dag_run_id)

    def clear(self, run: str, *tasks: str) -> list[str]:
        """Clear tasks with all below them, only-failed off; returns the names of all that were cleared."""
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
        body = PatchTaskInstanceBody(new_state="failed")
        TaskInstanceApi(self.client).patch_task_instance("flights", run, task, body)

    def pause(self, dag_id: str) -> None:
        """Pause a DAG."""
        DAGApi(self.client).patch_dag(dag_id, DAGPatchBody(is_paused=True))

    # ------------------------------------------------------------------------------------------------ what a person sees

    def dags(self) -> dict[str, bool]:
        """Every DAG that Airflow lists, and whether it is paused."""
        return {dag.dag_id: bool(dag.is_paused) for dag in DAGApi(self.client).get_dags(exclude_stale=True).dags}

    def runs(self, dag_id: str) -> dict[str, str]:
        """The state of each run of a DAG."""
        found = DagRunApi(self.client).get_dag_runs(dag_id).dag_runs
        return {run.dag_run_id: str(run.state.value) for run in found}

    def tasks(self, run: str, dag_id: str = "flights") -> dict[str, Any]:
        """Each task of a run."""
        found = TaskInstanceApi(self.client).get_task_instances(dag_id, run).task_instances
        return {instance.task_id: instance for instance in found}

    def states(self, run: str, dag_id: str = "flights") -> dict[str, str | None]:
        """The colour of each task of a run."""
        return {
            name: instance.state.value if instance.state else None for name, instance in self.tasks(run, dag_id).items()
        }

    def end(self, run: str, dag_id: str = "flights") -> dict[str, str | None]:
        """Wait for a run's end, and return the colour of each of its tasks."""
        ended = ("success", "failed")
        self._wait(lambda: self.runs(dag_id).get(run) in ended, run, dag_id, "ends")
        return self.states(run, dag_id)

    def attempt(self, run: str) -> str:
        """The id of the attempt that `run` made last; empty when there is none."""
        asked = {"dag_id": "flights", "dag_run_id": run, "task_id": "run", "xcom_key": "attempt"}
        try:
            return str(XComApi(self.client).get_xcom_entry(**asked).actual_instance.value)
        except NotFoundException:
            return ""

    def report(self, run: str) -> RunReport | None:
        """What that attempt reported."""
        attempt = self.attempt(run)
        return RunReport.read(self.layout.report("flights", run_key(run), attempt)) if attempt else None

    def works_on(self, run: str, flow: str) -> bool:
        """Whether that attempt's application works on a flow just now."""
        report = self.report(run)
        return report is not None and any(told.flow == flow and told.state == "running" for told in report.flows)

    def wait_for_silver(self, run: str, *, but_for: str = "") -> None:
        """Wait until the application of an attempt works on silver; of another attempt than ``but_for``."""
        self._wait(
            lambda: self.attempt(run) != but_for and self.works_on(run, "silver"), run, "flights", "works on silver"
        )

    def _wait(self, condition: Callable[[], bool], run: str, dag_id: str, what: str) -> None:
        """Wait as long as the run gets on: all of it may take longer than anything that a test waits for."""

        def progress() -> Any:
            report = self.report(run) if dag_id == "flights" else None
            flows = [(flow.flow, flow.state) for flow in report.flows] if report is not None else []
            logs = self.project.glob(f".airflow/logs/dag_id={dag_id}/run_id={run}/*/*.log")
            return self.states(run, dag_id), flows, sum(log.stat().st_size for log in logs)

        def got_on() -> bool:
            # The API server has other things to do than to answer us.
            time.sleep(0.5)
            return condition() or progress() != before

        while not condition():
            before = progress()
            until(got_on, f"run {run} of {dag_id} {what}, or at least gets on")

    def page(self, run: str) -> str:
        """The page of a run, in Airflow."""
        path = f"/tidegate/pipelines/flights/runs/{quote(run, safe='')}"
        asked = urllib.request.Request(self.server.url + path, headers={"Authorization": f"Bearer {self._token()}"})
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def log(self, run: str, task: str, attempt: int = 1) -> str:
        """The log of a task, as Airflow keeps it."""
        path = f"dag_id=flights/run_id={run}/task_id={task}/attempt={attempt}.log"
        return (self.project / ".airflow/logs" / path).read_text()

    def events(self, table: str) -> list[dict[str, Any]]:
        """What Airflow was told of a table, oldest first."""
        found = AssetApi(self.client).get_asset_events(name_pattern=table, order_by=["timestamp"]).asset_events
        return [dict(event.extra or {}) for event in found]

    # ------------------------------------------------------------------------------------------------------- processes

    def applications(self) -> list[psutil.Process]:
        """The JVMs of the Spark applications of flights."""
        return self._processes(
            lambda words: "org.apache.spark.deploy.SparkSubmit" in words and "tidegate-flights" in words
        )

    def workers(self) -> list[psutil.Process]:
        """The processes that run `run`: the worker, and the task that it supervises."""
        (application,) = self.applications()
        # spark-submit is a child of the task, the task one of the worker.
        chain = [application, *application.parents()]
        task = next(each for each in chain if os.getpgid(each.pid) != os.getpgid(application.pid))
        return [task, *filter(None, [task.parent()])]

    def kill(self, processes: list[psutil.Process]) -> None:
        """SIGKILL, and wait until they are gone."""
        assert processes
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=PATIENCE)

    def _token(self) -> str:
        tokens: list[str] = []

        def given() -> bool:
            # A server that is busy answers later.
            with contextlib.suppress(NoAnswerError):
                tokens.append(self.server.token())
            return bool(tokens)

        until(given, "Airflow gives a token")
        return tokens[0]

    def _processes(self, fits: Callable[[list[str]], bool]) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                mine = process.environ().get("TIDEGATE_PROJECT") == str(self.project)
                if mine and fits(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found


def open_to_others(*folders: Path) -> list[Path]:
    """Files and folders below that others than their owner may use; what is moved or removed meanwhile is none."""
    found = []
    for folder in folders:
        for place, *inside in os.walk(folder):
            for path in (Path(place), *(Path(place, name) for names in inside for name in names)):
                with contextlib.suppress(FileNotFoundError):
                    if not path.is_symlink() and path.stat().st_mode & 0o077:
                        found.append(path)
    return found
