"""Aborted messages are not read, and uncommitted messages are not pending."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devstack.broker import Broker
from tests.resolved import resolved_flow
from tests.spark import job as orders
from tidegate.environment import Environment
from tidegate.probes import kafka, samples
from tidegate.sources.topics import Isolation
from tidegate.spark.flow import run_flow
from tidegate.spec import Flow, KafkaSource, Pipeline
from tidegate.status import lag

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jvm, pytest.mark.kafka]


@pytest.fixture
def producer(broker: Broker, topic: str) -> Producer:
    """A transactional producer for a topic of one partition."""
    from confluent_kafka import Producer

    broker.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    return producer


def send(producer: Producer, topic: str, first: int, last: int) -> None:
    """Send messages with these ids in a transaction, and leave it open."""
    producer.begin_transaction()
    for number in range(first, last + 1):
        producer.produce(topic, json.dumps({"id": number}).encode())
    producer.flush()


def landing(topic: str, isolation: Isolation) -> Flow:
    return dataclasses.replace(orders.CLICKS, source=KafkaSource(topic=topic, schema="id INT", isolation=isolation))


@pytest.mark.parametrize(
    ("isolation", "read"),
    [
        ("read_committed", [1, 2, 3, 7, 8, 9]),
        pytest.param("read_uncommitted", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], marks=pytest.mark.nightly),
    ],
)
def test_aborted_messages_are_read_only_with_read_uncommitted(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    producer: Producer,
    tmp_path: Path,
    isolation: Isolation,
    read: list[int],
) -> None:
    for first, outcome in ((1, "commit"), (4, "abort"), (7, "commit"), (10, "abort")):
        send(producer, topic, first, first + 2)
        producer.commit_transaction() if outcome == "commit" else producer.abort_transaction()
    flow = landing(topic, isolation)
    job = orders.job_of(spark, tmp_path, flow, kafka=broker.bootstrap)

    run_flow(job)

    values = [json.loads(row["value"])["id"] for row in orders.table(job.target)]
    assert sorted(values) == read
    environment = Environment.read(
        {
            "TIDEGATE_LAKE": str(Path(job.place.layout.root)),
            "TIDEGATE_LANDING": str(job.place.layout.landing_root),
            "TIDEGATE_KAFKA": broker.bootstrap,
        }
    )
    pipeline = Pipeline(name=job.place.pipeline, flows=(flow,))
    assert lag.measure(environment, resolved_flow(flow, pipeline)).has_work is False


def test_messages_of_an_open_transaction_are_pending_only_after_its_commit(
    broker: Broker, topic: str, producer: Producer
) -> None:
    send(producer, topic, 1, 3)
    producer.commit_transaction()
    _, before = kafka.offset_bounds(broker.cluster, topic, isolation="read_committed")[0]
    assert samples.next_timestamps(broker.cluster, topic, {0: before}) == {0: None}
    send(producer, topic, 4, 6)
    assert kafka.offset_bounds(broker.cluster, topic, isolation="read_committed")[0] == (0, before)
    assert kafka.offset_bounds(broker.cluster, topic, isolation="read_uncommitted")[0] == (0, before + 3)
    assert samples.next_timestamps(broker.cluster, topic, {0: before})[0] is not None, "they may be of a day that ends"
    producer.commit_transaction()
    assert kafka.offset_bounds(broker.cluster, topic, isolation="read_committed")[0][1] > before + 3
    assert samples.next_timestamps(broker.cluster, topic, {0: before + 3}) == {0: None}, (
        "the end of a transaction is no message"
    )
