"""One Spark application per run, through the Spark provider's operator.

Added to the provider's operator: an attempt id that exists before Spark starts, the end of the whole process group when
Airflow kills the task, and an environment without Airflow's secrets.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Connection, Context, RetryAction
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from tidegate.airflow import attempt
from tidegate.airflow.failure import TaskFailure, plain_failures
from tidegate.airflow.links import HistoryLink
from tidegate.airflow.retry import decide
from tidegate.environment import Environment
from tidegate.errors import EX_CONFIG, EX_SOFTWARE
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.processes import end_group
from tidegate.reports import run_result
from tidegate.reports.report import RunReport
from tidegate.requests.launch import application, arguments, prepare, submit_conf, submit_environment
from tidegate.requests.request import RunRequest, fresh_id

CONNECTION = "spark_default"

GRACE_SECONDS = 3.5
"""Time for Spark to exit after SIGTERM. Airflow kills the task's process 5 s after it asked it to stop."""

_KILL_SECONDS = 0.5
"""Time for processes to disappear after SIGKILL; normally milliseconds."""

_NEXT_STEP = "Remove the cause, then clear this task, or wait for the next run: both continue where this one stopped."

_SECRETS = ("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_", "_AIRFLOW", "__AIRFLOW")


class RunFlows(SparkSubmitOperator):
    """Runs the pipeline's flows in one Spark application.

    It succeeds when the application completed, also when a gate refused a batch: the flow's own task shows that. It fails when
    the application exits with another code than 0, and the last lines of its log say which flows failed and why;
    `ReportRetryPolicy` then decides by the report whether to retry. A transient error of a flow is retried, and after the last
    try the flow's own task shows it.

    Each try is a separate application, so the provider's ``durable`` is off: it would attach a new attempt to the old
    application, which writes the old attempt's report. If the old application still runs, it holds the lease, and the new try
    fails with a transient error.
    """

    operator_extra_links = (HistoryLink(),)

    def __init__(self, *, label: str, **kwargs: Any) -> None:
        super().__init__(conn_id=CONNECTION, name=f"tidegate-{label}", durable=False, **kwargs)

    @plain_failures
    def execute(self, context: Context) -> None:
        """Start an attempt, submit it, and wait for its end.

        Raises:
            TaskFailure: There is no request or no connection; or the application exited with another code than 0, and tries
                remain or it did not run its flows.
        """
        dag_id, key = attempt.key_of(context)
        attempt_id = fresh_id("a")
        # Pushed before anything can fail, so that the later tasks do not read the report of an earlier attempt.
        context["ti"].xcom_push(key=attempt.ATTEMPT_KEY, value=attempt_id)
        context["ti"].xcom_push(key=attempt.PIPELINE_KEY, value=dag_id)
        self.log.info("Attempt %s of run %s", attempt_id, key)
        request_id = attempt.request_id(context)
        if request_id is None:
            raise TaskFailure(f"`{attempt.PLAN}` stored no request; clear it together with its downstream tasks")
        environment = Environment.read()
        request = RunRequest.read(Layout.of(environment), dag_id, key, request_id)
        self._find_connection()
        master = SubmitHook(conn_id=self._conn_id).master
        # Set here and not in the DAG, because absolute paths would create a new DAG version when the project moves.
        prepare(environment, self.log.info)
        self.application = str(application())
        self.application_args = arguments(request, request_id, attempt_id)
        self.conf = submit_conf(environment, small=request.small, master=master)
        self.env_vars = submit_environment(environment, master=master)
        try:
            super().execute(context)
        except (AirflowException, RuntimeError) as error:
            end = self._end(error)
        else:
            return
        ti, report = context["ti"], attempt.report_of_attempt(context)
        lines = [end, *failures(report)]
        tries_remain = ti.try_number <= ti.max_tries
        if not tries_remain and _only_flows_failed(report):
            for line in [*lines, "No tries remain; the tasks of the flows show which failed."]:
                self.log.warning("%s", line)
            return
        again = tries_remain and decide(report, ti.try_number).action is not RetryAction.FAIL
        lines.append(
            f"Airflow tries again ({count(ti.max_tries + 1 - ti.try_number, 'try', 'tries')} left)."
            if again
            else _NEXT_STEP
        )
        code = run_result.exit_code(report, self._returned() or EX_SOFTWARE)
        raise TaskFailure("\n".join(lines), retry=True, exit_code=code)

    def on_kill(self) -> None:
        """End the application, on this machine or on the cluster."""
        if self._hook is not None:
            self._hook.on_kill()

    def _end(self, error: Exception) -> str:
        """How the application ended, without the command, whose options fill a page."""
        code = self._returned()
        return f"The application ended with {run_result.describe_exit(code)}." if code else str(error)

    def _returned(self) -> int | None:
        return self._hook.returncode if isinstance(self._hook, SubmitHook) else None

    def _find_connection(self) -> Connection:
        # Without a connection the provider would submit to YARN.
        try:
            connection = BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException:
            raise TaskFailure(
                f"there is no Airflow connection {self._conn_id!r}; create one of type Spark with the master, "
                'for example host \'local[2]\' with the extra {"deploy-mode": "client"}',
                # Airflow says the same when its API server does not answer.
                retry=True,
                exit_code=EX_CONFIG,
            ) from None
        if "k8s" in f"{connection.conn_type} {connection.host}" and importlib.util.find_spec("kubernetes") is None:
            # Without the package the provider raises a NameError.
            raise TaskFailure(
                f"connection {self._conn_id!r} uses Kubernetes, which needs the package "
                "apache-airflow-providers-cncf-kubernetes: install it where Airflow runs",
                exit_code=EX_CONFIG,
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
            raise TaskFailure(
                f"connection {self._conn_id!r}: a Spark standalone cluster runs Python applications in client mode "
                'only; set its extra to {"deploy-mode": "client"}',
                exit_code=EX_CONFIG,
            )
        if hook.yarn_cluster and extra.get("yarn_resourcemanager_webapp_address"):
            # Without it a spark-submit JVM would wait on the worker until the application ends.
            self._yarn_track_via_rm_api = hook._yarn_track_via_rm_api = True
        return hook


class SubmitHook(SparkSubmitHook):
    """Runs spark-submit in its own process group, which ends with the task, without Airflow's secrets."""

    @property
    def master(self) -> str:
        """The Spark master of the connection: ``local[2]``, ``spark://host:7077``, ``yarn``, ``k8s://…``."""
        return str(self._connection["master"])

    @property
    def returncode(self) -> int | None:
        """Exit code of the application: of spark-submit, or on Kubernetes of the driver; None if there is none."""
        code = self._submit_sp.returncode if self._submit_sp is not None else None
        return code or (self._spark_exit_code if self._is_kubernetes else None)

    @property
    def standalone_cluster(self) -> bool:
        """Whether the connection requests cluster mode on a Spark standalone cluster."""
        return bool(self._should_track_driver_status)

    @property
    def yarn_cluster(self) -> bool:
        """Whether the connection requests cluster mode on YARN."""
        return bool(self._is_yarn_cluster_mode)

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run spark-submit and wait; its whole process group is gone when this returns or raises."""
        variables = without_secrets(os.environ) | {name: str(value) for name, value in (self._env_vars or {}).items()}
        # The provider starts `spark-submit` by name; this Python environment's one must come first on the PATH.
        variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])
        try:
            return super().submit(application, env=variables, start_new_session=True, **kwargs)
        finally:
            # Also for Ctrl-C in a terminal and for timeouts.
            self._end_processes()
            if self._submit_sp is not None and self._submit_sp.stdout is not None:
                self._submit_sp.stdout.close()

    def on_kill(self) -> None:
        """SIGTERM, then SIGKILL, to the whole process group; then the provider's own `on_kill` for remote applications."""
        if self._connection["deploy_mode"] != "cluster":
            self._end_processes()
        super().on_kill()

    def _build_spark_submit_command(self, application: str) -> list[str]:
        command = super()._build_spark_submit_command(application)
        # Otherwise the provider overwrites our environment with a copy of this process's one, secrets included.
        self._env = None
        return command

    def _end_processes(self) -> None:
        if self._submit_sp is not None:
            end_group(self._submit_sp.pid, grace=GRACE_SECONDS, kill_seconds=_KILL_SECONDS)
            self._submit_sp.wait()


def failures(report: RunReport | None) -> list[str]:
    """One line for the error of the whole application, and for each flow that was refused or failed: what and why."""
    if report is None:
        return ["It reported no result; its last lines above have the cause."]
    lines = [f"{flow.flow} {flow.state}: {flow.error['message']}" for flow in report.flows if flow.error is not None]
    if report.error is not None:
        lines.append(str(report.error["message"]))
    elif report.ended_at is None:
        running = [flow.flow for flow in report.flows if flow.state == "running"]
        where = f" while flow {running[0]} ran" if running else ""
        lines.append(f"It crashed{where}; its last lines above have the cause.")
    return [" ".join(line.split()) for line in lines]


def _only_flows_failed(report: RunReport | None) -> bool:
    """Whether the application completed and only single flows failed."""
    if report is None or report.ended_at is None or report.error is not None:
        return False
    return any(flow.state == "failed" for flow in report.flows)


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Environment variables without Airflow's configuration, connections and variables."""
    return {name: value for name, value in variables.items() if not name.startswith(_SECRETS)}
