"""Silver of a compacted topic has the rows that a plain client has which keeps the last value of each key."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devstack.broker import Broker
from tests import places
from tests.resolved import resolved_flow
from tests.spark import job as orders
from tests.waiting import TIMEOUT_SECONDS
from tidegate.reports.report import FlowReport
from tidegate.spark import runs
from tidegate.spark.job import Job, load_kind
from tidegate.spec import ChangeFeed, ChangeRecords, Flow, KafkaSource, Pipeline, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jvm, pytest.mark.kafka, pytest.mark.nightly]


def test_messages_without_value_delete_the_rows_of_their_keys(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str
) -> None:
    source = KafkaSource(
        topic=topic,
        schema="id INT NOT NULL, city STRING NOT NULL, by STRING, position BIGINT NOT NULL",
        metadata={"id": "key", "by": "header.by", "position": "offset"},
        changes=ChangeRecords(no_value="delete"),
    )
    bronze = dataclasses.replace(orders.CLICKS, source=source)
    table = Table("silver.cities", keys=("id",), sequence_by=("position",))
    silver = Flow(name="cities", source=ChangeFeed("bronze.clicks"), target=table)
    pipeline = Pipeline(name="orders", flows=(bronze, silver))

    def run(flow: Flow) -> FlowReport:
        job = orders.job_of(spark, tmp_path, orders.CLICKS, kafka=broker.bootstrap)
        report = FlowReport(flow=flow.name, target=flow.target.name, checkpoint_version=1)
        own: Job = dataclasses.replace(
            job,
            resolved=resolved_flow(flow, pipeline),
            kind=load_kind(flow),
            place=places.current(job.place.layout, pipeline, flow),
            run=dataclasses.replace(job.run, report=report),
        )
        runs.load(own.run.request, flow)(own)
        assert [line.imbalance() for line in report.batches] == [0] * len(report.batches)
        return report

    broker.create_topic(topic, 2)
    waves = (
        [(1, "Rome"), (2, "Oslo"), (3, "Kiel"), (2, None), (4, "Bonn")],
        [(3, None), (2, "Bern"), (1, "Pisa"), (1, "Lodi"), (5, None), (6, 6.5)],
    )
    for wave in waves:
        send(broker, topic, wave)
        run(bronze)
        run(silver)

    layout = orders.job_of(spark, tmp_path, orders.CLICKS).place.layout
    rows = orders.table(layout.table("silver.cities"))
    kept = {row["id"]: row["city"] for row in rows if not row["_deleted"]}
    plain = {key: city for key, city in read(broker, topic).items() if city is not None}
    assert kept == plain == {1: "Lodi", 2: "Bern", 4: "Bonn", 6: "6.5"}
    assert {row["id"] for row in rows if row["_deleted"]} == {3, 5}
    assert {row["by"] for row in rows if not row["_deleted"]} == {"ada"}


def send(broker: Broker, topic: str, wave: list[tuple[int, Any]]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for key, city in wave:
        value = None if city is None else json.dumps({"city": city}).encode()
        producer.produce(topic, value, str(key).encode(), partition=key % 2, headers=[("by", b"ada")])
    assert producer.flush(TIMEOUT_SECONDS) == 0


def read(broker: Broker, topic: str) -> dict[int, str | None]:
    """The last value of each key, as a plain client reads it."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "plain", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    last: dict[int, str | None] = {}
    ended = 0
    while ended < 2:
        message = consumer.poll(TIMEOUT_SECONDS)
        assert message is not None
        if message.error() is not None:
            ended += 1
            continue
        key, value = message.key(), message.value()
        assert key is not None
        last[int(key)] = None if value is None else str(json.loads(value)["city"])
    consumer.close()
    return last
