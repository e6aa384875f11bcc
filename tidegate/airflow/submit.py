"""One Spark application per run: the attempt id before Spark starts, the end of the application, and what it means for the task."""

from __future__ import annotations

import importlib.util
from typing import Any

from airflow.sdk import BaseOperator, Context

from tidegate.airflow import attempt, compat
from tidegate.airflow.compat import RetryAction
from tidegate.airflow.connections import for_driver
from tidegate.airflow.failure import TaskFailure, plain_failures
from tidegate.airflow.links import HistoryLink
from tidegate.airflow.retry import LONGEST_DELAY, ReportRetryPolicy, decide
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submission import Application, ApplicationError, ClientSubmission, Submission
from tidegate.environment import Environment
from tidegate.errors import EX_CONFIG, EX_SOFTWARE, extras
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.project import registry
from tidegate.reports import run_result
from tidegate.reports.report import RunReport
from tidegate.requests.launch import application, arguments, prepare, submit_conf, submit_environment
from tidegate.requests.request import RunRequest, fresh_id
from tidegate.requests.resources import allocation

_NEXT_STEP = "Remove the cause, then clear this task, or wait for the next run: both continue where this one stopped."


class RunFlows(BaseOperator):
    """Runs the pipeline's flows in one Spark application.

    It succeeds when the application completed, also when a gate refused a batch: the flow's own task shows that. It fails when
    the application exits with another code than 0, and the last lines of its log say which flows failed and why;
    `ReportRetryPolicy` then decides by the report whether to retry. A transient error of a flow is retried, and after the last
    try the flow's own task shows it.

    Each try is a separate application: none attaches to the application of an earlier one, which writes the report of that attempt. If the
    old application still runs, it holds the lease, and the new try fails with a transient error.
    """

    operator_extra_links = (HistoryLink(),)
    policy = ReportRetryPolicy()

    def __init__(self, *, label: str, **kwargs: Any) -> None:
        if pool := Environment.read().pool:
            kwargs["pool"] = pool
        super().__init__(**compat.retries(self.policy, LONGEST_DELAY), **kwargs)
        self._application_name = f"tidegate-{label}"
        self._submission: Submission | None = None

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
        connection = SparkConnection.read(environment.connection)
        environment, secrets = for_driver(environment)
        if secrets and connection.is_cluster_mode:
            raise TaskFailure(
                f"connection {connection.conn_id!r} runs drivers on the cluster, and settings name connections of Airflow, whose "
                "secrets only drivers on the worker get; name sources of credentials that the cluster has, or use the client mode",
                exit_code=EX_CONFIG,
            )
        resources = allocation(
            environment,
            registry.load(request.dag_id).resources,
            master=connection.master,
            driver_on_cluster=connection.is_cluster_mode,
        )
        self.log.info("The application %s", resources.line())
        prepare(environment, self.log.info)
        self._submission = submission(connection, self.log)
        try:
            self._submission.run(
                Application(
                    name=self._application_name,
                    script=application(),
                    arguments=arguments(request, request_id, attempt_id),
                    conf=submit_conf(environment, small=request.small, master=connection.master, resources=resources),
                    variables=submit_environment(environment, master=connection.master),
                    secrets=secrets,
                    python=environment.job_python,
                )
            )
        except ApplicationError as error:
            # Without the command, whose options fill a page.
            end = f"The application ended with {run_result.describe_exit(error.code)}." if error.code else str(error)
            returned = error.code
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
        code = run_result.exit_code(report, returned or EX_SOFTWARE)
        raise TaskFailure("\n".join(lines), retry=True, exit_code=code)

    def on_kill(self) -> None:
        """End the application, on this machine or on the cluster."""
        if self._submission is not None:
            self._submission.kill()


def submission(connection: SparkConnection, log: Any) -> Submission:
    """The way to submit that a connection asks for.

    Raises:
        TaskFailure: Spark does not have it.
        SetupError: A package that it needs is missing.
    """
    if not connection.is_cluster_mode:
        return ClientSubmission(connection, log)
    name = f"connection {connection.conn_id!r}"
    if not connection.master.startswith(("yarn", "k8s")):
        where = (
            "a Spark standalone cluster runs Python applications"
            if "spark:" in connection.master
            else "Spark runs on one machine"
        )
        raise TaskFailure(
            f'{name}: {where} in client mode only; set its extra to {{"deploy-mode": "client"}}', exit_code=EX_CONFIG
        )
    extras.expect("airflow.providers.apache.spark")
    if connection.master.startswith("k8s") and importlib.util.find_spec("kubernetes") is None:
        # Without the package the provider raises a NameError.
        raise TaskFailure(
            f"{name} uses the cluster mode of Kubernetes, which needs the package apache-airflow-providers-cncf-kubernetes: "
            "install it where Airflow runs",
            exit_code=EX_CONFIG,
        )
    from tidegate.airflow.cluster_submission import ClusterSubmission

    return ClusterSubmission(connection, log)


def failures(report: RunReport | None) -> list[str]:
    """One line for the error of the whole application, and for each flow that was refused or failed: what and why."""
    if report is None:
        return ["It reported no result; its last lines above have the cause."]
    lines = [f"{flow.flow} {flow.state}: {flow.error.message}" for flow in report.flows if flow.error is not None]
    if report.error is not None:
        lines.append(str(report.error.message))
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
