"""The embedded broker, with a fake Java and with a real one."""

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

from devstack.broker import Broker
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.errors import SetupError
from tidegate.processes import Process
from tidegate.runtime import jars

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def fake_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shell script in place of Java; tests replace its content."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    executable = home / "bin" / "java"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return executable


def test_a_broker_has_no_address_before_its_first_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="was not started"):
        _ = Broker(tmp_path, class_path="").bootstrap


def test_the_error_for_a_broker_that_ends_at_once_contains_its_log(tmp_path: Path, fake_java: Path) -> None:
    fake_java.write_text('#!/bin/sh\ncase "$*" in *kafka.Kafka*) echo "no such class"; exit 1;; esac\n')
    broker = Broker(tmp_path / "broker", class_path="x.jar")
    with pytest.raises(SetupError, match="no such class"):
        broker.start()
    assert broker.pid is None
    assert not (tmp_path / "broker" / "broker.pid").exists()


def test_the_error_for_a_failed_format_contains_its_output(tmp_path: Path, fake_java: Path) -> None:
    fake_java.write_text('#!/bin/sh\necho "disk full" >&2\nexit 1\n')
    with pytest.raises(SetupError, match="disk full"):
        Broker(tmp_path / "broker", class_path="x.jar").start()


def test_a_cluster_id_never_begins_with_a_dash(
    tmp_path: Path, fake_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_bytes = [b"\xfb" * 16, b"\x00" * 16]
    monkeypatch.setattr("devstack.broker.secrets.token_bytes", lambda size: random_bytes.pop(0))
    fake_java.write_text('#!/bin/sh\necho "$*" >&2\nexit 1\n')
    with pytest.raises(SetupError, match=r" -t A{22}; "):
        Broker(tmp_path, class_path="x.jar").start()
    assert random_bytes == []


def test_it_listens_on_loopback_only(tmp_path: Path, fake_java: Path) -> None:
    fake_java.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(SetupError):
        Broker(tmp_path, class_path="x.jar").start()
    settings = dict(
        line.split("=", 1) for line in (tmp_path / "server.properties").read_text().splitlines() if "=" in line
    )
    hosts = [url.split("://")[1].rsplit(":", 1)[0] for url in settings["listeners"].split(",")]
    assert hosts == ["127.0.0.1", "127.0.0.1"]
    assert settings["advertised.listeners"].startswith("PLAINTEXT://127.0.0.1:")


def test_a_folder_with_a_living_owner_is_refused_and_its_broker_keeps_running(tmp_path: Path) -> None:
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


def test_an_orphaned_broker_is_stopped_but_not_another_process_with_its_id(tmp_path: Path, fake_java: Path) -> None:
    orphan = subprocess.Popen(["sleep", "600"], start_new_session=True)
    unrelated = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        running = Process.of(orphan.pid)
        assert running is not None
        running.write(tmp_path / "broker.pid")
        Process(pid=unrelated.pid, started="long ago").write(tmp_path / "owner.pid")
        with pytest.raises(SetupError):
            Broker(tmp_path, class_path="x.jar").start()
        assert orphan.wait(timeout=TIMEOUT_SECONDS) == -signal.SIGTERM
        Process(pid=unrelated.pid, started="long ago").write(tmp_path / "broker.pid")
        with pytest.raises(SetupError):
            Broker(tmp_path, class_path="x.jar").start()
        assert unrelated.poll() is None
    finally:
        for popen in (orphan, unrelated):
            popen.kill()
            popen.wait()


# ----------------------------------------------------------------------------------------------------- a real broker


def _write(broker: Broker, topic: str, values: range) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value=str(value), partition=value % 3)
    assert producer.flush(TIMEOUT_SECONDS) == 0


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """The end of a partition, whose leader a broker that has just started may not have elected yet."""
    from confluent_kafka import KafkaError, KafkaException

    ends: list[int] = []

    def has_leader() -> bool:
        try:
            ends.append(consumer.get_watermark_offsets(partition, timeout=TIMEOUT_SECONDS)[1])
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE):
                raise
        return bool(ends)

    wait_until(has_leader, f"{partition.topic} has a leader")
    return ends[0]


