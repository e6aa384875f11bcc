"""A cluster that changes while a run reads a topic of it: passwords, leaders, brokers, quotas. Each message is stored once."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devstack.broker import Broker
from tests import topics
from tests.fault_points import fault
from tests.secure_broker import PASSWORDS, SecureBroker, secure_broker
from tests.spark import job as orders
from tests.spark.kinds.outbox import Outbox
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.environment.clusters import Cluster
from tidegate.errors import SourceError, SourceUnavailableError
from tidegate.probes import kafka
from tidegate.runtime import java
from tidegate.runtime.jars import class_path
from tidegate.spark import runs
from tidegate.spec import KafkaSink, KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.reports.report import FlowReport

PROJECT = Path(__file__).parents[2]
pytestmark = [pytest.mark.jvm, pytest.mark.kafka, pytest.mark.nightly]

AFTER_BATCH = "after:record_batch:clicks"


@dataclasses.dataclass
class Clicks:
    """A flow that reads a topic of a cluster in small batches."""

    spark: SparkSession
    folder: Path
    cluster: Cluster
    topic: str = "clicks"
    per_batch: int = 5

    def job(self) -> Any:
        source = KafkaSource(topic=self.topic, schema="id INT", max_offsets_per_trigger=self.per_batch)
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


LARGE = range(60)
"""The ids of the messages of the topic `large`, of 20 kB each: more than one fetch."""


@pytest.fixture(scope="module")
def large(secure: SecureBroker) -> str:
    """The topic."""
    from confluent_kafka import Producer

    secure.broker.create_topic("large")
    producer = Producer({"bootstrap.servers": secure.broker.bootstrap, "log_level": 0})
    for each in LARGE:
        producer.produce("large", json.dumps({"id": each, "text": "x" * 20_000}).encode())
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return "large"


# Before the next test: a broker counts what was read shortly before against a new quota.
def test_a_quota_that_slows_reading_and_sending_ends_neither_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, secure: SecureBroker, large: str
) -> None:
    cluster = secure.cluster("PASSWORD", options="client.id=slowed")
    clicks = Clicks(spark, tmp_path / "clicks", cluster, large, 40)
    secure.broker.create_topic("sent")
    outbox = SecureOutbox(spark, tmp_path / "outbox", cluster)
    outbox.change(*({"id": each} for each in range(SENT)))
    with quota(secure.broker, "consumer_byte_rate=150000,producer_byte_rate=100000"):
        began = time.monotonic()
        report = clicks.run()
        read = time.monotonic()
        outbox.run()
        sent = time.monotonic()
        waited = [throttled_seconds(spark, *metric) for metric in (FETCHES, PRODUCES)]

    assert (report.total("read"), report.total("written"), len(report.batches)) == (60, 60, 2)
    assert clicks.ids() == list(LARGE)
    assert (outbox.ledger(), kafka.end_offsets(secure.broker.cluster, "sent")) == (
        [("send", 0, SENT, SENT, 1)],
        {0: SENT},
    )
    assert min(waited) > 1, f"both clients were throttled: {waited}"
    assert (read - began > waited[0], sent - read > waited[1]) == (True, True)


def test_a_quota_that_throttles_is_a_transient_error_and_the_run_after_it_goes_on(
    spark: SparkSession, tmp_path: Path, secure: SecureBroker, large: str
) -> None:
    clicks = Clicks(spark, tmp_path, secure.cluster("PASSWORD", options="client.id=stopped"), large, 40)
    with (
        quota(secure.broker, "consumer_byte_rate=5000"),
        pytest.raises(SourceUnavailableError, match="topic 'large', cluster default of Kafka") as raised,
    ):
        clicks.run()
    assert raised.value.transient

    clicks.run()

    assert clicks.ids() == list(LARGE), "without the quota the same run ends"


class SecureOutbox(Outbox):
    """A table that is sent to the topic `sent` of a cluster."""

    def __init__(self, spark: SparkSession, folder: Path, cluster: Cluster) -> None:
        self.cluster = cluster
        super().__init__(spark, folder, KafkaSink("sent"))

    def job(self, kafka: str | None = None, **more: Any) -> Any:
        return dataclasses.replace(super().job(kafka, **more), clusters=lambda _: self.cluster)


@contextmanager
def quota(broker: Broker, rates: str) -> Iterator[None]:
    """Limit user `tide`, with Kafka's own tool."""

    def alter(act: str, names: str) -> None:
        tool = [str(java.find().executable), "-XX:TieredStopAtLevel=1", "-cp", class_path(PROJECT, "broker")]
        tool += ["kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter", act, names]
        command = [*tool, "--entity-type", "users", "--entity-name", "tide"]
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)

    alter("--add-config", rates)
    try:
        yield
    finally:
        alter("--delete-config", re.sub("=[^,]*", "", rates))


SENT = 10_000
FETCHES = ("kafka.consumer:type=consumer-fetch-manager-metrics", "fetch-throttle-time-max")
PRODUCES = ("kafka.producer:type=producer-metrics", "produce-throttle-time-max")
"""The metrics of Kafka's clients that say for how long brokers made them wait, in milliseconds."""


def throttled_seconds(spark: SparkSession, metrics: str, name: str) -> float:
    """The longest wait of the clients with id `slowed` in the JVM of the session, in about the last minute."""
    jvm: Any = spark._jvm

    def array(kind: Any, *members: Any) -> Any:
        made = spark._sc._gateway.new_array(kind, len(members))  # type: ignore[union-attr]
        for position, member in enumerate(members):
            made[position] = member
        return made

    # The class of the server is not open to py4j, the interface is.
    classes = [jvm.java.lang.Class.forName(each) for each in ("javax.management.ObjectName", "java.lang.String")]
    interface = jvm.java.lang.Class.forName("javax.management.MBeanServer")
    method = interface.getMethod("getAttribute", array(jvm.java.lang.Class, *classes))
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    of_client = jvm.javax.management.ObjectName(f"{metrics},client-id=slowed")
    return float(method.invoke(server, array(jvm.java.lang.Object, of_client, name))) / 1000
