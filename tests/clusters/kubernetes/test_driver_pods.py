"""Drivers that a real Kubernetes starts in pods, submitted as tasks of Airflow do: alone, and with executors."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.clusters.kinds import Kinds
from tests.kubernetes import NAMESPACE, Kubernetes
from tests.waiting import wait_until
from tidegate.airflow.pod_submission import PodSubmission
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submission import Application, ApplicationError
from tidegate.environment import Environment
from tidegate.requests import launch
from tidegate.requests.request import fresh_id
from tidegate.requests.resources import allocation
from tidegate.spec import Resources

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]

OF_PODS = ("AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE")
"""What their template has."""
OF_EXECUTORS = ("TIDEGATE_EXECUTORS", "TIDEGATE_EXECUTOR_MEMORY", "TIDEGATE_EXECUTOR_PYTHON")


class Submitted:
    """One run of the pipeline, as a task submits it: its driver is in a pod."""

    def __init__(self, kinds: Kinds, cluster: Kubernetes, resources: Resources) -> None:
        variables = {**os.environ, **kinds.variables}
        env = [{"name": name, "value": variables[name]} for name in OF_PODS]
        template = kinds.deployment.folder / "pod.json"
        spec = {"containers": [{"name": "spark", "env": env}]}
        template.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": spec}))
        own = {"TIDEGATE_POD_TEMPLATE": str(template), "TIDEGATE_MASTER": cluster.variables["TIDEGATE_MASTER"]}
        environment = Environment.read({key: text for key, text in variables.items() if key not in OF_EXECUTORS} | own)
        request = kinds.request()
        granted = allocation(environment, resources, driver_on_cluster=True)
        self._application = Application(
            name="tidegate-kinds",
            script=launch.application(),
            arguments=launch.arguments(request, request.write(kinds.deployment.layout), fresh_id("a")),
            conf=launch.submit_conf(environment, small=False, resources=granted),
            variables=launch.submit_environment(environment),
            python=environment.job_python,
        )
        connection = SparkConnection(conn_id="t", master=environment.master, deploy_mode="cluster", namespace=NAMESPACE)
        self.submission = PodSubmission(connection, logging.getLogger(__name__))
        self.error: ApplicationError | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.submission.run(self._application)
        except ApplicationError as error:
            self.error = error

    def wait(self) -> ApplicationError | None:
        """How it ended."""
        self.thread.join()
        return self.error


@pytest.fixture(autouse=True)
def settings_of_pods(cluster: Kubernetes, kinds: Kinds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of spark-submit that creates pods of drivers."""
    for name, value in cluster.variables_of_pods.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def submit(kinds: Kinds, cluster: Kubernetes) -> Iterator[Callable[[Resources], Submitted]]:
    """Starts a run with some resources. What still runs at the end is ended."""
    runs: list[Submitted] = []

    def start(resources: Resources) -> Submitted:
        runs.append(Submitted(kinds, cluster, resources))
        runs[-1].thread.start()
        return runs[-1]

    yield start
    for run in runs:
        if run.thread.is_alive():
            run.submission.kill()
            run.wait()


def test_one_pod_runs_every_kind_of_flow(
    kinds: Kinds, cluster: Kubernetes, submit: Callable[[Resources], Submitted]
) -> None:
    kinds.land()
    run = submit(Resources(driver_cores=2))
    assert run.wait() is None, cluster.output_of(run.submission.pod)
    assert kinds.differences(["1"]) == []
    assert cluster.drivers() == {run.submission.pod: "Succeeded"}
    assert list(cluster.pods()) == [run.submission.pod]
    kinds.deployment.expect_a_balanced_ledger("kinds")


def test_pods_of_executors_end_with_a_deleted_driver_and_the_next_one_completes_the_run(
    kinds: Kinds, cluster: Kubernetes, submit: Callable[[Resources], Submitted]
) -> None:
    kinds.land()
    resources = Resources(executors=2, executor_memory="700m")
    with kinds.pausing("events"):
        run = submit(resources)
        worked = kinds.wait_for("events", run.thread.is_alive).cwd.name
        assert worked in cluster.executors()
        cluster.delete_pod(run.submission.pod)
        error = run.wait()
        assert error is not None and f"pod {run.submission.pod} of the driver is gone" in str(error)
        wait_until(lambda: cluster.pods() == {}, "Kubernetes has deleted the executors")
    following = submit(resources)
    assert following.wait() is None, cluster.output_of(following.submission.pod)
    assert kinds.differences(["1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")

    kinds.land()
    with kinds.pausing("history"):
        killed = submit(resources)
        kinds.wait_for("history", killed.thread.is_alive, but=[note.pid for note in kinds.noted("history")])
        killed.submission.kill()
        assert killed.wait() is not None
        wait_until(lambda: killed.submission.pod not in cluster.pods(), "spark-submit has deleted the pod")
