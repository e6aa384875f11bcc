"""A broker that asks for certificates, passwords and rights: each set-up works, each fault is an error that names cluster and topic."""

from __future__ import annotations

import base64
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests import topics
from tests.secure_broker import PASSWORDS, PROJECT, SecureBroker, secure_broker
from tests.waiting import TIMEOUT_SECONDS
from tidegate.environment import Environment, iam_token
from tidegate.environment.clusters import Cluster
from tidegate.errors import SourceError
from tidegate.probes import kafka, messages, retention, samples
from tidegate.requests.launch import submit_environment
from tidegate.runtime import java
from tidegate.runtime.jars import class_path
from tidegate.store.credentials import Credentials

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
    "a self-signed certificate": ("ALONE", {}, "self-signed certificate"),
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


IAM = {"mechanism": "AWS_MSK_IAM", "user": "", "password": "", "token_url": "", "scope": ""}
READER = """\
import sys
from tidegate.environment import Environment
from tidegate.requests.launch import submit_conf
from tidegate.spark.driver.session import build_session

environment = Environment.read()
spark = build_session(environment, "reader", submit_conf(environment, small=True))
options = environment.cluster("msk").spark(int(sys.argv[1]))
spark.read.format("kafka").options(**options).option("subscribe", "clicks").load().count()
"""
"""A Spark application that reads a topic as a job does, and asks for nothing before."""


def test_a_token_of_aws_reaches_the_cluster_from_every_client_and_its_refusal_names_cluster_and_topic(
    secure: SecureBroker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The broker takes the tokens of `TokenServer` alone."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "canary-aws", "AWS_REGION": "eu-west-1"}
    for name, text in keys.items():
        monkeypatch.setenv(name, text)
    with recorded(secure.broker.address("BEARER")) as (address, sent):
        own = secure.variables("BEARER", "msk", **IAM, servers=address)
        variables = {**os.environ, **own, "TIDEGATE_PROJECT": str(PROJECT)}
        environment = Environment.read(variables)
        cluster = environment.cluster("msk")
        with pytest.raises(SourceError, match="'clicks': the token of AWS failed at cluster msk of Kafka") as raised:
            kafka.describe(cluster, "clicks")
        assert (raised.value.transient, raised.value.exit_code) == (False, 78)
        assert "invalid_token" in raised.value.message, "the broker's answer"
        assert "kafka-cluster:Connect" in str(raised.value.advice)
        assert agents_of(sent) == {"tidegate"}
        assert "canary" not in f"{raised.value} {raised.value.advice}"
        sent.clear()
        assert samples.message_bytes(cluster, "clicks", {0: 0}) is None
        assert agents_of(sent) == {"tidegate"}, "clients that read messages make tokens, too"
        sent.clear()
        command = [sys.executable, "-c", READER, str(java.find().major)]
        done = subprocess.run(
            command,
            env={**variables, **submit_environment(environment)},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
    # librdkafka's client tries again until it is collected.
    of_java = agents_of(sent) - {"tidegate"}
    assert of_java and all(each.startswith("aws-msk-iam-auth") for each in of_java), of_java
    assert done.returncode != 0 and "SaslAuthenticationException" in done.stderr and "invalid_token" in done.stderr
    shown = f"{done.stdout} {done.stderr} {capfd.readouterr()}"
    assert "canary" not in shown and "X-Amz" not in shown and _TOKEN not in shown


_TOKEN = base64.urlsafe_b64encode(b"https://kafka").decode()[:-3]


def agents_of(sent: list[bytes]) -> set[str]:
    """The user agents of the tokens in what clients sent, each with the signature that the secret of the test makes."""
    agents = set[str]()
    for text in re.findall(f"auth=Bearer ({_TOKEN}[A-Za-z0-9_-]+)", b"".join(sent).decode("latin-1")):
        fields = _fields(text)
        moment = datetime.strptime(fields["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        expected, _ = iam_token.token(Credentials("AKIDEXAMPLE", "canary-aws"), "eu-west-1", moment)
        assert fields["X-Amz-Signature"] == _fields(expected)["X-Amz-Signature"]
        agents.add(fields["User-Agent"])
    return agents


def _fields(token: str) -> dict[str, str]:
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@contextmanager
def recorded(server: str) -> Iterator[tuple[str, list[bytes]]]:
    """An address before that of a broker without TLS, and what clients send to it."""
    sent: list[bytes] = []
    host, _, port = server.rpartition(":")

    def forward(source: socket.socket, target: socket.socket, kept: list[bytes] | None) -> None:
        with suppress(OSError), source:
            while content := source.recv(65_536):
                if kept is not None:
                    kept.append(content)
                target.sendall(content)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                broker = socket.create_connection((host, int(port)))
                for parts in ((client, broker, sent), (broker, client, None)):
                    threading.Thread(target=forward, args=parts, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"localhost:{listener.getsockname()[1]}", sent
        # Ends the thread that accepts.
        listener.shutdown(socket.SHUT_RDWR)


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
