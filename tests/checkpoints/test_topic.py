"""A checkpoint version belongs to one topic of one cluster; the check needs no broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_files import Checkpoint
from tidegate.checkpoints import topic
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.checkpoints.topic import TOPIC
from tidegate.errors import DamagedFileError, OtherClusterError, TopicReplacedError
from tidegate.layout import Layout
from tidegate.place import Place


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def ref(version: int = 1, refresh: int = 0) -> CheckpointRef:
    return CheckpointRef(dag_id="clicks", flow="bronze", version=version, refresh=refresh)


def of_version(layout: Layout, at: CheckpointRef, topic_id: str) -> topic.CheckpointTopic:
    return topic.of_version(layout, at, "clicks", topic_id=topic_id, cluster_id="C")


def write_batch(layout: Layout, at: CheckpointRef, next_offset: int) -> None:
    Checkpoint(at.path(layout)).run(0, {"clicks": {"0": next_offset}})


def check(layout: Layout, topic_id: str, cluster_id: str = "C", version: int = 1) -> None:
    topic.check(
        layout, "clicks", "bronze", version, "clicks", topic_id=topic_id, cluster_id=cluster_id, bootstrap="host:1"
    )


def test_a_version_keeps_the_topic_that_was_recorded_first(layout: Layout) -> None:
    check(layout, "A")
    topic.record(layout, ref(), of_version(layout, ref(), "A"))
    topic.record(layout, ref(), topic.CheckpointTopic(topic="clicks", topic_id="B", cluster_id="C"))

    assert topic.recorded(layout, "clicks", "bronze", 1) == topic.CheckpointTopic(
        topic="clicks", topic_id="A", cluster_id="C"
    )
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
    path = TOPIC.path(Place(layout, "clicks", "bronze", 1, 0))
    path.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"topic": "clicks"}', '{"topic":"t","topic_id":"\'","cluster_id":""}'):
        path.write_text(text)
        with pytest.raises(DamagedFileError, match=r"v1\.topic\.json"):
            check(layout, "A")


def test_a_new_checkpoint_continues_after_all_older_ones_of_its_topic(layout: Layout) -> None:
    write_batch(layout, ref(), 10)
    write_batch(layout, ref(1, 1), 4)
    damaged = Checkpoint(ref(1, 2).path(layout))
    damaged.plan(0, {"clicks": {"0": 99}})
    (damaged.path / "commits" / "0").write_text("")
    same, other = of_version(layout, ref(2), "A"), of_version(layout, ref(2), "B")
    topic.record(layout, ref(), of_version(layout, ref(), "A"))

    assert topic.next_offsets(layout, ref(2), same) == {0: 10}
    assert topic.next_offsets(layout, ref(2), other) == {}
