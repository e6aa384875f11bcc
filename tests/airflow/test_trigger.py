"""The trigger that waits for an application of YARN; `test_cluster_mode.py` has it ask a real one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from devstack.ports import LOOPBACK, free_port
from tests.airflow.in_process import InProcessRun
from tidegate.airflow.cluster import FORGOTTEN, End
from tidegate.airflow.pods import Pods
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submit import RunFlows
from tidegate.airflow.trigger import ApplicationTrigger
from tidegate.airflow.yarn import Yarn
from tidegate.errors import MachineUnavailableError

pytestmark = pytest.mark.airflow

CODE = "its driver ended with exit code "


def _connection(**changed: Any) -> SparkConnection:
    return SparkConnection(conn_id="spark", **{"master": "yarn", "deploy_mode": "cluster", **changed})


def _event(trigger: ApplicationTrigger) -> Any:
    async def first() -> Any:
        return await anext(trigger.run())

    return asyncio.run(first()).payload


def test_only_a_yarn_of_cluster_mode_with_an_address_is_asked() -> None:
    assert Yarn.of(_connection()) is None
    assert Yarn.of(_connection(resource_manager="http://manager:8088", deploy_mode="client")) is None
    assert Yarn.of(_connection(resource_manager="http://manager:8088", master="k8s://https://cluster")) is None
    assert Yarn.of(_connection(resource_manager="manager:8088/")) == Yarn("http://manager:8088")
    secure = _connection(resource_manager="https://manager:8090", principal="etl@X", keytab=b"x")
    assert Yarn.of(secure) == Yarn("https://manager:8090", kerberos=True)


def test_only_a_kubernetes_of_cluster_mode_is_asked() -> None:
    connection = _connection(master="k8s://https://cluster:6443")
    pods = Pods.of(connection, "spark-submit")
    assert pods is not None and pods.address == "https://cluster:6443"
    assert Pods.of(_connection(), "spark-submit") is None
    assert Pods.of(_connection(master="k8s://https://cluster:6443", deploy_mode="client"), "spark-submit") is None


@pytest.mark.parametrize(
    "cluster", [Yarn("http://manager:8088", kerberos=True), Pods("k8s://https://cluster:6443", "/opt/spark-submit")]
)
def test_a_trigger_is_made_again_of_what_airflow_stores(cluster: Yarn | Pods) -> None:
    path, arguments = ApplicationTrigger.of(cluster, "application_1_0001").serialize()
    assert path == "tidegate.airflow.trigger.ApplicationTrigger"
    again = ApplicationTrigger(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)


def test_a_resource_manager_that_does_not_answer_is_asked_again_and_then_given_up() -> None:
    address = f"http://{LOOPBACK}:{free_port()}"
    with pytest.raises(MachineUnavailableError, match="does not answer"):
        Yarn(address).end("application_1_0001")
    trigger = ApplicationTrigger(
        kind="yarn",
        cluster={"address": address},
        application="application_1_0001",
        poll_seconds=0.1,
        patience_seconds=0.2,
    )
    event = _event(trigger)
    assert event["application"] == "application_1_0001" and "does not answer" in event["error"]


def test_a_try_whose_resource_manager_does_not_answer_is_tried_again() -> None:
    from dags.flights import dag

    run, task = InProcessRun(dag), dag.task_dict["run"]
    assert isinstance(task, RunFlows)
    event = {"application": "application_1_0001", "error": "YARN's resource manager at http://x does not answer"}
    assert run._end(task, lambda context: task.complete(context, event)) == "up for retry"
    assert "Application application_1_0001 may run" in run.message


@pytest.mark.parametrize(
    ("output", "end"),
    [
        ("\t phase: Running\n\t\t exit code: N/A\n", None),
        ("\t phase: Pending\n", None),
        ("\t phase: Succeeded\n\t\t exit code: 0\n", End(state="Succeeded", succeeded=True, diagnostics=CODE + "0")),
        ("\t phase: Failed\n\t\t exit code: 75\n", End(state="Failed", diagnostics=CODE + "75")),
        ("\t phase: Failed\n", End(state="Failed")),
        ("No applications found.\n", End(state=FORGOTTEN)),
    ],
)
def test_a_pod_is_as_spark_submit_says(tmp_path: Path, output: str, end: End | None) -> None:
    program = tmp_path / "spark-submit"
    (tmp_path / "output").write_text(output)
    program.write_text(f"#!/bin/sh\necho Submitting a request; cat {tmp_path}/output\n")
    program.chmod(0o755)
    assert Pods("k8s://https://cluster:6443", str(program)).end("etl:driver") == end


@pytest.mark.parametrize("script", ["exit 1", "echo 'java.net.ConnectException: refused'", "echo nothing"])
def test_an_api_server_that_does_not_answer_is_a_transient_error(tmp_path: Path, script: str) -> None:
    program = tmp_path / "spark-submit"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(MachineUnavailableError, match="API server of Kubernetes at https://cluster:6443 does not"):
        Pods("k8s://https://cluster:6443", str(program)).end("etl:driver")


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (End(state="FINISHED", result="SUCCEEDED", succeeded=True), "with state FINISHED and result SUCCEEDED"),
        (End(state="FAILED", diagnostics="\nAM Container exited with 75\nat x.y\n"), "with state FAILED: AM Container exited with 75"),
        (End(state="KILLED"), "ended with state KILLED"),
        (End(state=FORGOTTEN), "The cluster does not know application application_1_0001 any more."),
    ],
)  # fmt: skip
def test_the_end_of_an_application_is_one_line(end: End, line: str) -> None:
    described = end.describe("application_1_0001")
    assert line in described and "\n" not in described
