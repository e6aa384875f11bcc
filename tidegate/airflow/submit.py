"""One Spark application per run, through the Spark provider's operator.

What the provider leaves open and a pipeline needs: an attempt id that exists before Spark does, a process tree that is
really gone when Airflow kills the task, and an environment without Airflow's secrets.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Connection, Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowNotFoundException

from tidegate.airflow import attempt
from tidegate.airflow.links import HistoryLink
from tidegate.environment import Environment
from tidegate.errors import TidegateError
from tidegate.launch import application, arguments, submit_conf, submit_environment
from tidegate.layout import Layout
from tidegate.report import RunReport
from tidegate.request import RunRequest, fresh_id

CONNECTION = "spark_default"

GRACE_SECONDS = 3.5
"""For Spark to end by itself after SIGTERM. Airflow kills the task's process 5 s after it asked it to stop."""

_KILL_SECONDS = 0.5
"""For the kernel to take down what was SIGKILLed; it takes milliseconds."""

_SECRETS = ("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_", "_AIRFLOW", "__AIRFLOW")


class RunFlows(SparkSubmitOperator):
    """Runs the pipeline's flows in one Spark application.

    Green when the application did its work, also when a gate refused a batch: that is the flow's own task to show. Red
    when the application ended with an exit code; `ReportRetryPolicy` then decides by the report whether to try again. An
    error of a flow that heals by waiting is tried again, and is its own task's to show once the tries are used up.

    Each try is an application of its own, so the provider's ``durable`` is off: it would attach a new attempt to the
    old application, which writes the old attempt's report. If the old one still runs, it holds the lease, and the
    new try waits for its retry.
    """

    operator_extra_links = (HistoryLink(),)

    def __init__(self, *, what: str, **kwargs: Any) -> None:
        super().__init__(conn_id=CONNECTION, name=f"tidegate-{what}", durable=False, **kwargs)

    def execute(self, context: Context) -> None:
        """Make an attempt, submit it, and wait for its end.

        Raises:
            AirflowFailException: There is no request or no connection; only a person can help.
            AirflowException: The application ended with an exit code other than 0, and may be tried again or did not get to
                its flows.
        """
        dag_id, key = attempt.key_of(context)
        attempt_id = fresh_id("a")
        # Before anything can fail: whatever follows belongs to this attempt, and to no earlier one.
        context["ti"].xcom_push(key=attempt.ATTEMPT_KEY, value=attempt_id)
        context["ti"].xcom_push(key=attempt.PIPELINE_KEY, value=dag_id)
        self.log.info("Attempt %s of run %s", attempt_id, key)
        request_id = attempt.request_id(context)
        if request_id is None:
            raise AirflowFailException(f"there is no request of `{attempt.PLAN}`; clear it, with its downstream")
        try:
            environment = Environment.read()
            request = RunRequest.read(Layout.of(environment), dag_id, key, request_id)
            self._find_connection()
            master = SubmitHook(conn_id=self._conn_id).master
            # Set here and not in the DAG, so that moving the project does not make a new version of it.
            self.application = str(application(environment))
            self.application_args = arguments(request, request_id, attempt_id)
            self.conf = submit_conf(environment, small=request.small, master=master)
            self.env_vars = submit_environment(environment, master=master)
        except TidegateError as error:
            raise AirflowFailException(error.message) from error
        try:
            super().execute(context)
        except (AirflowException, RuntimeError) as error:
            ti = context["ti"]
            if ti.try_number <= ti.max_tries or not _only_flows_failed(attempt.report_of_attempt(context)):
                raise
            self.log.warning("%s; that was the last try, and the tasks of the flows show which failed", error)

    def on_kill(self) -> None:
        """End the application, on this machine or wherever it went."""
        if self._hook is not None:
            self._hook.on_kill()

    def _find_connection(self) -> Connection:
        # Without one the provider would submit to YARN.
        try:
            connection = BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            raise AirflowFailException(
                f"there is no Airflow connection {self._conn_id!r}; make one of type Spark that names the master, "
                'for example host \'local[2]\' with the extra {"deploy-mode": "client"}'
            ) from None
        if "k8s" in f"{connection.conn_type} {connection.host}" and importlib.util.find_spec("kubernetes") is None:
            # The provider would end with a NameError.
            raise AirflowFailException(
                f"connection {self._conn_id!r} names Kubernetes, which needs the package "
                "apache-airflow-providers-cncf-kubernetes: install it where Airflow runs"
            )
        return connection

    def _get_hook(self) -> SparkSubmitHook:
        extra = self._find_connection().extra_dejson
        hook = SubmitHook(
            conf=self.conf,
            conn_id=self._conn_id,
            name=self.name,
            application_args=self.application_args,
            env_vars=self.env_vars,
        )
        if hook.standalone_cluster:
            raise AirflowFailException(
                f"connection {self._conn_id!r}: a Spark standalone cluster runs Python applications in client mode "
                'only; set its extra to {"deploy-mode": "client"}'
            )
        if hook.yarn_cluster and extra.get("yarn_resourcemanager_webapp_address"):
            # Frees the worker of a JVM that would only wait.
            self._yarn_track_via_rm_api = hook._yarn_track_via_rm_api = True
        return hook


