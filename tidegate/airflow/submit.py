"""One Spark application per run: the attempt id before Spark starts, the end of the application, and what it means for the task."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from airflow.sdk import BaseOperator, Context

from tidegate.airflow import attempt, compat
from tidegate.airflow.cluster import FORGOTTEN, End
from tidegate.airflow.compat import RetryAction
from tidegate.airflow.connections import for_driver
from tidegate.airflow.failure import TaskFailure, plain_failures
from tidegate.airflow.links import HistoryLink
from tidegate.airflow.pod_submission import PodSubmission
from tidegate.airflow.pods import Pods
from tidegate.airflow.retry import LONGEST_DELAY, ReportRetryPolicy, decide
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submission import Application, ApplicationError, ClientSubmission, Submission, program
from tidegate.airflow.yarn import Yarn
from tidegate.checkpoints import recorded_attempt
from tidegate.checkpoints.recorded_attempt import Cancellation, RunApplication
from tidegate.environment import Environment
from tidegate.errors import EX_CONFIG, EX_SOFTWARE, EX_TEMPFAIL, extras
from tidegate.formatting import count
from tidegate.lake.layout import Layout
from tidegate.lake.place import RunPlace
from tidegate.project import registry
from tidegate.reports import run_result
from tidegate.reports.report import RunReport, now
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

    Where the driver runs on this machine, it ends with the try, and each try is a separate application. If an old one still runs, it holds
    the lease, and the new try fails with a transient error.

    A driver on a cluster outlives the try. The attempt is recorded in the lake (`tidegate.checkpoints.recorded_attempt`), and the task is
    deferred until the cluster says that the application has ended: it holds no slot, and what it pushes and prints is in the lake. A later
    try waits for the recorded application as long as it is alive, unless it was cancelled or the task was cleared: then it is killed, and
    replaced. Where the cluster cannot be asked, the task holds its slot until the end.
    """

    operator_extra_links = (HistoryLink(),)
    policy = ReportRetryPolicy()

    def __init__(self, *, label: str, **kwargs: Any) -> None:
        if pool := Environment.read().pool:
            kwargs["pool"] = pool
        super().__init__(**compat.retries(self.policy, LONGEST_DELAY), **kwargs)
        self._application_name = f"tidegate-{label}"
        self._submission: Submission | None = None
        self._recorded: tuple[RunPlace, str] | None = None
        """The run and the attempt of a driver on a cluster, as long as this process submits it."""

    @plain_failures
    def execute(self, context: Context) -> None:
        """Start an attempt, submit it, and wait for its end: here, or of a driver on a cluster in `complete`.

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
        described = Application(
            name=self._application_name,
            script=application(),
            arguments=arguments(request, request_id, attempt_id, recorded=connection.is_cluster_mode),
            conf=submit_conf(environment, small=request.small, master=connection.master, resources=resources),
            variables=submit_environment(environment, master=connection.master),
            secrets=secrets,
            python=environment.job_python,
        )
        if connection.is_cluster_mode:
            place = RunPlace(Layout.of(environment), dag_id, key)
            own = recorded_attempt.begun(attempt_id, request_id, clears=context["ti"].max_tries)
            self._run_on_cluster(context, connection, place, own, described)
            return
        try:
            self._submission.run(described)
        except ApplicationError as error:
            self._fail(context, error)

    def _run_on_cluster(
        self,
        context: Context,
        connection: SparkConnection,
        place: RunPlace,
        own: RunApplication,
        described: Application,
    ) -> None:
        """Submit an attempt, or attach to the recorded one; does not return where the end can be waited for without a slot."""
        submission, cluster = self._submission, cluster_of(connection, described)
        assert submission is not None
        # That of a pod is chosen before it is submitted.
        own = dataclasses.replace(own, application=submission.application)
        known = recorded_attempt.claim(place, own, cluster, lambda line: self.log.info("%s", line))
        if known is not None and known.application is not None:
            # The later tasks read the report of the attempt that runs.
            context["ti"].xcom_push(key=attempt.ATTEMPT_KEY, value=known.attempt)
            self.log.info("Attempt %s runs as application %s: waiting for its end", known.attempt, known.application)
            name = known.application
        else:
            self._recorded = place, own.attempt
            try:
                submission.run(described)
            except ApplicationError as error:
                self._fail(context, error)
                return
            if cluster is None:
                return
            assert submission.application is not None
            name = submission.application
            recorded_attempt.name(place, own.attempt, name)
        assert cluster is not None
        from tidegate.airflow.trigger import ApplicationTrigger

        self.log.info("Application %s runs on the cluster at %s; its driver's output is there", name, cluster.address)
        self.defer(trigger=ApplicationTrigger.of(cluster, name), method_name=RunFlows.complete.__name__)

    @plain_failures
    def complete(self, context: Context, event: dict[str, Any]) -> None:
        """Go on after the wait for a driver on a cluster.

        Args:
            context: Of the task.
            event: Of `ApplicationTrigger`.

        Raises:
            TaskFailure: As `execute`; or the cluster did not answer, so that the next try asks again.
        """
        application = event["application"]
        if "error" in event:
            raise TaskFailure(
                f"{event['error']}\nApplication {application} may run; the next try asks for it again.",
                retry=True,
                exit_code=EX_TEMPFAIL,
            )
        end = End(**event["end"])
        report = attempt.report_of_attempt(context)
        if end.succeeded or (end.state == FORGOTTEN and report is not None and _succeeded(report)):
            self.log.info("%s", end.describe(application))
            return
        lines = [end.describe(application)]
        if run_result.crashed(report):
            command = event["output_command"]
            lines.append(f"`{command}` has what its driver has printed.")
        self._fail(context, ApplicationError("\n".join(lines)))

    def _fail(self, context: Context, error: ApplicationError) -> None:
        """Say how the application ended, and fail, unless no tries remain and the flows' own tasks show which failed."""
        # Without the command, whose options fill a page.
        end = f"The application ended with {run_result.describe_exit(error.code)}." if error.code else str(error)
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
        code = run_result.exit_code(report, error.code or EX_SOFTWARE)
        raise TaskFailure("\n".join(lines), retry=True, exit_code=code)

    def on_kill(self) -> None:
        """End the application, on this machine or on the cluster. Not called while the task is deferred."""
        if self._recorded is not None:
            place, attempt_id = self._recorded
            # What the storage does not take now, the kill below and the next try make up for.
            with contextlib.suppress(OSError):
                recorded_attempt.cancel(place, Cancellation(by="Airflow", at=now()), attempt=attempt_id)
        if self._submission is not None:
            self._submission.kill()