def _ends(broker: Broker, topic: str, partitions: int = 3) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "tests"})
    try:
        return [_end(consumer, TopicPartition(topic, partition)) for partition in range(partitions)]
    finally:
        consumer.close()


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_topic_is_created_once_with_its_partitions(broker: Broker, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    assert broker.create_topic(topic, partitions=3)
    assert not broker.create_topic(topic, partitions=3)
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=TIMEOUT_SECONDS).topics
    assert len(topics[topic].partitions) == 3


@pytest.mark.jvm
@pytest.mark.kafka
def test_writing_to_an_unknown_topic_does_not_create_it(broker: Broker, topic: str) -> None:
    from confluent_kafka import KafkaError, Producer

    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "topic.metadata.propagation.max.ms": 100})
    producer.produce(topic, value="1", on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_SECONDS)
    assert [error.code() for error in errors if error is not None] in (
        [KafkaError._UNKNOWN_TOPIC],
        [KafkaError.UNKNOWN_TOPIC_OR_PART],
    )
    assert topic not in producer.list_topics(timeout=TIMEOUT_SECONDS).topics


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_second_broker_in_the_same_folder_is_refused(broker: Broker) -> None:
    with pytest.raises(SetupError, match=f"Process {os.getpid()} runs a Kafka broker"):
        Broker(broker.data_dir, class_path=jars.class_path(PROJECT, "broker")).start()
    assert broker.pid is not None


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.nightly
def test_a_port_that_another_broker_binds_first_is_left_to_it(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = int(broker.bootstrap.rpartition(":")[2])
    monkeypatch.setattr("devstack.broker.is_free", lambda port: port == used)
    with Broker(tmp_path / "broker", class_path=jars.class_path(PROJECT, "broker"), port=used) as other:
        log = (tmp_path / "broker/logs/broker.log").read_text()
        assert "BindException" in log, "the second broker tried the port"
        assert other.bootstrap != broker.bootstrap
        assert other.create_topic("orders"), "it has topics of its own"
    assert broker.pid is not None


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_killed_broker_restarts_at_the_same_address_with_its_data(broker: Broker, topic: str) -> None:
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
@pytest.mark.nightly
def test_spark_reads_a_topic_with_the_pinned_connector(broker: Broker, topic: str, spark: SparkSession) -> None:
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
from devstack.broker import Broker
broker = Broker(Path(sys.argv[1]), class_path=sys.argv[2]).start()
print(broker.pid, broker.bootstrap, broker.create_topic("orders"), flush=True)
end = sys.argv[3]
if end != "exit":
    os.kill(os.getpid(), getattr(signal, end))
    time.sleep(600)
"""


@dataclass(frozen=True)
class OwnedBroker:
    """The broker of a process that has ended."""

    broker: Process
    address: str
    created_topic: bool


def _broker_of_ended_owner(folder: Path, end: str) -> OwnedBroker:
    class_path = jars.class_path(PROJECT, "broker")
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(folder), class_path, end], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert owner.stdout is not None
    pid, address, created = owner.stdout.readline().decode().split()
    # Read before the owner ends, because its broker may end with it.
    broker = Process.read(folder / "broker.pid") or Process(pid=int(pid), started="ended")
    owner.wait(timeout=TIMEOUT_SECONDS)
    owner.stdout.close()
    return OwnedBroker(broker, address, created == "True")


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.chaos
@pytest.mark.nightly
def test_a_start_stops_an_orphaned_broker_and_keeps_its_data_and_ctrl_c_stops_the_broker(tmp_path: Path) -> None:
    killed = _broker_of_ended_owner(tmp_path, "SIGKILL")
    try:
        assert killed.broker.alive
        assert killed.created_topic
        interrupted = _broker_of_ended_owner(tmp_path, "SIGINT")
        assert interrupted.broker.pid != killed.broker.pid
        assert (interrupted.address, interrupted.created_topic) == (killed.address, False)
        assert (killed.broker.alive, interrupted.broker.alive) == (False, False)
    finally:
        killed.broker.kill_group()


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.chaos
@pytest.mark.nightly
def test_the_broker_ends_when_its_owner_ends(tmp_path: Path) -> None:
    assert not _broker_of_ended_owner(tmp_path, "exit").broker.alive
