"""How `run` starts and ends the application: the command, the environment, the processes."""

from __future__ import annotations

import base64
import dataclasses
import importlib.util
import json
import logging
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipelines.flights import pipeline
from tests.airflow.in_process import InProcessRun
from tidegate.airflow import submission, submit
from tidegate.airflow.failure import TaskFailure
from tidegate.airflow.pod_submission import PodSubmission
from tidegate.airflow.spark_connection import SparkConnection
from tidegate.airflow.submission import Application, ApplicationError, without_secrets
from tidegate.airflow.submit import RunFlows
from tidegate.checkpoints import recorded_attempt
from tidegate.errors import SetupError
from tidegate.lake.layout import Layout
from tidegate.lake.place import RunPlace
from tidegate.requests.launch import SECRET
from tidegate.runtime import job_environment
from tidegate.spec import Resources

pytestmark = pytest.mark.airflow


def _connection(monkeypatch: pytest.MonkeyPatch, host: str, **extra: str) -> None:
    connection = {"conn_type": "spark", "host": host, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


def _application(**changed: Any) -> Application:
    application = Application(
        name="tidegate-flights",
        script=Path("run_pipeline.py"),
        arguments=["--dag-id", "flights", "--run-key", "k", "--attempt", "a1", "--request", "q1"],
        conf={"spark.driver.memory": "2g"},
        variables={"TIDEGATE_LAKE": "/lake"},
        python=Path(sys.executable),
    )
    return dataclasses.replace(application, **changed)


def _submission() -> Any:
    return submit.submission(SparkConnection.read("spark_default"), logging.getLogger("tidegate.test"))


def _after(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


@pytest.mark.parametrize(
    ("host", "extra"),
    [
        ("local[2]", {"deploy-mode": "client"}),
        ("local[2]", {}),
        ("spark://master:7077", {"deploy-mode": "client"}),
        ("yarn", {"deploy-mode": "client"}),
        ("k8s://https://cluster:6443", {"deploy-mode": "client"}),
    ],
)
def test_in_client_mode_spark_submit_of_the_jobs_environment_gets_the_ids_and_settings(
    monkeypatch: pytest.MonkeyPatch, host: str, extra: dict[str, str]
) -> None:
    _connection(monkeypatch, host, **extra)
    command = _submission().command(_application())
    assert command[:3] == [str(job_environment.spark_home() / "bin/spark-submit"), "--master", host]
    assert (_after(command, "--conf"), _after(command, "--deploy-mode")) == ("spark.driver.memory=2g", "client")
    assert _after(command, "--name") == "tidegate-flights"
    assert command[-9:] == ["run_pipeline.py", *_application().arguments]


@pytest.mark.parametrize(
    ("uri", "master"),
    [
        ("spark://master:7077", "spark://master:7077"),
        ("k8s://cluster:6443", "k8s://cluster:6443"),
        ("generic://local", "local"),
    ],
)
def test_a_connection_may_be_a_uri_and_needs_no_type_of_a_provider(
    monkeypatch: pytest.MonkeyPatch, uri: str, master: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", uri)
    assert SparkConnection.read("spark_default").master == master


def test_queue_namespace_and_the_identity_of_kerberos_are_those_of_the_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark_submit: Any
) -> None:
    path = tmp_path / "seen"
    spark_submit(
        f"""
keytab = pathlib.Path(sys.argv[sys.argv.index("--keytab") + 1])
pathlib.Path({str(path)!r}).write_text(f"{{keytab}} {{keytab.read_text()}} {{keytab.stat().st_mode & 0o777:o}}")
"""
    )
    options = {
        "principal": "etl@X",
        "keytab": base64.b64encode(b"secret").decode(),
        "queue": "night",
        "namespace": "etl",
    }
    _connection(monkeypatch, "k8s://https://cluster:6443", **options, **{"spark-binary": "spark3-submit"})
    submission = _submission()
    command = submission.command(_application())
    assert (_after(command, "--principal"), _after(command, "--queue")) == ("etl@X", "night")
    assert "spark.kubernetes.namespace=etl" in command
    submission.run(_application())
    keytab, content, mode = path.read_text().split()
    assert (content, mode, Path(keytab).exists()) == ("secret", "600", False)


@pytest.mark.parametrize(
    ("host", "extra", "message"),
    [
        ("spark://master:7077", {"deploy-mode": "cluster"}, "client mode"),
        ("local[2]", {"deploy-mode": "cluster"}, "client mode"),
        ("local[2]", {"deploy-mode": "clutser"}, "one of client, cluster"),
        ("local[2]", {"spark-binary": "bash"}, "one of spark-submit"),
        ("local[2]", {"spark-binary": "spark2-submit"}, "no folder of the PATH has this program"),
        ("yarn", {"keytab": "not base64"}, "keytab in base64"),
    ],
)
def test_what_cannot_be_submitted_is_refused_with_the_correction(
    monkeypatch: pytest.MonkeyPatch, host: str, extra: dict[str, str], message: str
) -> None:
    _connection(monkeypatch, host, **extra)
    with pytest.raises(TaskFailure, match=message):
        _submission().command(_application())


def test_cluster_mode_without_the_provider_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _connection(monkeypatch, "yarn", **{"deploy-mode": "cluster"})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=re.escape("tidegate[cluster]")):
        _submission()


@pytest.mark.parametrize("address", [None, "http://rm:8088"])
def test_yarn_gets_the_environment_and_is_tracked_if_possible(
    monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    from tidegate.airflow.cluster_submission import ClusterSubmission, _Hook

    extra = {"deploy-mode": "cluster"} | ({"yarn_resourcemanager_webapp_address": address} if address else {})
    _connection(monkeypatch, "yarn", **extra)
    assert isinstance(_submission(), ClusterSubmission)
    hook = _Hook(SparkConnection.read("spark_default"), _application())
    command = hook._build_spark_submit_command("run_pipeline.py")
    assert command[:3] == [str(job_environment.spark_home() / "bin/spark-submit"), "--master", "yarn"]
    assert "spark.yarn.appMasterEnv.TIDEGATE_LAKE=/lake" in command
    assert "spark.yarn.maxAppAttempts=1" in command
    assert ("spark.yarn.submit.waitAppCompletion=false" in command) is (address is not None)


def test_a_driver_in_a_pod_gets_paths_of_its_image_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    _connection(monkeypatch, "k8s://https://cluster:6443", **{"deploy-mode": "cluster"})
    submission = _submission()
    assert isinstance(submission, PodSubmission)
    given = _application()
    command = submission.command(dataclasses.replace(given, variables={**given.variables, f"{SECRET}A": "canary"}))
    assert "local://run_pipeline.py" in command
    assert f"spark.kubernetes.driver.pod.name={submission.application}" in command
    assert "spark.kubernetes.driverEnv.TIDEGATE_LAKE=/lake" in command
    assert "canary" not in " ".join(command)


def test_a_missing_connection_is_an_error_and_not_yarn(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    with pytest.raises(TaskFailure, match="spark_default"):
        _submission()


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
    _submission().run(_application(python=Path("/opt/jobs/bin/python")))
    variables = json.loads(path.read_text())
    assert variables["TIDEGATE_LAKE"] == "/lake"
    assert variables["PATH"].startswith("/opt/jobs/bin:")
    assert [name for name in variables if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))] == []


def test_a_failed_application_raises_its_exit_code(spark_submit: Any) -> None:
    spark_submit("sys.exit(75)")
    with pytest.raises(ApplicationError) as raised:
        _submission().run(_application())
    assert raised.value.code == 75


def test_the_output_of_an_application_is_logged_and_closed_when_it_has_ended(
    spark_submit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    spark_submit("print('a line of its log'); sys.stdout.flush(); os.write(1, bytes([0xff, 10]))")
    submission = _submission()
    with caplog.at_level(logging.INFO):
        submission.run(_application())
    assert "a line of its log" in caplog.messages
    assert submission._process.stdout.closed


def test_what_an_application_leaves_behind_ends_with_it(tmp_path: Path, spark_submit: Any) -> None:
    pids = tmp_path / "pid"
    spark_submit(
        f"import subprocess; child = subprocess.Popen(['sleep', '3600'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        f"pathlib.Path({str(pids)!r}).write_text(str(child.pid))"
    )
    _submission().run(_application())
    assert not psutil.pid_exists(int(pids.read_text())) or psutil.Process(int(pids.read_text())).status() == "zombie"


def test_an_application_ends_before_airflow_kills_its_task() -> None:
    assert submission.GRACE_SECONDS + submission.KILL_SECONDS < 5, "Airflow kills the task 5 s after SIGTERM"


def test_killing_the_task_ends_the_application(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark_submit: Any
) -> None:
    pids = tmp_path / "pid"
    spark_submit(f"pathlib.Path({str(pids)!r}).write_text(str(os.getpid())); time.sleep(3600)")
    run = RunFlows(label=pipeline.name, task_id="run")
    run._submission = _submission()

    def kill_when_up(*_: object, **__: object) -> None:
        if pids.exists() and pids.read_text():
            run.on_kill()
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.1)

    before = signal.signal(signal.SIGALRM, kill_when_up)
    try:
        # As in Airflow, a signal handler calls on_kill while execute waits.
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(ApplicationError):
            run._submission.run(_application())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


def test_connection_and_pool_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RunFlows(label=pipeline.name, task_id="run").pool == "default_pool"
    monkeypatch.setenv("TIDEGATE_POOL", "spark")
    assert RunFlows(label=pipeline.name, task_id="run").pool == "spark"


def test_on_kill_before_a_submission_does_nothing() -> None:
    RunFlows(label=pipeline.name, task_id="run").on_kill()


def test_a_task_that_is_killed_while_it_submits_to_a_cluster_cancels_its_attempt(tmp_path: Path) -> None:
    place = RunPlace(Layout.local(tmp_path, tmp_path / "landing"), "flights", "manual-1")
    recorded_attempt.claim(place, recorded_attempt.begun("a1", "q1"), None)
    run = RunFlows(label=pipeline.name, task_id="run")
    run._recorded = place, "a1"
    run.on_kill()
    recorded = recorded_attempt.read(place)
    assert recorded is not None and recorded.cancelled is not None
    assert recorded.cancelled.by == "Airflow"


def test_a_task_that_is_killed_before_its_application_has_a_process_ends_it(spark_submit: Any) -> None:
    spark_submit("time.sleep(3600)")
    submission = _submission()
    submission.kill()
    with pytest.raises(ApplicationError):
        submission.run(_application())


def test_the_task_asks_the_master_of_the_connection_for_what_the_pipeline_declares(
    monkeypatch: pytest.MonkeyPatch, project_dir: Path, spark_submit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from dags.flights import dag

    path = project_dir / ".data/landing/flights/2013-01-01.csv"
    path.parent.mkdir()
    path.write_text("year,month,day\n2013,1,1\n")
    spark_submit(f"pathlib.Path({str(project_dir / 'words')!r}).write_text('\\n'.join(sys.argv))")
    _connection(monkeypatch, "yarn", **{"deploy-mode": "client", "spark-binary": "spark3-submit"})
    monkeypatch.setenv("TIDEGATE_EXECUTOR_MEMORY", "5g")
    declared = Resources(driver_memory="3g", driver_cores=2, executors=2)
    monkeypatch.setattr("pipelines.flights.pipeline", dataclasses.replace(pipeline, resources=declared))
    run = InProcessRun(dag)
    assert [run.execute("plan"), run.execute("run")] == ["success", "success"]
    words = (project_dir / "words").read_text().splitlines()
    assert {"spark.driver.memory=3g", "spark.executor.instances=2", "spark.executor.memory=5g"} <= set(words)
    says = "requests driver.memory 3g, executor.instances 2, executor.memory 5g from yarn; not applicable there: driver_cores"
    assert says in capsys.readouterr().out
