"""A checkpoint version belongs to one topic of one cluster; what is noted of it is compared without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.written import Checkpoint
from tidegate.checkpoints import topic
from tidegate.checkpoints.checkpoint import CheckpointRef
from tidegate.errors import CheckpointCorruptError, OtherClusterError, TopicReplacedError
from tidegate.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "lake", tmp_path / "landing")


def ref(version: int = 1, refresh: int = 0) -> CheckpointRef:
    return CheckpointRef(dag_id="clicks", flow="bronze", version=version, refresh=refresh)


def of_version(layout: Layout, at: CheckpointRef, topic_id: str, end: int = 100) -> topic.Noted:
    return topic.of_version(layout, at, "clicks", topic_id=topic_id, cluster_id="C", ends={0: end})


def ran(layout: Layout, at: CheckpointRef, behind: int) -> None:
    Checkpoint(at.path(layout)).run(0, {"clicks": {"0": behind}})


def check(layout: Layout, topic_id: str, cluster_id: str = "C", version: int = 1) -> None:
    topic.check(
        layout, "clicks", "bronze", version, "clicks", topic_id=topic_id, cluster_id=cluster_id, bootstrap="host:1"
    )


def test_a_version_keeps_the_topic_that_was_noted_first(layout: Layout) -> None:
    check(layout, "A")
    topic.note(layout, ref(), of_version(layout, ref(), "A"))
    topic.note(layout, ref(), topic.Noted(topic="clicks", topic_id="B", cluster_id="C", unnamed=""))

    assert topic.noted(layout, "clicks", "bronze", 1) == topic.Noted(
        topic="clicks", topic_id="A", cluster_id="C", unnamed="A"
    )
    check(layout, "A")
    check(layout, "")
    with pytest.raises(
        TopicReplacedError, match=r"topic clicks was deleted .* id A, .* id B. Set checkpoint_version=2"
    ):
        check(layout, "B")
    with pytest.raises(OtherClusterError, match=r"another Kafka cluster answers at host:1: .* cluster C, .* cluster D"):
        check(layout, "B", cluster_id="D")
    check(layout, "B", cluster_id="D", version=2)


def test_what_is_noted_and_cannot_be_read_is_told(layout: Layout) -> None:
    path = layout.topic("clicks", "bronze", 1)
    path.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"topic": "clicks"}', '{"topic":"t","topic_id":"\'","cluster_id":"","unnamed":""}'):
        path.write_text(text)
        with pytest.raises(CheckpointCorruptError, match=r"v1\.topic\.json"):
            check(layout, "A")


def test_rows_of_an_older_tidegate_are_of_the_topic_that_was_first_noted(layout: Layout) -> None:
    ran(layout, ref(), 10)
    first = of_version(layout, ref(), "A")
    assert (first.unnamed, first.holds(None), first.holds("A"), first.holds("B")) == ("A", True, True, False)
    topic.note(layout, ref(), first)

    second = of_version(layout, ref(2), "B")

    assert (second.unnamed, second.holds(None), second.holds("B")) == ("A", False, True)


def test_a_checkpoint_that_read_further_than_the_topic_goes_did_not_read_it(layout: Layout) -> None:
    ran(layout, ref(), 10)
    made_anew = of_version(layout, ref(2), "B", end=4)
    assert (made_anew.unnamed, made_anew.holds(None)) == ("", False)
    assert topic.read_up_to(layout, ref(2), made_anew) == {}


def test_a_new_checkpoint_goes_on_behind_all_older_ones_of_its_topic(layout: Layout) -> None:
    ran(layout, ref(), 10)
    ran(layout, ref(1, 1), 4)
    torn = Checkpoint(ref(1, 2).path(layout))
    torn.plan(0, {"clicks": {"0": 99}})
    (torn.path / "commits" / "0").write_text("")
    same, anew = of_version(layout, ref(2), "A"), of_version(layout, ref(2), "B")
    assert topic.read_up_to(layout, ref(2), same) == {0: 10}, "nothing is noted: it was of the topic that is there now"
    topic.note(layout, ref(), of_version(layout, ref(), "A"))

    assert topic.read_up_to(layout, ref(2), same) == {0: 10}
    assert topic.read_up_to(layout, ref(2), anew) == {}