def cluster_of(connection: SparkConnection, described: Application) -> Yarn | Pods | None:
    """The cluster that runs the driver of an application; None if it cannot be asked, or the driver is on this machine."""
    return Yarn.of(connection) or Pods.of(connection, program(connection, described.python))


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
    if connection.master.startswith("k8s"):
        return PodSubmission(connection, log)
    extras.expect("airflow.providers.apache.spark")
    from tidegate.airflow.cluster_submission import ClusterSubmission

    return ClusterSubmission(connection, log)


def failures(report: RunReport | None) -> list[str]:
    """One line for the error of the whole application, and for each flow that was refused or failed: what and why."""
    if report is None:
        return ["It reported no result; its last lines have the cause."]
    lines = [f"{flow.flow} {flow.state}: {flow.error.message}" for flow in report.flows if flow.error is not None]
    if report.error is not None:
        lines.append(str(report.error.message))
    elif report.ended_at is None:
        running = [flow.flow for flow in report.flows if flow.state == "running"]
        where = f" while flow {running[0]} ran" if running else ""
        lines.append(f"It crashed{where}; its last lines have the cause.")
    return [" ".join(line.split()) for line in lines]


def _succeeded(report: RunReport) -> bool:
    """Whether the application completed, as its driver says by the exit code 0."""
    if report.ended_at is None or report.error is not None:
        return False
    return not any(flow.error is not None and flow.error.transient for flow in report.flows)


def _only_flows_failed(report: RunReport | None) -> bool:
    """Whether the application completed and only single flows failed."""
    if report is None or report.ended_at is None or report.error is not None:
        return False
    return any(flow.state == "failed" for flow in report.flows)
