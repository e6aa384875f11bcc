"""A broker that asks for certificates, passwords and rights: each set-up works, each fault is an error that names cluster and topic."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import topics
from tests.secure_broker import PASSWORDS, PROJECT, SecureBroker, secure_broker
from tests.waiting import TIMEOUT_SECONDS
from tidegate.environment.clusters import Cluster
from tidegate.errors import SourceError
from tidegate.probes import kafka, messages, retention, samples
from tidegate.runtime import java
from tidegate.runtime.jars import class_path

pytestmark = [pytest.mark.jvm, pytest.mark.kafka, pytest.mark.nightly]

WORKING: dict[str, tuple[str, dict[str, str]]] = {
    "TLS and SCRAM-SHA-512": ("PASSWORD", {}),
    "TLS and SCRAM-SHA-256": ("PASSWORD", {"mechanism": "SCRAM-SHA-256"}),
    "TLS and PLAIN": ("PASSWORD", {"mechanism": "PLAIN"}),
    "SCRAM without TLS": ("OPEN", {}),
    "mutual TLS": ("MUTUAL", {}),
    "TLS and a token": ("TOKEN", {}),
    "further options": ("PASSWORD", {"options": "client.id=tidegate, receive.buffer.bytes=65536"}),
}
_CLIENT = "the certificate of the client"


def _client(name: str) -> dict[str, str]:
    return {"certificate": f"file:{{folder}}/{name}.crt", "key": f"file:{{folder}}/{name}.key", "key_password": ""}


FAULTS: dict[str, tuple[str, dict[str, str], str]] = {
    "a wrong password": ("PASSWORD", {"password": "file:{folder}/key.password"}, "user and password"),
    "a wrong password of PLAIN": (
        *("PASSWORD", {"mechanism": "PLAIN", "password": "file:{folder}/key.password"}),
        "user and password",
    ),
    "an unknown user": ("OPEN", {"user": "nobody"}, "user and password"),
    "a wrong secret for a token": ("TOKEN", {"password": "file:{folder}/key.password"}, "user and password"),
    "an expired certificate": ("EXPIRED", {}, "certificate has expired"),
    "a certificate of another authority": ("UNKNOWN", {}, "unable to get local issuer certificate"),
    "another host's certificate": ("ELSEWHERE", {}, "Hostname mismatch"),
    "no certificate of the client": ("MUTUAL", {"certificate": "", "key": "", "key_password": ""}, _CLIENT),
    "an expired certificate of the client": ("MUTUAL", _client("late"), _CLIENT),
    "a client's certificate of another authority": ("MUTUAL", _client("stranger"), _CLIENT),
    "a damaged certificate": ("PASSWORD", {"ca": "file:{folder}/key.password"}, "the settings"),
}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as running:
        for topic in ("clicks", "closed-clicks"):
            running.broker.create_topic(topic)
            topics.send(running.broker, topic, range(3))
        yield running


def of(secure: SecureBroker, listener: str, changes: dict[str, str]) -> Cluster:
    return secure.cluster(listener, **{name: text.format(folder=secure.folder) for name, text in changes.items()})


@pytest.mark.parametrize("setup", WORKING)
def test_a_topic_is_read_with(secure: SecureBroker, setup: str) -> None:
    listener, changes = WORKING[setup]
    cluster = of(secure, listener, changes)
    topic = kafka.describe(cluster, "clicks")
    assert topic.bounds == {0: (0, 3)}
    assert topic.cluster_id == kafka.describe(secure.broker.cluster, "clicks").cluster_id
    assert samples.message_bytes(cluster, "clicks", {0: 0}) is not None
    assert len(list(messages.read_range(cluster, "clicks", 0, 0, 3, isolation="read_committed"))) == 3
    topics.configure(secure.broker, "clicks", retention_ms="86400000")
    assert retention.unread_until(cluster, "clicks", {0: 0}) is None, "they are younger than half of it"


@pytest.mark.parametrize("setup", ["TLS and SCRAM-SHA-512", "mutual TLS", "TLS and PLAIN", "TLS and a token"])
def test_java_reads_the_same_settings_with_references_alone(
    secure: SecureBroker, setup: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, changes = WORKING[setup]
    if setup == "mutual TLS":
        # Java's client of Kafka reads no key that is encrypted by PBES2, as cryptography does it.
        changes = {"key": "file:{folder}/open.key", "certificate": "file:{folder}/open.crt", "key_password": ""}
    if setup == "TLS and PLAIN":
        monkeypatch.setenv("KAFKA_CANARY", PASSWORDS["tide"])
        changes = {**changes, "password": "env:KAFKA_CANARY"}
    config = of(secure, listener, changes).java(java.find().major)
    assert "canary" not in str(config)
    output = described_by_java(config, tmp_path)
    assert (output.returncode, "Dynamic configs for topic clicks" in output.stdout) == (0, True), output.stderr
    wrong = {name: text.replace(".password}", ".crt}") for name, text in config.items()}
    if wrong != config:
        assert described_by_java(wrong, tmp_path).returncode != 0


def described_by_java(config: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """What Kafka's own tool prints about a topic, with Java's client."""
    properties = folder / "client.properties"
    limits = {"request.timeout.ms": "10000", "default.api.timeout.ms": "10000"}
    properties.write_text("".join(f"{name}={text}\n" for name, text in (config | limits).items()))
    allowed = (
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={config.get('sasl.oauthbearer.token.endpoint.url', '')}"
    )
    command = [str(java.find().executable), "-XX:TieredStopAtLevel=1", allowed, "-cp", class_path(PROJECT, "broker")]
    server = config["bootstrap.servers"]
    tool = ["kafka.admin.ConfigCommand", "--bootstrap-server", server, "--command-config", str(properties)]
    return subprocess.run(
        [*command, *tool, "--describe", "--topic", "clicks"],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_terminal_error_names_cluster_and_topic_after(
    secure: SecureBroker, fault: str, capfd: pytest.CaptureFixture[str]
) -> None:
    listener, changes, problem = FAULTS[fault]
    with pytest.raises(SourceError, match="cluster secure of Kafka") as raised:
        kafka.describe(of(secure, listener, changes), "clicks")
    error = raised.value
    assert (error.transient, error.exit_code) == (False, 78)
    assert problem in error.message and "'clicks'" in error.message
    assert "kafka.secure" in str(error.advice)
    assert "canary" not in f"{error} {error.advice} {capfd.readouterr()}"


def test_a_user_without_rights_reads_other_topics_and_not_this_one(secure: SecureBroker) -> None:
    cluster = of(secure, "PASSWORD", {"user": "limited", "password": "file:{folder}/limited.password"})
    assert kafka.end_offsets(cluster, "clicks") == {0: 3}
    assert kafka.end_offsets(of(secure, "PASSWORD", {}), "closed-clicks") == {0: 3}
    with pytest.raises(SourceError, match="does not let the user read topic 'closed-clicks'") as raised:
        kafka.describe(cluster, "closed-clicks")
    assert not raised.value.transient and "cluster secure" in raised.value.message
    assert retention.unread_until(cluster, "closed-clicks", {0: 0}) is None


def test_a_changed_password_is_read_by_the_next_request(secure: SecureBroker, tmp_path: Path) -> None:
    word = tmp_path / "word"
    cluster = of(secure, "PASSWORD", {"password": f"file:{word}"})
    word.write_text("old")
    with pytest.raises(SourceError, match="user and password"):
        kafka.describe(cluster, "clicks")
    word.write_text(PASSWORDS["tide"])
    assert kafka.describe(cluster, "clicks").bounds == {0: (0, 3)}
