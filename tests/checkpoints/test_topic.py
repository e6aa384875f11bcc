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


def known(topic_id: str, name: str = "clicks") -> topic.CheckpointTopic:
    return topic.CheckpointTopic(topic=name, topic_id=topic_id, cluster_id="C")


def write_batch(at: Place, next_offset: int) -> None:
    Checkpoint(at.checkpoint).run(0, {"clicks": {"0": next_offset}})


def check(layout: Layout, topic_id: str, cluster_id: str = "C", version: int = 1) -> None:
    at = place(layout, version)
    topic.check(at, "clicks", topic_id=topic_id, cluster_id=cluster_id, cluster="host:1")


def test_a_version_keeps_the_topic_that_was_recorded_first(layout: Layout) -> None:
    check(layout, "A")
    topic.record(place(layout), [known("A")])
    topic.record(place(layout), [known("B")])

    assert topic.recorded(place(layout)) == {"clicks": known("A")}
    assert "others" not in TOPIC.path(place(layout)).read().data.decode()
    check(layout, "A")
    check(layout, "")
    with pytest.raises(
        TopicReplacedError, match=r"topic clicks of host:1 was deleted .* id A, .* id B\. .*Set checkpoint_version=2"
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
    topic.record(place(layout), [known("A")])

    assert topic.next_offsets(place(layout, 2), known("A")) == {0: 10}
    assert topic.next_offsets(place(layout, 2), known("B")) == {}


def test_a_topic_without_an_id_is_another_one_in_another_cluster(layout: Layout) -> None:
    """A broker older than 2.8 has no ids of topics."""
    write_batch(place(layout), 10)
    topic.record(place(layout), [known("")])

    assert topic.next_offsets(place(layout, 2), known("")) == {0: 10}
    assert topic.next_offsets(place(layout, 2), replace(known(""), cluster_id="D")) == {}
    assert topic.next_offsets(place(layout, 2), known("", "views")) == {}, "another name"


def test_a_version_that_began_somewhere_and_has_read_nothing_is_continued_there(layout: Layout) -> None:
    began = replace(known("A"), start="latest", starts={"0": 20, "1": 7}, skipped={"0": [0, 19]})
    topic.record(place(layout), [began])
    second = place(layout, 2)

    assert topic.next_offsets(second, known("A")) == {0: 20, 1: 7}
    assert topic.next_offsets(second, known("B")) == {}, "offsets of another topic"
    write_batch(place(layout), 25)
    assert topic.next_offsets(second, known("A")) == {0: 25, 1: 7}


def test_each_topic_of_a_version_is_recorded_once_and_continued_where_it_was_read(layout: Layout) -> None:
    first = place(layout)
    topic.record(first, [known("A"), known("V", "views")])
    Checkpoint(first.checkpoint).run(0, {"clicks": {"0": 10}, "views": {"0": 3, "1": 4}})
    topic.record(first, [known("A"), known("W", "views"), known("X", "later")])

    assert topic.recorded(first) == {"clicks": known("A"), "views": known("V", "views"), "later": known("X", "later")}
    assert topic.next_offsets(place(layout, 2), known("A")) == {0: 10}
    assert topic.next_offsets(place(layout, 2), known("V", "views")) == {0: 3, 1: 4}
    assert topic.next_offsets(place(layout, 2), known("X", "later")) == {}
    with pytest.raises(TopicReplacedError, match=r"topic views of host:1 was deleted"):
        topic.check(first, "views", topic_id="W", cluster_id="C", cluster="host:1")
