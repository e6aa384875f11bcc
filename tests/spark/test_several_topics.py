"""A flow that reads several topics: bronze has each message of each topic once, as a plain client reads them, on a real broker."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pendulum
import pytest
from deltalake import DeltaTable

from devstack.broker import Broker
from tests import topics
from tests.fault_points import aborted
from tests.resolved import resolved_flow
from tests.spark import job as orders
from tests.spark.reprocessing.test_verify import counts as verified_counts
from tests.spark.reprocessing.test_verify import verified
from tests.spark.test_odd_messages import ANY_TIME, FINE
from tests.spark.test_topics import Clicks, counts
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.checkpoints import progress
from tidegate.errors import (
    GapError,
    NotDeliveredError,
    SourceError,
    TopicReplacedError,
)
from tidegate.probes import kafka
from tidegate.spec import Flow, KafkaSource, Pipeline
from tidegate.status import lost_messages
from tidegate.times import dates
from tidegate.times.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jvm, pytest.mark.kafka, pytest.mark.nightly]

AFTER_BATCH = "after:record_batch:clicks"
Stored = dict[tuple[str, int, int], tuple[bytes | None, bytes | None, list[tuple[str, bytes]] | None, int]]
"""Topic, partition and offset to key, value, headers and milliseconds."""


class Shop(Clicks):
    """A landing flow that reads several topics; the first has two partitions."""

    def __init__(self, spark: SparkSession, folder: Path, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 2)
        super().__init__(spark, folder, broker, topic)
        self.names: tuple[str, ...] = (topic, f"{topic}.b")
        broker.create_topic(self.names[1], 1)

    def flow(self, version: int = 1) -> Flow:
        source = KafkaSource(topic=self.names, schema="id INT", **self.limits)
        return dataclasses.replace(orders.CLICKS, source=source, checkpoint_version=version)

    def send(self, nth: int, *ids: int, partition: int = 0, sent_ms: int = 0) -> None:
        topics.send(self.broker, self.names[nth], ids, partition, sent_ms=sent_ms)

    def declare(self, suffix: str) -> str:
        self.names = (*self.names, name := f"{self.topic}.{suffix}")
        return name

    def bronze(self) -> Stored:
        rows = orders.table(self.job().live)
        assert len({row["_row_id"] for row in rows}) == len(rows)
        return {
            (row["_topic"], row["_partition"], row["_offset"]): (
                row["key"],
                row["value"],
                None if row["headers"] is None else [(each["key"], each["value"]) for each in row["headers"]],
                round(row["_timestamp"].timestamp() * 1000),
            )
            for row in rows
        }

    def sent(self) -> Stored:
        """What a plain client reads of all partitions of the declared topics that exist."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {"bootstrap.servers": self.broker.bootstrap, "group.id": "plain", "enable.auto.commit": False}
        consumer = Consumer(settings | {"auto.offset.reset": "error", "log_level": 0})
        known = consumer.list_topics(timeout=TIMEOUT_SECONDS).topics
        parts = [(name, each) for name in self.names if name in known for each in known[name].partitions]
        stored: Stored = {}
        for name, partition in parts:
            first, end = consumer.get_watermark_offsets(TopicPartition(name, partition), TIMEOUT_SECONDS)
            consumer.assign([TopicPartition(name, partition, first)])
            for _ in range(first, end):
                message = consumer.poll(TIMEOUT_SECONDS)
                assert message is not None and message.error() is None
                content = (message.key(), message.value(), message.headers(), message.timestamp()[1])
                stored[name, partition, message.offset()] = content  # type: ignore[index, assignment]
        consumer.close()
        return stored

    def accept(self, nth: int, first: int, last: int, version: int = 1, prefix: str | None = None) -> None:
        flow = self.flow(version)
        resolved = resolved_flow(flow, Pipeline(name="orders", flows=(flow,)))
        prefix = f"{self.names[nth]}/" if prefix is None else prefix
        lost_messages.accept_gap(
            self.environment(), resolved, {0: (first, last)}, by="ada", reason="tests", prefix=prefix
        )

    def remove(self, nth: int) -> None:
        from confluent_kafka.admin import AdminClient

        name = self.names[nth]
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        admin.delete_topics([name])[name].result(TIMEOUT_SECONDS)

        def is_gone() -> bool:
            try:
                kafka.topic_id(self.broker.cluster, name)
            except NotDeliveredError:
                return True
            return False

        wait_until(is_gone, f"{name} is deleted")


