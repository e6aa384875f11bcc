"""Secrets in connections of Airflow: a driver on the worker gets them, and nothing else of a run has them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.conftest import HOME
from tests.canaries import contains_any, files_containing
from tests.s3_server import REGION, S3Process
from tests.store.identities import IdentityProxy
from tests.store.token_endpoint import TokenEndpoint
from tidegate.airflow import connections
from tidegate.environment import Environment
from tidegate.environment.clusters import DEFAULT
from tidegate.errors import AirflowUnavailableError, SetupError
from tidegate.store.credentials import Credentials
from tidegate.store.objects import ObjectStore

pytestmark = pytest.mark.airflow

BUCKET = {"TIDEGATE_LAKE": "s3://bucket/lake", "TIDEGATE_S3_CREDENTIALS": "airflow-connection:acme"}


def connect(monkeypatch: pytest.MonkeyPatch, name: str = "acme", **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "aws", **fields}))


def test_a_driver_gets_keys_and_passwords_and_no_reference_to_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, login="canary-a", password="canary-s", extra={"aws_session_token": "canary-t"})
    connect(monkeypatch, "registry", password="canary:p@ss")
    registry = {
        "TIDEGATE_REGISTRY": "https://registry:8081",
        "TIDEGATE_REGISTRY_USER": "ada",
        "TIDEGATE_REGISTRY_PASSWORD": "airflow-connection:registry",
        "TIDEGATE_KAFKA__OTHER__REGISTRY": "https://other:8081",
        "TIDEGATE_KAFKA__OTHER__REGISTRY_USER": "bob",
        "TIDEGATE_KAFKA__OTHER__REGISTRY_PASSWORD": "airflow-connection:registry",
    }
    environment = Environment.read({**BUCKET, **registry})
    server = environment.schema_registry(DEFAULT)
    assert server is not None and server.credentials() == ("ada", "canary:p@ss")
    driver, secrets = connections.for_driver(environment)
    assert not contains_any(f"{driver} {driver.variables()}", ["canary"])
    # Alerts are sent by a task.
    shown = {name: text for name, text in driver.variables().items() if name != "TIDEGATE_ALERTS"}
    assert not contains_any(str(shown), ["airflow-connection"])
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    in_job = Environment.read({**driver.variables(), **secrets})
    for cluster, user in ((DEFAULT, "ada"), ("other", "bob")):
        own = in_job.schema_registry(cluster)
        assert own is not None and own.credentials() == (user, "canary:p@ss")
    store = in_job.store_of(in_job.lake_at)
    assert isinstance(store, ObjectStore)
    assert store.server.credentials.name == "environment"
    assert store.server.credentials.get() == Credentials("canary-a", "canary-s", "canary-t")


def test_a_driver_gets_passwords_of_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "kafka", password="canary-k")
    own = {
        "TIDEGATE_KAFKA__PAYMENTS": "a:1",
        "TIDEGATE_KAFKA__PAYMENTS__PASSWORD": "airflow-connection:kafka",
        "TIDEGATE_KAFKA__PAYMENTS__KEY_PASSWORD": "env:OTHER",
    }
    driver, secrets = connections.for_driver(Environment.read(own))
    assert secrets == {"TIDEGATE_KAFKA__PAYMENTS__PASSWORD_VALUE": "canary-k"}
    assert dict(driver.kafka_settings) == {
        "kafka.payments.servers": "a:1",
        "kafka.payments.password": "env:TIDEGATE_KAFKA__PAYMENTS__PASSWORD_VALUE",
        "kafka.payments.key_password": "env:OTHER",
    }


def test_what_nothing_needs_is_not_read() -> None:
    environment = Environment.read({**BUCKET, "TIDEGATE_LAKE": ""})
    assert connections.for_driver(environment) == (environment, {})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"login": "canary", "password": "canary", "extra": {"role_arn": "arn:canary"}}, "by its extra 'role_arn'"),
        ({"login": "canary"}, "connection 'acme' has no keys"),
        ({"password": "canary"}, "connection 'acme' has no keys"),
    ],
)
def test_a_connection_without_keys_of_its_own_is_an_error(
    fields: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, **fields)
    with pytest.raises(SetupError, match=says) as raised:
        connections.for_driver(Environment.read(BUCKET))
    assert "canary" not in str(raised.value)
    environment = Environment.read(BUCKET)
    with pytest.raises(SetupError, match=says):
        environment.store_of(environment.lake_at).list()


def test_a_connection_that_is_missing_may_be_there_later(database: Path) -> None:
    with pytest.raises(AirflowUnavailableError, match="Airflow has no connection 'acme', or does not answer"):
        connections.object_store_keys("acme")


def test_a_run_in_a_bucket_has_the_keys_of_a_connection_in_the_process_of_its_driver_only(
    runs: Any,
    project_dir: Path,
    s3_server: S3Process,
    endpoint: TokenEndpoint,
    identity_proxy: IdentityProxy,
    spark_submit: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from dags.flights import dag

    key = endpoint.new_key("connection")
    bucket, secret = s3_server.new_bucket(), tmp_path / "secret"
    secret.mkdir()
    connect(monkeypatch, login=key.access_key, password=key.secret_key, extra={"aws_session_token": key.token})
    (project_dir / "tidegate.toml").write_text(
        f'''project = "shop"
[environments.prod]
lake = "s3://{bucket}/lake"
s3.endpoint = "{identity_proxy.endpoint}"
s3.region = "{REGION}"
s3.credentials = "airflow-connection:acme"
'''
    )
    landed = project_dir / ".data/landing/flights/2013-01-01.csv"
    landed.parent.mkdir(parents=True)
    landed.write_text("year,month,day\n2013,1,1\n")
    spark_submit(
        f"pathlib.Path({str(secret / 'environment')!r}).write_text(repr(dict(os.environ)))\n"
        f"pathlib.Path({str(tmp_path / 'argv')!r}).write_text(repr(sys.argv))\n"
        "report.write(path)"
    )
    run = runs.start(dag)
    states = runs.states(run)
    assert (states["plan"], states["run"]) == ("success", "success"), states
    assert identity_proxy.identities() == {"connection"}
    words = [key.access_key, key.secret_key, key.token]
    driver = (secret / "environment").read_text()
    assert all(word in driver for word in words)
    assert "airflow-connection:acme" not in driver and "AIRFLOW_CONN" not in driver
    assert not contains_any("".join(capfd.readouterr()), words)
    shutil.copytree(s3_server.folder / "buckets" / bucket, tmp_path / "bucket")
    assert len(list((tmp_path / "bucket").rglob("*.json"))) > 2, "request and report are there"
    assert files_containing(tmp_path, words) == {"secret/environment"}
    assert files_containing(HOME, words) == set()


def test_a_driver_on_a_cluster_gets_no_secret_of_a_connection(
    runs: Any, project_dir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from dags.flights import dag

    connect(monkeypatch, "registry", password="canary-word")
    monkeypatch.setenv("TIDEGATE_REGISTRY", "https://registry:8081")
    monkeypatch.setenv("TIDEGATE_REGISTRY_PASSWORD", "airflow-connection:registry")
    extra = {"deploy-mode": "cluster"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))
    landed = project_dir / ".data/landing/flights/2013-01-01.csv"
    landed.parent.mkdir(parents=True)
    landed.write_text("year,month,day\n2013,1,1\n")
    run = runs.start(dag)
    assert runs.states(run)["run"] == "failed"
    printed = "".join(capfd.readouterr())
    assert "whose secrets only drivers on the worker get" in printed
    assert "canary-word" not in printed