class SubmitHook(SparkSubmitHook):
    """spark-submit in a process group of its own, which ends with the task, and without Airflow's secrets."""

    @property
    def master(self) -> str:
        """Where the connection says that Spark runs: ``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://…``."""
        return str(self._connection["master"])

    @property
    def standalone_cluster(self) -> bool:
        """Whether the connection asks for cluster mode on Spark's own cluster manager."""
        return bool(self._should_track_driver_status)

    @property
    def yarn_cluster(self) -> bool:
        """Whether the connection asks for cluster mode on YARN."""
        return bool(self._is_yarn_cluster_mode)

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run spark-submit and wait; its whole process group is gone when this returns or raises."""
        variables = without_secrets(os.environ) | {name: str(value) for name, value in (self._env_vars or {}).items()}
        # The provider starts `spark-submit` by its name: the one of this Python goes before any other.
        variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])
        try:
            return super().submit(application, env=variables, start_new_session=True, **kwargs)
        finally:
            # Ctrl-C in a terminal and timeouts come this way.
            self._end_processes()

    def on_kill(self) -> None:
        """SIGTERM, then SIGKILL, to the whole process group; then what the provider does off this machine."""
        if self._connection["deploy_mode"] != "cluster":
            self._end_processes()
        super().on_kill()

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command = super()._build_spark_submit_command(application)
        # The provider would put its own copy of this process's environment, secrets included, over ours.
        self._env = None
        return command

    def _end_processes(self) -> None:
        if self._submit_sp is not None:
            end_group(self._submit_sp, GRACE_SECONDS)


def _only_flows_failed(report: RunReport | None) -> bool:
    """Whether the application came to its end, and what failed are single flows."""
    if report is None or report.ended_at is None or report.error is not None:
        return False
    return any(flow.state == "failed" for flow in report.flows)


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables without Airflow's configuration, connections and variables."""
    return {name: value for name, value in variables.items() if not name.startswith(_SECRETS)}


def end_group(leader: subprocess.Popen[Any], grace: float) -> None:
    """End a process and all of its group: SIGTERM, and SIGKILL for what is left.

    Args:
        leader: A process that was started with ``start_new_session=True``.
        grace: Seconds between the two; it returns as soon as all are gone.
    """
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, _KILL_SECONDS)):
        if not _alive(leader.pid):
            break
        deadline = time.monotonic() + patience
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, number)
        while _alive(leader.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
    leader.wait()


def _alive(group: int) -> bool:
    # Those that only wait to be reaped count as gone: nobody may reap the orphans of a killed parent for a while.
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False
