"""How `run` starts and ends the application: the command, the environment, the processes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from pipelines.flights import pipeline
from tidegate.airflow import submit
from tidegate.airflow.failure import TaskFailure
from tidegate.airflow.submit import RunFlows, SubmitHook, without_secrets

pytestmark = pytest.mark.airflow


def _connection(monkeypatch: pytest.MonkeyPatch, host: str, **extra: str) -> None:
    connection = {"conn_type": "spark", "host": host, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


def _hook() -> Any:
    run = RunFlows(label=pipeline.name, task_id="run")
    run.conf = {"spark.driver.memory": "2g"}
    run.env_vars = {"TIDEGATE_LAKE": "/lake"}
    run.application_args = ["--attempt", "a1"]
    return run._get_hook()


def test_a_local_command_contains_only_ids_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    _connection(monkeypatch, "local[2]", **{"deploy-mode": "client"})
    command = _hook()._build_spark_submit_command("run_pipeline.py")
    assert command[:3] == ["spark-submit", "--master", "local[2]"]
    assert command[command.index("--conf") + 1] == "spark.driver.memory=2g"
    assert command[-3:] == ["run_pipeline.py", "--attempt", "a1"]


def test_on_a_standalone_cluster_the_driver_runs_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    _connection(monkeypatch, "spark://master:7077", **{"deploy-mode": "client"})
    command = _hook()._build_spark_submit_command("run_pipeline.py")
    assert command[1:3] == ["--master", "spark://master:7077"]
    assert command[command.index("--deploy-mode") + 1] == "client"


def test_cluster_mode_on_a_standalone_cluster_is_refused_with_the_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    _connection(monkeypatch, "spark://master:7077", **{"deploy-mode": "cluster"})
    with pytest.raises(TaskFailure, match="client mode"):
        _hook()


@pytest.mark.parametrize("address", [None, "http://rm:8088"])
def test_yarn_gets_the_environment_and_is_tracked_if_possible(
    monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    extra = {"deploy-mode": "cluster"} | ({"yarn_resourcemanager_webapp_address": address} if address else {})
    _connection(monkeypatch, "yarn", **extra)
    hook = _hook()
    command = hook._build_spark_submit_command("run_pipeline.py")
    assert command[1:3] == ["--master", "yarn"]
    assert "spark.yarn.appMasterEnv.TIDEGATE_LAKE=/lake" in command
    assert ("spark.yarn.submit.waitAppCompletion=false" in command) is (address is not None)


def test_kubernetes_without_its_package_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    _connection(monkeypatch, "k8s://https://cluster:6443", **{"deploy-mode": "cluster", "namespace": "etl"})
    with pytest.raises(TaskFailure, match="apache-airflow-providers-cncf-kubernetes"):
        _hook()


def test_a_missing_connection_is_an_error_and_not_yarn(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    with pytest.raises(TaskFailure, match="spark_default"):
        _hook()


def test_secrets_of_airflow_are_removed() -> None:
    variables = without_secrets(
        {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://user:word@db",
            "AIRFLOW_CONN_SPARK_DEFAULT": "{}",
            "AIRFLOW_VAR_TOKEN": "x",
            "AIRFLOW_CTX_DAG_ID": "flights",
            "JAVA_HOME": "/java",
        }
    )
    assert variables == {"AIRFLOW_CTX_DAG_ID": "flights", "JAVA_HOME": "/java"}


def test_the_process_runs_without_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark_submit: Any) -> None:
    path = tmp_path / "environment.json"
    spark_submit(f"import json; pathlib.Path({str(path)!r}).write_text(json.dumps(dict(os.environ)))")
    monkeypatch.setenv("AIRFLOW_VAR_TOKEN", "x")
    hook = _hook()
    hook._application_args = ["--dag-id", "flights", "--run-key", "k", "--attempt", "a1", "--request", "q1"]
    hook.submit("run_pipeline.py")
    variables = json.loads(path.read_text())
    assert variables["TIDEGATE_LAKE"] == "/lake"
    assert [name for name in variables if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))] == []


def test_a_failed_application_raises_so_that_the_retry_policy_is_evaluated(spark_submit: Any) -> None:
    spark_submit("sys.exit(75)")
    hook = _hook()
    hook._application_args = ["--dag-id", "flights", "--run-key", "k", "--attempt", "a1", "--request", "q1"]
    with pytest.raises(AirflowException, match="Error code is: 75"):
        hook.submit("run_pipeline.py")


def test_the_output_of_an_application_is_closed_when_it_has_ended(spark_submit: Any) -> None:
    spark_submit("print('a line of its log')")
    hook = _hook()
    hook._application_args = ["--dag-id", "flights", "--run-key", "k", "--attempt", "a1", "--request", "q1"]
    hook.submit("run_pipeline.py")
    assert hook._submit_sp is not None
    assert hook._submit_sp.stdout is not None
    assert hook._submit_sp.stdout.closed


def test_an_application_ends_before_airflow_kills_its_task() -> None:
    assert submit.GRACE_SECONDS + submit._KILL_SECONDS < 5, "Airflow kills the task 5 s after SIGTERM"


def test_killing_the_task_ends_the_application(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark_submit: Any
) -> None:
    pids = tmp_path / "pid"
    spark_submit(f"pathlib.Path({str(pids)!r}).write_text(str(os.getpid())); time.sleep(3600)")
    run = RunFlows(label=pipeline.name, task_id="run")
    run.application_args = ["--dag-id", "flights", "--run-key", "k", "--attempt", "a1", "--request", "q1"]
    run._hook = run._get_hook()

    def kill_when_up(*_: object) -> None:
        if pids.exists() and pids.read_text():
            run.on_kill()
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.1)

    before = signal.signal(signal.SIGALRM, kill_when_up)
    try:
        # As in Airflow, a signal handler calls on_kill while execute waits.
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(AirflowException):
            run._hook.submit("run_pipeline.py")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


def test_on_kill_before_a_submission_does_nothing() -> None:
    RunFlows(label=pipeline.name, task_id="run").on_kill()


def test_the_operator_uses_our_hook() -> None:
    assert isinstance(_hook(), SubmitHook)
