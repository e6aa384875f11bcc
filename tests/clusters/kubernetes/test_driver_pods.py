"""Drivers that a real Kubernetes starts in pods, submitted as tasks of Airflow do: alone, and with executors."""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass

import pytest

from tests.clusters.kinds import Kinds
from tests.kubernetes import NAMESPACE, Kubernetes
from tests.waiting import wait_until
from tidegate.airflow.cluster import FORGOTTEN, End
from tidegate.airflow.pod_submission import PodSubmission
from tidegate.airflow.pods import Pods
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submission import Application, program
from tidegate.environment import Environment
from tidegate.requests import launch
from tidegate.requests.request import fresh_id
from tidegate.requests.resources import allocation
from tidegate.spec import Resources

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(1800)]

OF_PODS = ("AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE")
"""What their template has."""
OF_EXECUTORS = ("TIDEGATE_EXECUTORS", "TIDEGATE_EXECUTOR_MEMORY", "TIDEGATE_EXECUTOR_PYTHON")


@dataclass
class Submitted:
    """A run of the pipeline whose driver is in a pod."""

    cluster: Kubernetes
    pods: Pods
    application: str

    @property
    def pod(self) -> str:
        """The name of the pod."""
        return self.application.rpartition(":")[2]

    def is_alive(self) -> bool:
        """Whether the driver waits or runs, as the API server says."""
        return self.cluster.drivers().get(self.pod) in ("Pending", "Running")

    def wait(self) -> End:
        """How the driver ended, as the trigger of the task asks."""
        while (end := self.pods.end(self.application)) is None:
            time.sleep(1)
        return end


def submit(kinds: Kinds, cluster: Kubernetes, resources: Resources) -> Submitted:
    """Submit a run of the pipeline, as a task of Airflow does."""
    variables = {**os.environ, **kinds.variables}
    env = [{"name": name, "value": variables[name]} for name in OF_PODS]
    template = kinds.deployment.folder / "pod.json"
    spec = {"containers": [{"name": "spark", "env": env}]}
    template.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": spec}))
    own = {"TIDEGATE_POD_TEMPLATE": str(template), "TIDEGATE_MASTER": cluster.variables["TIDEGATE_MASTER"]}
    environment = Environment.read({key: text for key, text in variables.items() if key not in OF_EXECUTORS} | own)
    request = kinds.request()
    granted = allocation(environment, resources, driver_on_cluster=True)
    application = Application(
        name="tidegate-kinds",
        script=launch.application(),
        arguments=launch.arguments(request, request.write(kinds.deployment.layout), fresh_id("a")),
        conf=launch.submit_conf(environment, small=False, resources=granted),
        variables=launch.submit_environment(environment),
        python=environment.job_python,
    )
    connection = SparkConnection(conn_id="t", master=environment.master, deploy_mode="cluster", namespace=NAMESPACE)
    submission = PodSubmission(connection, logging.getLogger(__name__))
    submission.run(application)
    pods = Pods.of(connection, program(connection, environment.job_python))
    assert pods is not None
    return Submitted(cluster, pods, submission.application)


@pytest.fixture(autouse=True)
def settings_of_pods(cluster: Kubernetes, kinds: Kinds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of spark-submit that creates pods of drivers."""
    for name, value in cluster.variables_of_pods.items():
        monkeypatch.setenv(name, value)


def test_one_pod_runs_every_kind_of_flow(kinds: Kinds, cluster: Kubernetes) -> None:
    kinds.land()
    run = submit(kinds, cluster, Resources(driver_cores=2))
    assert run.wait().succeeded, cluster.output_of(run.pod)
    assert kinds.differences(["1"]) == []
    assert list(cluster.pods()) == [run.pod], "there was no executor"
    kinds.deployment.expect_a_balanced_ledger("kinds")


def test_executors_end_with_the_deleted_pod_of_their_driver_and_the_next_one_completes_the_run(
    kinds: Kinds, cluster: Kubernetes
) -> None:
    kinds.land()
    resources = Resources(executors=2, executor_memory="700m")
    with kinds.pausing("events"):
        run = submit(kinds, cluster, resources)
        assert kinds.wait_for("events", run.is_alive).cwd.name in cluster.executors()
        cluster.delete_pod(run.pod)
        assert run.wait().state == FORGOTTEN
        wait_until(lambda: cluster.pods() == {}, "Kubernetes has deleted the executors")
    run = submit(kinds, cluster, resources)
    assert run.wait().succeeded, cluster.output_of(run.pod)
    assert kinds.differences(["1"]) == []
    kinds.deployment.expect_a_balanced_ledger("kinds")

    kinds.forget()
    kinds.land()
    with kinds.pausing("events"):
        run = submit(kinds, cluster, resources)
        kinds.wait_for("events", run.is_alive)
        run.pods.kill(run.application)
        wait_until(lambda: run.pod not in cluster.pods(), "the pod is deleted")
        assert not run.pods.is_alive(run.application)
        run.pods.kill(run.application)
