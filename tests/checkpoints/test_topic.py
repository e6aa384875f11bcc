"""A checkpoint version belongs to one topic of one cluster; the check needs no broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.memory import MemoryLayout
from tests.spark_files import Checkpoint
from tidegate.checkpoints import topic
from tidegate.checkpoints.topic import TOPIC
from tidegate.errors import DamagedFileError, OtherClusterError, TopicReplacedError
from tidegate.lake.layout import Layout
from tidegate.lake.place import Place


@pytest.fixture
def layout() -> Layout:
    return MemoryLayout()


def place(layout: Layout, version: int = 1, refresh: int = 0) -> Place:
    return Place(layout, "clicks", "bronze", version, refresh)


def of_version(at: Place, topic_id: str) -> topic.CheckpointTopic:
    return topic.of_version(at, "clicks", topic_id=topic_id, cluster_id="C")


def write_batch(at: Place, next_offset: int) -> None:
    Checkpoint(at.checkpoint).run(0, {"clicks": {"0": next_offset}})


def check(layout: Layout, topic_id: str, cluster_id: str = "C", version: int = 1) -> None:
    at = place(layout, version)
    topic.check(at, "clicks", topic_id=topic_id, cluster_id=cluster_id, cluster="host:1")


def test_a_version_keeps_the_topic_that_was_recorded_first(layout: Layout) -> None:
    check(layout, "A")
    topic.record(place(layout), of_version(place(layout), "A"))
    topic.record(place(layout), topic.CheckpointTopic(topic="clicks", topic_id="B", cluster_id="C"))

    assert topic.recorded(place(layout)) == topic.CheckpointTopic(topic="clicks", topic_id="A", cluster_id="C")
    check(layout, "A")
    check(layout, "")
    with pytest.raises(
        TopicReplacedError, match=r"topic clicks was deleted .* id A, .* id B\. .*Set checkpoint_version=2"
    ):
        check(layout, "B")
    with pytest.raises(
        OtherClusterError, match=r"another Kafka cluster responds at host:1: .* cluster C, .* cluster D"
    ):
        check(layout, "B", cluster_id="D")
    check(layout, "B", cluster_id="D", version=2)


def test_a_damaged_topic_file_is_an_error(layout: Layout) -> None:
    path = TOPIC.path(place(layout))
    for text in ("{", "[]", '{"topic": "clicks"}', '{"topic":"t","topic_id":"\'","cluster_id":""}'):
        path.put(text.encode())
        with pytest.raises(DamagedFileError, match=r"v1\.topic\.json"):
            check(layout, "A")


def test_a_new_checkpoint_continues_after_all_older_ones_of_its_topic(layout: Layout) -> None:
    write_batch(place(layout), 10)
    write_batch(place(layout, 1, 1), 4)
    damaged = Checkpoint(place(layout, 1, 2).checkpoint)
    damaged.plan(0, {"clicks": {"0": 99}})
    (damaged.address / "commits" / "0").put(b"")
    same, other = of_version(place(layout, 2), "A"), of_version(place(layout, 2), "B")
    topic.record(place(layout), of_version(place(layout), "A"))

    assert topic.next_offsets(place(layout, 2), same) == {0: 10}
    assert topic.next_offsets(place(layout, 2), other) == {}


def test_a_topic_without_an_id_is_another_one_in_another_cluster(layout: Layout) -> None:
    """A broker older than 2.8 has no ids of topics."""
    write_batch(place(layout), 10)
    topic.record(place(layout), of_version(place(layout), ""))
    same = of_version(place(layout, 2), "")

    assert topic.next_offsets(place(layout, 2), same) == {0: 10}
    assert topic.next_offsets(place(layout, 2), replace(same, cluster_id="D")) == {}


def test_a_version_that_began_somewhere_and_has_read_nothing_is_continued_there(layout: Layout) -> None:
    began = replace(of_version(place(layout), "A"), start="latest", starts={"0": 20, "1": 7}, skipped={"0": [0, 19]})
    topic.record(place(layout), began)
    second = place(layout, 2)

    assert topic.next_offsets(second, of_version(second, "A")) == {0: 20, 1: 7}
    assert topic.next_offsets(second, of_version(second, "B")) == {}, "offsets of another topic"
    write_batch(place(layout), 25)
    assert topic.next_offsets(second, of_version(second, "A")) == {0: 25, 1: 7}
