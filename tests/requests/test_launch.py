"""The settings for spark-submit: network addresses, class path of executors, umask."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.environment import Environment, references
from tidegate.errors import SetupError
from tidegate.requests.launch import command, jar_sets, submit_conf, submit_environment
from tidegate.requests.request import RunRequest
from tidegate.runtime import jars
from tidegate.spec import Resources

# These tests need the jars that set-up downloads, but no JVM.
pytestmark = pytest.mark.jvm

HERE = Environment.read({"TIDEGATE_PROJECT": str(Path(__file__).parents[2])})


@pytest.mark.parametrize("master", ["local[2]", "local", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_spark_on_this_machine_listens_on_loopback(master: str) -> None:
    conf = submit_conf(HERE, small=False, master=master)
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert submit_environment(HERE, master=master)["SPARK_LOCAL_IP"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["yarn", "spark://master:7077", "k8s://https://cluster:6443"])
def test_executors_of_other_machines_can_reach_the_driver_and_get_its_jars_and_its_code(master: str) -> None:
    conf = submit_conf(HERE, small=False, master=master)
    assert {"spark.driver.host", "spark.driver.bindAddress"} & set(conf) == set()
    class_path = conf["spark.driver.extraClassPath"].split(os.pathsep)
    assert conf["spark.jars"].split(",") == [*class_path, str(jars.OWN_JAR)]
    assert conf["spark.executorEnv.PYTHONPATH"] == "tidegate-project"
    assert "spark.executor.extraClassPath" not in conf, "the cache may be elsewhere on their machine"
    assert "SPARK_LOCAL_IP" not in submit_environment(HERE, master=master)


def test_executors_of_a_cluster_may_have_another_python_than_the_driver() -> None:
    set_there = Environment.read({**HERE.variables(), "TIDEGATE_EXECUTOR_PYTHON": "/opt/executors/bin/python"})
    for master, python in (("spark://master:7077", "/opt/executors/bin/python"), ("local[2]", sys.executable)):
        conf = submit_conf(set_there, small=False, master=master)
        assert (conf["spark.pyspark.python"], conf["spark.pyspark.driver.python"]) == (python, sys.executable)


def test_executors_get_the_names_of_sources_of_credentials_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    set_here = {
        "AWS_ACCESS_KEY_ID": "canary",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "canary",
        "AWS_PROFILE": "etl",
        "AWS_SHARED_CREDENTIALS_FILE": "/run/keys",
        "AWS_ENDPOINT_URL_S3": "https://storage:9000",
    }
    for name, value in set_here.items():
        monkeypatch.setenv(name, value)
    cluster = {"TIDEGATE_PROJECT": str(HERE.project), "TIDEGATE_LAKE": "s3://bucket/lake", "TIDEGATE_MASTER": "yarn"}
    for source in ("profile", "environment"):
        conf = submit_conf(Environment.read({**cluster, "TIDEGATE_S3_CREDENTIALS": source}), small=True)
        given = {name.removeprefix("spark.executorEnv."): conf[name] for name in conf if "executorEnv" in name}
        named = {"AWS_PROFILE": "etl", "AWS_SHARED_CREDENTIALS_FILE": "/run/keys"} if source == "profile" else {}
        assert given == {
            "PYTHONPATH": "tidegate-project",
            "TIDEGATE_S3_CREDENTIALS": source,
            "AWS_ENDPOINT_URL_S3": "https://storage:9000",
            "AWS_REGION": "us-east-1",
            **named,
        }
        assert "canary" not in str(conf)
        assert len(set(conf["spark.jars"].split(","))) > len(conf["spark.driver.extraClassPath"].split(os.pathsep))


def test_only_large_runs_keep_generated_code_in_methods_that_the_jvm_compiles() -> None:
    limit = "spark.sql.codegen.hugeMethodLimit"
    assert submit_conf(HERE, small=False)[limit] == "8000"
    assert limit not in submit_conf(HERE, small=True)


def test_the_default_master_is_that_of_the_environment() -> None:
    cluster = replace(HERE, master="spark://master:7077")
    assert submit_conf(cluster, small=False) == submit_conf(HERE, small=False, master="spark://master:7077")
    assert "SPARK_LOCAL_IP" not in submit_environment(cluster)


def test_the_command_asks_for_what_the_pipeline_declares() -> None:
    cluster, request = replace(HERE, master="spark://master:7077"), RunRequest(dag_id="orders", run_id="r1")
    words = command(cluster, request, "q1", "a1", Resources(driver_memory="3g", executors=2, executor_cores=2))
    settings = ["spark.driver.memory=3g", "spark.executor.instances=2", "spark.executor.cores=2", "spark.cores.max=4"]
    assert [each for each in settings if each not in words] == []
    assert "spark.driver.memory=2g" in command(cluster, request, "q1", "a1")


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_spark_gets_the_umask_of_the_process_which_is_not_changed(mask: int) -> None:
    before = os.umask(mask)
    try:
        assert submit_conf(HERE, small=False)["spark.hadoop.fs.permissions.umask-mode"] == f"{mask:03o}"
        assert os.umask(mask) == mask
    finally:
        os.umask(before)


@pytest.mark.parametrize(("lake", "landing"), [("s3://bucket/lake", "/landing"), ("/lake", "s3://bucket/landing")])
def test_a_job_with_a_bucket_commits_under_conditions_and_without_one_loads_nothing_for_it(
    lake: str, landing: str
) -> None:
    located = {"TIDEGATE_PROJECT": str(HERE.project), "TIDEGATE_LAKE": lake, "TIDEGATE_LANDING": landing}
    conf = submit_conf(Environment.read(located), small=True)
    assert conf["spark.delta.logStore.s3.impl"] == conf["spark.delta.logStore.s3a.impl"]
    assert all(Path(jar).exists() for jar in conf["spark.jars"].split(","))
    assert ("spark.sql.streaming.checkpointFileManagerClass" in conf) == lake.startswith("s3:")
    added = set(conf) - set(submit_conf(HERE, small=True))
    assert {name for name in submit_conf(HERE, small=True) if "s3" in name} == set()
    assert "spark.hadoop.fs.s3a.endpoint" in added
    assert submit_conf(HERE, small=True)["spark.jars"] == str(jars.OWN_JAR)


@pytest.mark.parametrize("lake", ["/lake", "s3://bucket/lake"])
def test_a_job_with_a_cluster_of_msk_has_the_signer_of_aws_and_its_region(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    located = {**os.environ, "TIDEGATE_PROJECT": str(HERE.project), "TIDEGATE_LAKE": lake}
    iam = {"TIDEGATE_KAFKA__MSK": "b:9098", "TIDEGATE_KAFKA__MSK__SECURITY": "SASL_SSL"}
    environment = Environment.read(located | iam | {"TIDEGATE_KAFKA__MSK__MECHANISM": "AWS_MSK_IAM"})
    assert jar_sets(environment) == ("spark", "s3", "msk")
    conf = submit_conf(environment, small=True)
    names = [Path(jar).name for jar in conf["spark.jars"].split(",")]
    assert len(names) == len(set(names)) and {"aws-msk-iam-auth-2.3.2.jar", "auth-2.35.4.jar"} < set(names)
    assert "tidegate.jar" in names
    assert submit_environment(environment)["AWS_REGION"] == conf["spark.executorEnv.AWS_REGION"] == "eu-west-1"


def test_a_job_with_a_bucket_has_its_region_by_the_name_that_java_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    located = {"TIDEGATE_PROJECT": str(HERE.project), "TIDEGATE_LAKE": "s3://bucket/lake"}
    assert submit_environment(Environment.read(located))["AWS_REGION"] == "eu-west-1"
    assert "AWS_REGION" not in submit_environment(HERE)


def test_a_job_gets_the_secret_of_a_connection_of_airflow_as_a_variable_and_a_reference_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = "TIDEGATE_KAFKA__EVENTS"
    own = {start: "a:1", f"{start}__SECURITY": "SASL_SSL", f"{start}__MECHANISM": "PLAIN", f"{start}__USER": "tide"}
    own |= {f"{start}__PASSWORD": "airflow-connection:events", "TIDEGATE_PROJECT": str(HERE.project)}
    with monkeypatch.context() as patch:
        patch.setitem(references._KINDS, "airflow-connection", lambda name, connection: f"canary of {connection}")
        passed = submit_environment(Environment.read(own))
    assert passed["TIDEGATE_SECRET__KAFKA__EVENTS__PASSWORD"] == "canary of events"
    monkeypatch.setenv("TIDEGATE_SECRET__KAFKA__EVENTS__PASSWORD", "canary of events")
    cluster = Environment.read(passed).cluster("events")
    assert cluster.librdkafka()["sasl.password"] == "canary of events"
    assert 'password="${env:TIDEGATE_SECRET__KAFKA__EVENTS__PASSWORD}"' in cluster.java(17)["sasl.jaas.config"]
    assert "canary" not in str(submit_conf(Environment.read(own), small=True))


def test_each_secret_that_may_be_in_a_connection_reaches_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(references._KINDS, "airflow-connection", lambda name, connection: f"canary of {connection}")
    own = {"TIDEGATE_PROJECT": str(HERE.project), "TIDEGATE_REGISTRY": "https://registry"}
    for name in ("PASSWORD", "CA", "KEY_PASSWORD"):
        own[f"TIDEGATE_REGISTRY_{name}"] = f"airflow-connection:{name.lower()}"
    passed = submit_environment(Environment.read(own))
    for name in ("PASSWORD", "CA", "KEY_PASSWORD"):
        assert passed[f"TIDEGATE_REGISTRY_{name}"] == f"env:TIDEGATE_SECRET__REGISTRY_{name}"
        assert passed[f"TIDEGATE_SECRET__REGISTRY_{name}"] == f"canary of {name.lower()}"


def test_a_connection_that_is_not_there_stops_only_the_flows_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, connection: str) -> str:
        raise SetupError(f"{name}: there is no connection {connection}")

    monkeypatch.setitem(references._KINDS, "airflow-connection", missing)
    password = "TIDEGATE_KAFKA__EVENTS__PASSWORD"
    own = {"TIDEGATE_PROJECT": str(HERE.project), password: "airflow-connection:events"}
    passed = submit_environment(Environment.read(own))
    assert passed[password] == "airflow-connection:events"
    assert not [name for name in passed if name.startswith("TIDEGATE_SECRET__")]
