"""A cluster that changes while a run reads a topic of it: passwords, leaders, brokers, quotas. Each message is stored once."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devstack.broker import Broker
from tests import topics
from tests.fault_points import fault
from tests.secure_broker import PASSWORDS, SecureBroker, secure_broker
from tests.spark import job as orders
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.environment.clusters import Cluster
from tidegate.errors import SourceError, SourceUnavailableError
from tidegate.probes import kafka
from tidegate.runtime import java
from tidegate.runtime.jars import class_path
from tidegate.spark import runs
from tidegate.spec import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.reports.report import FlowReport

PROJECT = Path(__file__).parents[2]
pytestmark = [pytest.mark.jvm, pytest.mark.kafka, pytest.mark.nightly]

AFTER_BATCH = "after:record_batch:clicks"
PER_BATCH = 5


@dataclasses.dataclass
class Clicks:
    """A flow that reads the topic `clicks` of a cluster in small batches."""

    spark: SparkSession
    folder: Path
    cluster: Cluster

    def job(self) -> Any:
        source = KafkaSource(topic="clicks", schema="id INT", max_offsets_per_trigger=PER_BATCH)
        job = orders.job_of(self.spark, self.folder, dataclasses.replace(orders.CLICKS, source=source))
        return dataclasses.replace(job, clusters=lambda _: self.cluster)

    def run(self) -> FlowReport:
        job = self.job()
        runs.load(job.run.request, job.flow)(job)
        report: FlowReport = job.run.report
        return report

    def run_with(self, act: Callable[[], None], *, batch: int = 0) -> FlowReport:
        """A run in which something happens after a batch."""
        happened: list[bool] = []

        def once(_job: Any) -> None:
            act()
            happened.append(True)

        with fault(AFTER_BATCH, once, batch=batch):
            try:
                return self.run()
            finally:
                assert happened == [True]

    def ids(self) -> list[int]:
        """The ids in bronze, each of which is there once."""
        rows = orders.table(self.job().live)
        assert len({row["_row_id"] for row in rows}) == len(rows)
        return sorted(json.loads(row["value"])["id"] for row in rows)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secure")) as running:
        running.broker.create_topic("clicks")
        topics.send(running.broker, "clicks", range(20))
        yield running


@pytest.fixture
def clicks(secure: SecureBroker, spark: SparkSession, tmp_path: Path) -> Iterator[Clicks]:
    """As user `tide` with a password in a file of the test."""
    (tmp_path / "word").write_text(PASSWORDS["tide"])
    yield Clicks(spark, tmp_path, secure.cluster("PASSWORD", password=f"file:{tmp_path / 'word'}"))
    secure.change_password("tide", PASSWORDS["tide"])


def test_a_password_that_changes_in_mid_run_at_the_broker_and_in_its_file_stops_nothing(
    clicks: Clicks, secure: SecureBroker
) -> None:
    def rotate() -> None:
        secure.change_password("tide", "canary-scram-next")
        (clicks.folder / "word").write_text("canary-scram-next")

    report = clicks.run_with(rotate)

    assert (report.total("read"), len(report.batches)) == (20, 4)
    assert clicks.ids() == list(range(20))
    with pytest.raises(SourceError, match="user and password failed"):
        kafka.describe(secure.cluster("PASSWORD"), "clicks")


def test_a_password_that_changes_in_mid_run_at_the_broker_alone_is_a_terminal_error_and_the_next_run_goes_on(
    clicks: Clicks, secure: SecureBroker
) -> None:
    with pytest.raises(SourceError, match="topic 'clicks': user and password failed at cluster secure") as raised:
        clicks.run_with(lambda: secure.change_password("tide", "canary-scram-next"))
    assert not raised.value.transient and "canary" not in str(raised.value)
    before = clicks.ids()
    assert before == list(range(len(before))) and len(before) < 20

    (clicks.folder / "word").write_text("canary-scram-next")
    clicks.run()

    assert clicks.ids() == list(range(20))


@contextmanager
def three_brokers(folder: Path) -> Iterator[dict[int, Broker]]:
    """A cluster of three, of which the first has the controller."""
    jars = class_path(PROJECT, "broker")
    with ExitStack() as stack:
        first = stack.enter_context(Broker(folder / "1", class_path=jars))
        others = {
            node: stack.enter_context(Broker(folder / str(node), class_path=jars, joins=first, node=node))
            for node in (2, 3)
        }
        yield {1: first, **others}


def leaders_of(broker: Broker) -> dict[int, int]:
    """Partition to the node of its leader."""
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    partitions = client.list_topics("clicks", timeout=TIMEOUT_SECONDS).topics["clicks"].partitions
    return {number: int(each.leader) for number, each in partitions.items()}


def test_a_broker_that_is_lost_and_leaders_that_move_in_mid_run_stop_nothing_of_three(
    spark: SparkSession, tmp_path: Path
) -> None:
    with three_brokers(tmp_path / "brokers") as brokers:
        first = brokers[1]
        first.create_topic("clicks", 3, replicas=3)
        for partition in range(3):
            topics.send(first, "clicks", range(partition * 10, partition * 10 + 10), partition)
        assert set(leaders_of(first).values()) == {1, 2, 3}
        servers = ",".join(broker.bootstrap for broker in brokers.values())
        clicks = Clicks(spark, tmp_path, Cluster(name="three", servers=servers))
        led: list[set[int]] = []

        def leave(node: int, end: Callable[[], None]) -> None:
            end()
            wait_until(lambda: not {node, -1} & set(leaders_of(first).values()), f"node {node} leads nothing")
            led.append(set(leaders_of(first).values()))

        with fault(AFTER_BATCH, lambda _: leave(3, brokers[3].stop), batch=2):
            report = clicks.run_with(lambda: leave(2, brokers[2].kill))

        assert (report.total("read"), clicks.ids()) == (30, list(range(30)))
        assert led == [{1, 3}, {1}]
        assert len(report.batches) > 4, "there were batches after each"


def test_a_quota_that_throttles_is_a_transient_error_and_the_run_after_it_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Broker(tmp_path / "broker", class_path=class_path(PROJECT, "broker")) as broker:
        broker.create_topic("clicks")
        send_large(broker, range(20))
        options = "client.id=tidegate-throttled"
        clicks = Clicks(spark, tmp_path, Cluster(servers=broker.bootstrap, settings=(("options", options),)))
        change(broker, "tidegate-throttled", "--add-config", "consumer_byte_rate=5000")
        with pytest.raises(SourceUnavailableError, match="topic 'clicks', cluster default of Kafka") as raised:
            clicks.run()
        assert raised.value.transient

        change(broker, "tidegate-throttled", "--delete-config", "consumer_byte_rate")
        clicks.run()

        assert clicks.ids() == list(range(20)), "without the quota the same run ends"


def send_large(broker: Broker, ids: Iterable[int]) -> None:
    """Messages of 20 kB."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for each in ids:
        producer.produce("clicks", json.dumps({"id": each, "text": "x" * 20_000}).encode())
    assert producer.flush(TIMEOUT_SECONDS) == 0


def change(broker: Broker, client: str, act: str, quota: str) -> None:
    """Change a quota of a client by its id, with Kafka's own tool."""
    tool = [str(java.find().executable), "-XX:TieredStopAtLevel=1", "-cp", class_path(PROJECT, "broker")]
    tool += ["kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter", act, quota]
    command = [*tool, "--entity-type", "clients", "--entity-name", client]
    subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
