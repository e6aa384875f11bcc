"""A new checkpoint of a topic starts after the last message of the same topic in bronze."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devstack.broker import Broker
from tests import topics
from tests.spark import job as orders
from tests.spark_files import Checkpoint
from tidegate.checkpoints import checkpoint, gap
from tidegate.checkpoints import topic as topics_of_checkpoints
from tidegate.errors import GapError, TopicReplacedError
from tidegate.lake.place import FlowPlace
from tidegate.probes import samples
from tidegate.spark.batch.topic_messages import reader_of as reader
from tidegate.spec import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

pytestmark = [pytest.mark.jvm, pytest.mark.kafka]

COLUMNS = "_topic string,_topic_id string,_partition int,_offset bigint"


@pytest.fixture
def source(broker: Broker, topic: str) -> KafkaSource:
    """A topic of four partitions with ten messages each."""
    broker.create_topic(topic, 4)
    for partition in range(4):
        topics.send(broker, topic, range(10), partition)
    return KafkaSource(topic=topic, schema="id INT", format="json")


@pytest.fixture
def make_job(spark: SparkSession, broker: Broker, source: KafkaSource, tmp_path: Path) -> Callable[[int], Job]:
    """Makes the flow's job for a checkpoint version."""

    def make(version: int) -> Job:
        flow = dataclasses.replace(orders.CLICKS, source=source)
        return orders.job_of(spark, tmp_path, flow, version=version, kafka=broker.bootstrap)

    return make


def id_of_topic(job: Job) -> str:
    """Kafka's id of the topic, which the checkpoint version is bound to from now on."""
    ((known, _),) = reader(job).bind()
    return known.topic_id


def starting_offsets(job: Job) -> str:
    return reader(job)._starting_offsets(reader(job).bind(), job.target)


def test_each_partition_starts_after_the_highest_offset_in_bronze(
    make_job: Callable[[int], Job], source: KafkaSource
) -> None:
    job, topic = make_job(2), source.topics[0]
    assert starting_offsets(job) == "earliest"
    topic_id = id_of_topic(job)
    orders.write_table(job.target, COLUMNS, ("another", topic_id, 1, 99), (topic, "another", 3, 99))
    assert starting_offsets(job) == "earliest", "bronze has no message of this topic"
    rows = [(topic, topic_id, partition, offset) for partition, offset in ((0, 7), (0, 3), (2, 0))]
    orders.write_table(job.target, COLUMNS, *rows)
    assert json.loads(starting_offsets(job)) == {topic: {"0": 8, "1": -2, "2": 1, "3": -2}}
    checkpoint.record_refresh_origin(job.place, checkpoint.Origin(mode="full_refresh"))
    assert starting_offsets(job) != "earliest"
    checkpoint.record_refresh_origin(job.place, checkpoint.Origin(mode="reingest"))
    assert starting_offsets(job) == "earliest"


def test_offsets_of_an_older_checkpoint_count_where_bronze_has_no_messages(
    make_job: Callable[[int], Job], source: KafkaSource
) -> None:
    job, topic = make_job(2), source.topics[0]
    orders.write_table(job.target, COLUMNS, (topic, id_of_topic(make_job(1)), 0, 7))
    Checkpoint(make_job(1).place.checkpoint).run(0, {topic: {"0": 9, "1": 0}})
    starts = json.loads(starting_offsets(job))
    assert starts == {topic: {"0": 9, "1": 0, "2": -2, "3": -2}}


def test_a_topic_that_was_created_again_is_read_by_the_next_version_from_its_beginning(
    make_job: Callable[[int], Job], source: KafkaSource, broker: Broker
) -> None:
    job, topic = make_job(1), source.topics[0]
    starting_offsets(job)
    recorded = topics_of_checkpoints.recorded(job.place)[topic]
    orders.write_table(job.target, COLUMNS, (topic, recorded.topic_id, 0, 4))
    topics.recreate(broker, topic, 4)
    for step in (
        lambda: starting_offsets(job),
        lambda: reader(job).check_same_topic(recorded),
    ):
        with pytest.raises(TopicReplacedError, match="Set checkpoint_version=2"):
            step()

    job = make_job(2)

    assert starting_offsets(job) == "earliest", "bronze has only messages of the old topic"
    before, recorded = recorded, topics_of_checkpoints.recorded(job.place)[topic]
    assert recorded.topic_id != before.topic_id
    reader(job).check_same_topic(recorded)


def test_a_partition_starts_after_deleted_messages_only_if_the_gap_was_accepted(
    make_job: Callable[[int], Job], source: KafkaSource, broker: Broker
) -> None:
    job, topic = make_job(2), source.topics[0]
    topic_id = id_of_topic(job)
    orders.write_table(job.target, COLUMNS, (topic, topic_id, 0, 3), (topic, topic_id, 1, 9))
    topics.delete_before(broker, topic, 6)
    for mode in ("full_refresh", "reingest"):
        checkpoint.record_refresh_origin(job.place, checkpoint.Origin(mode=mode))
        with pytest.raises(GapError, match=r"accept-gap orders clicks 0:4-5 "):
            starting_offsets(job)
    gap.accept(FlowPlace(job.place.layout, "orders", "clicks"), topic, topic_id, {0: (4, 5)}, by="ada", reason="tests")
    assert starting_offsets(job) == "earliest"
    checkpoint.record_refresh_origin(job.place, checkpoint.Origin(mode="full_refresh"))

    starts = json.loads(starting_offsets(job))

    assert starts == {topic: {"0": 6, "1": 10, "2": -2, "3": -2}}


def test_the_number_of_messages_in_a_batch_is_bounded_by_the_declared_bytes(
    make_job: Callable[[int], Job], source: KafkaSource, broker: Broker
) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for _ in range(30):
        producer.produce(source.topics[0], b"v" * 2000, b"k" * 20, 3, headers=[("four", b"1234")])
    assert producer.flush() == 0
    job = make_job(1)

    def max_offsets(starts: dict[int, int], **declared: Any) -> int:
        limited = dataclasses.replace(reader(job), source=dataclasses.replace(source, **declared))
        return limited.max_offsets_per_batch({source.topics[0]: starts})

    def next_messages() -> dict[int, int]:
        return reader(job)._next_messages(reader(job).bind())[source.topics[0]]

    assert samples.message_bytes(broker.cluster, source.topics[0], {3: 10}) == 2028
    assert max_offsets({3: 10}, max_bytes_per_trigger="1m") == 2**20 // 2028
    assert max_offsets({3: 10}, max_bytes_per_trigger="1k") == 1, "at least one message, however large"
    assert max_offsets({3: 10}, max_bytes_per_trigger="1g", max_offsets_per_trigger=7) == 7
    assert max_offsets({0: 0}, max_bytes_per_trigger="1m") == 2**20 // len('{"id": 0}')
    assert max_offsets({}, max_bytes_per_trigger="1m") == 1024, "without messages and rows the size is a constant"
    assert next_messages() == {0: 0, 1: 0, 2: 0, 3: 0}
    Checkpoint(job.place.checkpoint).run(0, {source.topics[0]: {"0": 10, "1": 4, "2": 10}})
    assert next_messages() == {1: 4, 3: 0}
