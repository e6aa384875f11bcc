"""The embedded broker: what it refuses without a JVM, and the real one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE
from tidegate.embedded import jars
from tidegate.embedded.broker import Broker
from tidegate.embedded.processes import Process
from tidegate.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that does what the script in it says, in place of the real one."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    executable = home / "bin" / "java"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return executable


def test_it_has_no_address_before_it_was_started(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="was not started"):
        _ = Broker(tmp_path, class_path="").bootstrap


def test_one_that_ends_at_once_is_told_with_its_own_words(tmp_path: Path, fake_java: Path) -> None:
    fake_java.write_text('#!/bin/sh\ncase "$*" in *kafka.Kafka*) echo "no such class"; exit 1;; esac\n')
    broker = Broker(tmp_path / "broker", class_path="x.jar")
    with pytest.raises(SetupError, match="no such class"):
        broker.start()
    assert broker.pid is None
    assert not (tmp_path / "broker" / "broker.pid").exists()


def test_a_storage_that_cannot_be_made_is_told(tmp_path: Path, fake_java: Path) -> None:
    fake_java.write_text('#!/bin/sh\necho "disk full" >&2\nexit 1\n')
    with pytest.raises(SetupError, match="disk full"):
        Broker(tmp_path / "broker", class_path="x.jar").start()


def test_the_id_of_a_cluster_is_never_taken_for_an_option(
    tmp_path: Path, fake_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = [b"\xfb" * 16, b"\x00" * 16]
    monkeypatch.setattr("tidegate.embedded.broker.secrets.token_bytes", lambda size: drawn.pop(0))
    fake_java.write_text('#!/bin/sh\necho "$*" >&2\nexit 1\n')
    with pytest.raises(SetupError, match=r" -t A{22}$"):
        Broker(tmp_path, class_path="x.jar").start()
    assert drawn == []


def test_only_loopback_is_listened_on(tmp_path: Path, fake_java: Path) -> None:
    fake_java.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(SetupError):
        Broker(tmp_path, class_path="x.jar").start()
    settings = dict(
        line.split("=", 1) for line in (tmp_path / "server.properties").read_text().splitlines() if "=" in line
    )
    hosts = [url.split("://")[1].rsplit(":", 1)[0] for url in settings["listeners"].split(",")]
    assert hosts == ["127.0.0.1", "127.0.0.1"]
    assert settings["advertised.listeners"].startswith("PLAINTEXT://127.0.0.1:")


def test_a_folder_that_a_living_process_uses_is_refused_and_its_broker_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        running, me = Process.of(other.pid), Process.of(os.getpid())
        assert running is not None
        assert me is not None
        running.write(tmp_path / "broker.pid")
        me.write(tmp_path / "owner.pid")
        with pytest.raises(SetupError, match=f"Process {os.getpid()} runs a Kafka broker"):
            Broker(tmp_path, class_path="x.jar").start()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_what_a_killed_owner_left_is_stopped_and_a_stranger_with_its_id_is_not(tmp_path: Path, fake_java: Path) -> None:
    left = subprocess.Popen(["sleep", "600"], start_new_session=True)
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        running = Process.of(left.pid)
        assert running is not None
        running.write(tmp_path / "broker.pid")
        Process(pid=stranger.pid, started="long ago").write(tmp_path / "owner.pid")
        with pytest.raises(SetupError):
            Broker(tmp_path, class_path="x.jar").start()
        assert left.wait(timeout=PATIENCE) == -signal.SIGTERM
        Process(pid=stranger.pid, started="long ago").write(tmp_path / "broker.pid")
        with pytest.raises(SetupError):
            Broker(tmp_path, class_path="x.jar").start()
        assert stranger.poll() is None
    finally:
        for popen in (left, stranger):
            popen.kill()
            popen.wait()


# ------------------------------------------------------------------------------------------------------- the real one


def _write(broker: Broker, topic: str, values: range) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value=str(value), partition=value % 3)
    assert producer.flush(PATIENCE) == 0


def _ends(broker: Broker, topic: str, partitions: int = 3) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "tests"})
    try:
        return [
            consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=PATIENCE)[1] for p in range(partitions)
        ]
    finally:
        consumer.close()


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_topic_is_made_once_with_its_partitions(broker: Broker, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    assert broker.create_topic(topic, partitions=3)
    assert not broker.create_topic(topic, partitions=3)
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=PATIENCE).topics
    assert len(topics[topic].partitions) == 3


@pytest.mark.jvm
@pytest.mark.kafka
def test_writing_to_a_mistyped_topic_makes_none(broker: Broker, topic: str) -> None:
    from confluent_kafka import KafkaError, Producer

    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "topic.metadata.propagation.max.ms": 100})
    producer.produce(topic, value="1", on_delivery=lambda error, _: errors.append(error))
    producer.flush(PATIENCE)
    assert [error.code() for error in errors] in ([KafkaError._UNKNOWN_TOPIC], [KafkaError.UNKNOWN_TOPIC_OR_PART])
    assert topic not in producer.list_topics(timeout=PATIENCE).topics


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_second_broker_on_the_same_folder_is_refused(broker: Broker) -> None:
    with pytest.raises(SetupError, match=f"Process {os.getpid()} runs a Kafka broker"):
        Broker(broker.data_dir, class_path=jars.class_path(PROJECT, "broker")).start()
    assert broker.pid is not None


@pytest.mark.jvm
@pytest.mark.kafka
def test_killed_it_comes_back_at_the_same_address_with_all_that_was_written(broker: Broker, topic: str) -> None:
    address = broker.bootstrap
    broker.create_topic(topic, partitions=3)
    _write(broker, topic, range(30))
    broker.kill()
    assert broker.pid is None
    host, port = address.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    broker.start()
    assert broker.bootstrap == address
    assert _ends(broker, topic) == [10, 10, 10]


@pytest.mark.jvm
@pytest.mark.kafka
def test_the_pinned_connector_reads_a_topic_of_it_with_spark(broker: Broker, topic: str, spark: SparkSession) -> None:
    broker.create_topic(topic, partitions=3)
    _write(broker, topic, range(100))
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    read = (
        spark.read.format("kafka").options(**options).load().selectExpr("CAST(CAST(value AS STRING) AS INT) AS value")
    )
    assert sorted(row["value"] for row in read.collect()) == list(range(100))


_OWNER = """
import os, signal, sys, time
from pathlib import Path
from tidegate.embedded.broker import Broker
broker = Broker(Path(sys.argv[1]), class_path=sys.argv[2]).start()
print(broker.pid, broker.bootstrap, broker.create_topic("kept"), flush=True)
end = sys.argv[3]
if end != "exit":
    os.kill(os.getpid(), getattr(signal, end))
    time.sleep(600)