def add_partition(broker: Broker, name: str) -> None:
    """Give a topic of one partition another one."""
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.create_partitions([NewPartitions(name, 2)])[name].result(TIMEOUT_SECONDS)
    wait_until(lambda: len(kafka.describe(broker.cluster, name).bounds) == 2, f"{name} has another partition")


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, broker: Broker, topic: str) -> Shop:
    return Shop(spark, tmp_path, broker, topic)


def test_increments_have_each_message_of_every_topic_and_a_topic_that_appears_is_read_from_its_first_message(
    shop: Shop, broker: Broker
) -> None:
    a, b = shop.names
    c = shop.declare("c")
    shop.send(0, *range(10))
    shop.send(0, *range(5), partition=1)
    shop.send(1, *range(7))
    planned = shop.measure()
    assert planned.reason == (
        f"up to 15 new messages in topic {a}; up to 7 new messages in topic {b}; topic {c} of Kafka does not exist yet"
    )
    assert planned.backlog.ahead == f"{a} offsets 0:0-9 1:0-4; {b} offsets 0:0-6"
    assert counts(shop.run()) == (22, 22, 0)
    assert shop.bronze() == shop.sent()

    broker.create_topic(c, 2)
    shop.send(2, *range(4), partition=1)
    shop.send(1, 7, 8)
    planned = shop.measure()
    assert planned.backlog.position == f"{a} 0:10 1:5; {b} 0:7; {c} nothing read"
    assert planned.backlog.ahead == f"{b} offsets 0:7-8; {c} offsets 1:0-3"
    report = shop.run()
    assert (counts(report), report.refresh) == ((6, 6, 0), 0)
    assert (shop.bronze(), shop.measure().has_work) == (shop.sent(), False)

    d = shop.declare("d")
    broker.create_topic(d, 1)
    shop.send(3, *range(6))
    topics.delete_before(broker, d, 2)
    shop.send(2, 4)
    report = shop.run()
    assert (counts(report), report.refresh) == ((5, 5, 0), 1), "Spark would read it from offset 0 on"
    assert shop.bronze() == shop.sent()
    assert verified_counts(verified(shop.job())[0]) == (len(shop.sent()), 0, 0, 0)
    DeltaTable(str(shop.job().live)).delete(f"_topic = '{b}' AND _offset > 2 OR _topic = '{c}'")
    today = pendulum.now("UTC")
    days = [day.to_date_string() for day in (today.subtract(days=1), today.add(days=1))]
    assert counts(shop.run(mode="reingest", window=Window.of_dates(days[0], days[1], "UTC"))) == (33, 11, 22)
    assert shop.bronze() == shop.sent()


