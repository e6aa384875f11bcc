"""A new checkpoint of a topic starts behind what bronze holds of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark import flow_context as orders
from tidegate.checkpoints import checkpoint
from tidegate.embedded.broker import Broker
from tidegate.spark.intake import sources
from tidegate.spark.lake import sinks
from tidegate.spec import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jvm, pytest.mark.kafka]


def test_each_partition_is_read_from_behind_the_highest_offset_that_bronze_holds(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create_topic(topic, 4)
    source = KafkaSource(topic=topic, schema="id INT", format="json")
    context = orders.flow_context(spark, tmp_path, dataclasses.replace(orders.CLICKS, source=source), version=2)
    context.kafka = broker.bootstrap
    assert sources._starting_offsets(context, source) == "earliest"
    for batch_id, places in enumerate(([("another", 1, 99)], [(topic, 0, 7), (topic, 0, 3), (topic, 2, 0)])):
        rows = spark.createDataFrame(places, "_topic string, _partition int, _offset bigint")
        sinks.append(rows, context.target, orders.transaction(context, batch_id))
        if batch_id == 0:
            assert sources._starting_offsets(context, source) == "earliest", "of this topic it holds nothing"

    assert json.loads(sources._starting_offsets(context, source)) == {topic: {"0": 8, "1": -2, "2": 1, "3": -2}}

    checkpoint.note_opened(context.layout, context.ref, {"mode": "full_refresh"})
    assert sources._starting_offsets(context, source) != "earliest"
    checkpoint.note_opened(context.layout, context.ref, {"mode": "reingest"})
    assert sources._starting_offsets(context, source) == "earliest"
