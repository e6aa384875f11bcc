"""Clusters of Kafka: what the settings of each mean for both clients, and that no option of Spark has a secret."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

import pytest

from devstack.certificates import Authority
from tidegate.environment import Environment
from tidegate.environment.clusters import MORE_OPTIONS, OPTIONS, SECRETS, Cluster
from tidegate.environment.settings import SETTINGS
from tidegate.errors import SetupError

SCRAM = {"security": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "user": "tide", "password": "env:KAFKA_WORD"}
IAM = {"security": "SASL_SSL", "mechanism": "AWS_MSK_IAM"}


def cluster(**settings: str) -> Cluster:
    return Cluster(name="events", servers="a:1,b:2", settings=tuple(settings.items()))


def test_every_setting_of_a_cluster_reaches_both_clients() -> None:
    named = {each.key.rpartition(".")[2]: each for each in SETTINGS if each.named}
    of_kafka = {name: each for name, each in named.items() if not name.startswith("registry")}
    declared = set(of_kafka) - {"servers"}
    assert declared == {each.setting for each in OPTIONS} | {"user", "password", "scope", "options"}
    assert {name for name, each in of_kafka.items() if each.references} == SECRETS


def test_a_cluster_without_security_has_servers_alone() -> None:
    assert cluster().java(17) == cluster().librdkafka() == {"bootstrap.servers": "a:1,b:2"}
    assert str(cluster()) == "a:1,b:2 (cluster events)"


def test_java_gets_references_and_librdkafka_the_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_WORD", "canary-1")
    for name in ("ca.pem", "client.crt"):
        (tmp_path / name).write_text(f"canary of {name}\n")
    Authority(tmp_path, "authority").issue("client")
    (tmp_path / "word").write_text("canary-2")
    files = {"ca": "ca.pem", "certificate": "client.crt", "key": "client.key", "key_password": "word"}
    own = cluster(**SCRAM, **{name: f"file:{tmp_path / file}" for name, file in files.items()})
    java = own.java(17)
    assert "canary" not in str((java, own.spark(17), own))
    assert java["sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="tide" password="${env:KAFKA_WORD}";'
    )
    assert java["ssl.truststore.certificates"] == f"${{directory:{tmp_path}:ca.pem}}"
    assert java["ssl.key.password"] == f"${{directory:{tmp_path}:word}}"
    assert (java["ssl.truststore.type"], java["ssl.keystore.type"]) == ("PEM", "PEM")
    assert java["config.providers"] == "env,directory"
    assert own.spark(17) == {f"kafka.{name}": text for name, text in java.items()}
    config = own.librdkafka()
    assert config["sasl.password"] == "canary-1"
    assert config["ssl.key.password"] == "canary-2"
    assert config["ssl.ca.pem"] == "canary of ca.pem"
    assert {java[each.java] for each in OPTIONS[:2]} == {config[each.librdkafka] for each in OPTIONS[:2]}


def test_a_token_is_asked_for_with_the_clients_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_WORD", "canary-1")
    own = SCRAM | {"mechanism": "OAUTHBEARER", "token_url": "https://tokens/oauth", "scope": "kafka"}
    java, config = cluster(**own).java(17), cluster(**own).librdkafka()
    assert 'clientId="tide" clientSecret="${env:KAFKA_WORD}" scope="kafka"' in java["sasl.jaas.config"]
    assert java["sasl.login.callback.handler.class"].endswith("OAuthBearerLoginCallbackHandler")
    assert (config["sasl.oauthbearer.method"], config["sasl.oauthbearer.client.secret"]) == ("oidc", "canary-1")
    assert java["sasl.oauthbearer.token.endpoint.url"] == config["sasl.oauthbearer.token.endpoint.url"]


def test_clients_of_msk_make_their_tokens_with_credentials_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-aws")
    for client in (cluster(**IAM).librdkafka, lambda: cluster(**IAM).java(17)):
        with pytest.raises(SetupError, match=r"kafka\.events has the mechanism AWS_MSK_IAM, and no region is set"):
            client()
    variables = {"TIDEGATE_KAFKA__EVENTS": "a:1", "AWS_DEFAULT_REGION": "eu-west-1"}
    variables |= {f"TIDEGATE_KAFKA__EVENTS__{name.upper()}": text for name, text in IAM.items()}
    own = Environment.read(variables).cluster("events")
    java, config = own.java(17), own.librdkafka()
    assert java["sasl.mechanism"] == config["sasl.mechanism"] == "OAUTHBEARER"
    assert java["sasl.jaas.config"].endswith(".oauthbearer.OAuthBearerLoginModule required;")
    assert (
        java["sasl.login.callback.handler.class"] == "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    )
    token, ends = config["oauth_cb"]("")
    assert base64.urlsafe_b64decode(token + "==").startswith(
        b"https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster"
    )
    assert 890 < ends - time.time() <= 900
    assert "canary" not in f"{java} {config} {own}"
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(SetupError, match="AWS_SECRET_ACCESS_KEY is not set"):
        own.librdkafka()
    elsewhere = Environment.read(variables | {"TIDEGATE_S3_CREDENTIALS": "web-identity"}).cluster("events")
    with pytest.raises(SetupError, match="come from the source 'web-identity', and AWS_WEB_IDENTITY_TOKEN_FILE"):
        elsewhere.librdkafka()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"security": "SASL_SSL"}, "has no mechanism"),
        ({"mechanism": "PLAIN", "user": "a", "password": "env:X"}, "a mechanism, and security PLAINTEXT"),
        ({"security": "SASL_SSL", "mechanism": "PLAIN"}, "has no password and no user"),
        (SCRAM | {"mechanism": "OAUTHBEARER"}, "has no token_url"),
        (SCRAM | {"token_url": "https://x"}, "token_url, which SASL_SSL with SCRAM-SHA-512 does not use"),
        (SCRAM | {"mechanism": "AWS_MSK_IAM"}, "has password and user, which SASL_SSL with AWS_MSK_IAM does not use"),
        ({"security": "SSL", "certificate": "env:X"}, "has no key"),
        ({"ca": "env:X"}, "ca, which PLAINTEXT does not use"),
        ({"options": "client.rack=a, group.id=b"}, "'group.id' is no option"),
        ({"options": "security.protocol=PLAINTEXT"}, "'security.protocol' is no option"),
        ({"options": "client.rack"}, "'client.rack' is no option that may be set for Kafka, or has no value"),
    ],
)
def test_settings_that_do_not_fit_together_are_an_error(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(SetupError, match=problem) as raised:
        cluster(**settings)
    assert raised.value.advice is not None


@pytest.mark.parametrize("text", ["word\n", 'wo"rd', "wo\\rd"])
def test_a_password_that_java_would_read_otherwise_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "word").write_text(text)
    with pytest.raises(SetupError, match="a line break, a quote or a backslash") as raised:
        cluster(**SCRAM | {"password": f"file:{tmp_path / 'word'}"}).java(17)
    with pytest.raises(SetupError, match="a line break, a quote or a backslash"):
        cluster(**SCRAM | {"password": f"file:{tmp_path / 'word'}"}).librdkafka()
    assert text not in f"{raised.value} {raised.value.advice}"


@pytest.mark.parametrize("reference", ["airflow-connection:events", "file:/a:b/word", "file:/a$b/word"])
def test_a_reference_that_only_python_can_follow_is_no_option_of_spark(reference: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("tidegate.environment.references.exact", lambda *_, **__: "word")
    with pytest.raises(SetupError, match="which Spark's client of Kafka cannot read"):
        cluster(**SCRAM | {"password": reference}).java(17)


def test_further_options_have_the_name_of_each_client() -> None:
    own = cluster(options="client.rack=use1-az1, receive.buffer.bytes=65536")
    assert own.java(17) == {"bootstrap.servers": "a:1,b:2", "client.rack": "use1-az1", "receive.buffer.bytes": "65536"}
    assert own.librdkafka()["socket.receive.buffer.bytes"] == "65536"
    assert not {name for name in MORE_OPTIONS if name.startswith(("sasl", "ssl", "security", "bootstrap", "group"))}


def test_the_default_cluster_may_have_settings_too() -> None:
    variables = {"TIDEGATE_KAFKA": "b:9093", "TIDEGATE_KAFKA__DEFAULT__SECURITY": "SSL"}
    environment = Environment.read(variables)
    assert environment.cluster("default") == Cluster(servers="b:9093", settings=(("security", "SSL"),))
    assert Environment.read(environment.variables()).cluster("default") == environment.cluster("default")