def test_a_topic_that_loses_messages_disappears_or_is_created_again_stops_the_flow_and_nothing_is_lost(
    shop: Shop, broker: Broker
) -> None:
    a, b = shop.names
    for name in shop.names:
        topics.configure(broker, name, **ANY_TIME, retention_ms="-1")
    shop.send(0, *range(5), sent_ms=FINE)
    shop.send(0, 5, sent_ms=dates.END_MS)
    shop.send(1, *range(10), sent_ms=FINE)
    shop.send(1, 10, sent_ms=FINE * 1_000_000)
    (line,) = (report := shop.run()).batches
    assert (line.read, line.written, line.quarantined) == (17, 15, 2)
    assert f"offsets {a}/0:0-5 {b}/0:0-10 were read again message by message" in report.notes[0]
    before = {key: value for key, value in shop.sent().items() if value[3] < dates.END_MS}
    assert shop.bronze() == before

    shop.send(1, *range(11, 20), sent_ms=FINE)
    shop.send(0, 6, sent_ms=FINE)
    topics.delete_before(broker, b, 15)
    with pytest.raises(GapError, match=rf"topic {b} has lost .* accept-gap orders clicks {b}/0:11-14 "):
        shop.run()
    assert shop.bronze() == before
    shop.accept(1, 11, 14)
    report = shop.run()
    assert (counts(report), report.refresh) == ((6, 6, 0), 1)
    before |= {key: value for key, value in shop.sent().items() if value[3] < dates.END_MS}
    assert shop.bronze() == before

    shop.send(0, 7, sent_ms=FINE)
    shop.remove(1)
    for step in (shop.measure, shop.run):
        with pytest.raises(SourceError, match=rf"topic {b} of .*\(cluster default\) does not exist any more"):
            step()
    wait_until(lambda: broker.create_topic(b, 1), f"{b} is created again")
    shop.send(1, *range(3))
    with pytest.raises(TopicReplacedError, match=rf"topic {b} of .*\(cluster default\) was deleted and created"):
        shop.run()
    assert shop.bronze() == before
    assert counts(shop.run(2)) == (4, 4, 0), "a new version goes on with the other one"
    ids = [(row["_topic"], json.loads(row["value"])["id"]) for row in orders.table(shop.job(2).live)]
    assert sorted(ids) == sorted(
        [*((a, each) for each in (0, 1, 2, 3, 4, 6, 7)), *((b, each) for each in (*range(10), *range(15, 20), 0, 1, 2))]
    )


def test_a_start_holds_for_the_topics_of_the_first_run(shop: Shop, broker: Broker) -> None:
    shop.limits = {"start": "latest"}
    c = shop.declare("c")
    shop.send(0, *range(4))
    shop.send(1, *range(3))

    report = shop.run()

    skipped = [each for each in report.notes if "skipped at the start of v1" in each]
    assert (counts(report), len(skipped)) == ((0, 0, 0), 2)
    broker.create_topic(c, 1)
    shop.send(2, *range(5))
    shop.send(1, 3)
    assert counts(shop.run()) == (6, 6, 0), "one that appears is read from its first message"
    assert set(shop.bronze()) == {(c, 0, offset) for offset in range(5)} | {(shop.names[1], 0, 3)}


def test_what_appears_without_its_first_messages_is_read_after_a_whole_reingest_and_within_one(
    shop: Shop, broker: Broker, spark: SparkSession
) -> None:
    a, b = shop.names
    shop.limits = {"max_offsets_per_trigger": 6}
    shop.send(0, *range(10))
    shop.send(1, *range(7))
    shop.run()
    report = shop.run(mode="reingest")
    assert (counts(report), report.refresh) == ((17, 0, 17), 1)

    c = shop.declare("c")
    broker.create_topic(c, 1)
    shop.send(2, *range(6))
    topics.delete_before(broker, c, 2)
    add_partition(broker, b)
    shop.send(1, *range(5), partition=1)
    topics.delete_before(broker, b, 1, partition=1)
    assert shop.measure().backlog.ahead == f"{b} offsets 1:1-4; {c} offsets 0:2-5"
    report = shop.run()
    assert (counts(report), report.refresh) == ((8, 8, 0), 2), "it goes on after what was read"
    assert (shop.bronze(), shop.measure().has_work) == (shop.sent(), False)

    with aborted(AFTER_BATCH, shop.folder / "lake", spark, batch=1):
        shop.run(mode="reingest")
    position = progress.read(shop.job().place.checkpoint).last_committed
    assert position == 0, "it has read a part again"
    before = shop.bronze()
    topics.delete_before(broker, a, 8)
    d = shop.declare("d")
    broker.create_topic(d, 1)
    shop.send(3, *range(4))
    topics.delete_before(broker, d, 3)
    report = shop.run()
    assert (counts(report), report.refresh) == ((18, 1, 17), 4), "it begins again, as the rest would not be read again"
    assert shop.bronze() == before | shop.sent()
    assert shop.measure().has_work is False