"""


@dataclass(frozen=True)
class Ended:
    """What an owner told of its broker before it ended."""

    broker: Process
    address: str
    made_the_topic: bool


def _owner_that_ends(folder: Path, end: str) -> Ended:
    class_path = jars.class_path(PROJECT, "broker")
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(folder), class_path, end], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert owner.stdout is not None
    pid, address, made = owner.stdout.readline().decode().split()
    # Before its owner ends: afterwards it may be gone.
    known = Process.read(folder / "broker.pid") or Process(pid=int(pid), started="gone")
    owner.wait(timeout=PATIENCE)
    owner.stdout.close()
    return Ended(known, address, made == "True")


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.chaos
def test_the_next_start_ends_what_a_killed_owner_left_keeps_its_data_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    killed = _owner_that_ends(tmp_path, "SIGKILL")
    try:
        assert killed.broker.alive
        assert killed.made_the_topic
        interrupted = _owner_that_ends(tmp_path, "SIGINT")
        assert interrupted.broker.pid != killed.broker.pid
        assert (interrupted.address, interrupted.made_the_topic) == (killed.address, False)
        assert (killed.broker.alive, interrupted.broker.alive) == (False, False)
    finally:
        killed.broker.kill_group()


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.chaos
@pytest.mark.nightly
def test_it_ends_with_an_owner_that_ends(tmp_path: Path) -> None:
    assert not _owner_that_ends(tmp_path, "exit").broker.alive
