"""A new checkpoint of a topic starts behind what bronze holds of that very topic."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import topics
from tests.spark import flow_context as orders
from tests.written import Checkpoint
from tidegate.checkpoints import checkpoint, gap
from tidegate.checkpoints import topic as noted
from tidegate.embedded.broker import Broker
from tidegate.errors import GapError, TopicReplacedError
from tidegate.probes import kafka
from tidegate.spark.intake import sources
from tidegate.spec import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.context import FlowContext

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
def made(spark: SparkSession, broker: Broker, source: KafkaSource, tmp_path: Path) -> Callable[[int], FlowContext]:
    """The context of a checkpoint version."""

    def make(version: int) -> FlowContext:
        flow = dataclasses.replace(orders.CLICKS, source=source)
        context = orders.flow_context(spark, tmp_path, flow, version=version)
        context.kafka = broker.bootstrap
        return context

    return make


def test_each_partition_is_read_from_behind_the_highest_offset_that_bronze_holds(
    made: Callable[[int], FlowContext], source: KafkaSource
) -> None:
    context, topic = made(2), source.topic
    assert sources._starting_offsets(context, source) == "earliest"
    older = "_topic string,_partition int,_offset bigint"
    orders.stand(context.target, older, ("another", 1, 99))
    assert sources._starting_offsets(context, source) == "earliest", "of this topic it holds nothing"
    orders.stand(context.target, older, (topic, 0, 7), (topic, 0, 3), (topic, 2, 0))
    assert json.loads(sources._starting_offsets(context, source)) == {topic: {"0": 8, "1": -2, "2": 1, "3": -2}}
    checkpoint.note_opened(context.layout, context.ref, {"mode": "full_refresh"})
    assert sources._starting_offsets(context, source) != "earliest"
    checkpoint.note_opened(context.layout, context.ref, {"mode": "reingest"})
    assert sources._starting_offsets(context, source) == "earliest"


def test_an_older_checkpoint_tells_of_what_bronze_has_no_message(
    made: Callable[[int], FlowContext], source: KafkaSource
) -> None:
    context, topic = made(2), source.topic
    orders.stand(context.target, COLUMNS, (topic, None, 0, 7))
    Checkpoint(made(1).checkpoint).run(0, {topic: {"0": 9, "1": 0}})
    starts = json.loads(sources._starting_offsets(context, source))
    assert starts == {topic: {"0": 9, "1": 0, "2": -2, "3": -2}}


def test_a_topic_made_anew_is_read_by_the_next_version_from_its_beginning(
    made: Callable[[int], FlowContext], source: KafkaSource, broker: Broker
) -> None:
    context, topic = made(1), source.topic
    sources._starting_offsets(context, source)
    known = noted.noted(context.layout, "orders", "clicks", 1)
    assert known is not None and known.topic_id == known.unnamed
    orders.stand(context.target, COLUMNS, (topic, None, 0, 3), (topic, known.topic_id, 0, 4))
    topics.make_anew(broker, topic, 4)
    for step in (
        lambda: sources._starting_offsets(context, source),
        lambda: sources.check_topic(context, source, known),
    ):
        with pytest.raises(TopicReplacedError, match="Set checkpoint_version=2"):
            step()

    context = made(2)

    assert sources._starting_offsets(context, source) == "earliest", "bronze holds the old topic's messages alone"
    known = noted.noted(context.layout, "orders", "clicks", 2)
    assert known is not None and known.topic_id != known.unnamed
    sources.check_topic(context, source, known)


def test_a_partition_begins_behind_messages_that_are_gone_only_where_they_were_given_up(
    made: Callable[[int], FlowContext], source: KafkaSource, broker: Broker
) -> None:
    context, topic = made(2), source.topic
    orders.stand(context.target, COLUMNS, (topic, None, 0, 3), (topic, None, 1, 9))
    topics.delete_before(broker, topic, 6)
    for mode in ("full_refresh", "reingest"):
        checkpoint.note_opened(context.layout, context.ref, {"mode": mode})
        with pytest.raises(GapError, match=r"accept-gap orders clicks 0:4-5 "):
            sources._starting_offsets(context, source)
    known = noted.noted(context.layout, "orders", "clicks", 2)
    assert known is not None
    gap.accept(context.layout, "orders", "clicks", topic, known.topic_id, {0: (4, 5)}, by="ada", reason="tests")
    assert sources._starting_offsets(context, source) == "earliest"
    checkpoint.note_opened(context.layout, context.ref, {"mode": "full_refresh"})

    starts = json.loads(sources._starting_offsets(context, source))

    assert starts == {topic: {"0": 6, "1": 10, "2": -2, "3": -2}}


def test_a_batch_has_so_many_messages_as_fit_into_the_declared_bytes(
    made: Callable[[int], FlowContext], source: KafkaSource, broker: Broker
) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for _ in range(30):
        producer.produce(source.topic, b"v" * 2000, b"k" * 20, 3, headers=[("four", b"1234")])
    assert producer.flush() == 0
    context = made(1)

    def at_once(starts: dict[int, int], **declared: Any) -> int:
        return sources.offsets_at_once(context, dataclasses.replace(source, **declared), starts)

    assert kafka.message_bytes(broker.bootstrap, source.topic, {3: 10}) == 2028
    assert at_once({3: 10}, max_bytes_per_trigger="1m") == 2**20 // 2028
    assert at_once({3: 10}, max_bytes_per_trigger="1k") == 1, "one message is read, however large"
    assert at_once({3: 10}, max_bytes_per_trigger="1g", max_offsets_per_trigger=7) == 7
    assert at_once({0: 0}, max_bytes_per_trigger="1m") == 2**20 // len('{"id": 0}')
    assert at_once({}, max_bytes_per_trigger="1m") == 1024, "nothing can be looked at: a guess"
    assert sources._next_messages(context, source) == {0: 0, 1: 0, 2: 0, 3: 0}
    Checkpoint(context.checkpoint).run(0, {source.topic: {"0": 10, "1": 4, "2": 10}})
    assert sources._next_messages(context, source) == {1: 4, 3: 0}
