"""Where a topic is read from first, as plans say it without a JVM, on a real broker."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from devstack.broker import Broker
from tests import places, topics
from tests.resolved import resolved, resolved_flow
from tests.status.sample_project import CLICKS, SampleProject
from tidegate.checkpoints import topic as checkpoint_topic
from tidegate.errors import CheckpointIncompatibleError, RequestError, SourceError
from tidegate.lake.place import Place
from tidegate.ops import ledger, store
from tidegate.probes import kafka
from tidegate.sources.topics import start as starts
from tidegate.spec import Flow, KafkaSource, Pipeline
from tidegate.status import lag
from tidegate.status.reading import Reading
from tidegate.trace import records
from tidegate.trace.lineage import Lineage

pytestmark = [pytest.mark.jvm, pytest.mark.kafka]
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
"""Not longer ago than the broker keeps messages."""


class Clicks:
    """A flow that has read nothing of a topic: 10 messages in partition 0, one an hour from noon on, and 5 at noon in partition 1."""

    def __init__(self, project: SampleProject, broker: Broker, topic: str) -> None:
        self.project, self.topic = project, topic
        self.environment = replace(project.environment, kafka=broker.bootstrap)
        broker.create_topic(topic, 2)
        for hour in range(10):
            topics.send(broker, topic, [hour], sent_ms=int((NOON + timedelta(hours=hour)).timestamp() * 1000))
        topics.send(broker, topic, range(5), 1, sent_ms=int(NOON.timestamp() * 1000))

    def flow(self, start: str, version: int = 1) -> Flow:
        source = KafkaSource(topic=self.topic, schema="id INT", start=start)
        return replace(CLICKS.flows[0], source=source, checkpoint_version=version)

    def pipeline(self, flow: Flow) -> Pipeline:
        return replace(CLICKS, flows=(flow,))

    def measure(self, start: str, version: int = 1) -> Reading:
        flow = self.flow(start, version)
        return lag.measure(self.environment, resolved_flow(flow, self.pipeline(flow)))

    def begin(self, start: str) -> Place:
        """Record where a version begins, as a job does before its first read."""
        flow = self.flow(start)
        assert isinstance(flow.source, KafkaSource)
        cluster, place = (
            self.environment.cluster("default"),
            places.current(self.project.layout, self.pipeline(flow), flow),
        )
        now = kafka.describe(cluster, self.topic)
        known = checkpoint_topic.CheckpointTopic(topic=self.topic, topic_id=now.topic_id, cluster_id=now.cluster_id)
        starts.record(place, flow.source, [(known, starts.opening(cluster, flow.source, now, place, dict))])
        return place


@pytest.fixture
def clicks(project: SampleProject, broker: Broker, topic: str) -> Clicks:
    return Clicks(project, broker, topic)


def test_a_plan_says_which_offsets_a_start_skips_and_what_is_read(clicks: Clicks, broker: Broker, topic: str) -> None:
    at = NOON + timedelta(hours=6, minutes=30)
    for start, skips, ahead in (
        ("earliest", None, "offsets 0:0-9 1:0-4"),
        ("latest", "skips 15 offsets (0:0-9, 10; 1:0-4, 5)", ""),
        (at.isoformat(), "skips 12 offsets (0:0-6, 7; 1:0-4, 5)", "offsets 0:7-9"),
        (NOON.isoformat(), "skips 0 offsets", "offsets 0:0-9 1:0-4"),
        ("0:8", "skips 8 offsets (0:0-7, 8)", "offsets 0:8-9 1:0-4"),
        ("0:10 1:5", "skips 15 offsets (0:0-9, 10; 1:0-4, 5)", ""),
    ):
        current = clicks.measure(start)
        assert (current.has_work, current.backlog.ahead) == (True, ahead), start
        assert (skips or "15 new messages") in current.reason and ("skips" in current.reason) is (skips is not None)

    begun = clicks.measure("latest")
    assert begun.backlog.behind == 0, "the run has to record where the flow begins"
    clicks.begin("latest")
    assert clicks.measure("latest").has_work is False
    topics.send(broker, topic, [20, 21])
    assert clicks.measure("latest").backlog.ahead == "offsets 0:10-11", "the start is where the topic ended then"
    topics.delete_before(broker, topic, 3)
    assert clicks.measure("latest").backlog.ahead == "offsets 0:10-11", "what was skipped may be deleted"


def test_a_start_that_is_not_in_the_topic_is_an_error_of_the_declaration(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    topics.delete_before(broker, topic, 3)
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for start, message in (
        (
            "0:11",
            r"partition 0: start='0:11' names offset 11, .* from offset 3 on and ends at 10.* Name an offset from 3 to 10",
        ),
        ("0:2", "names offset 2, and the partition has messages from offset 3 on"),
        ("0:5 7:0", "has no partition 7, which start='0:5 7:0' names: it has 2 partitions, from 0 on"),
        (tomorrow, "its start .* is in the future.* Set start to a time in the past"),
    ):
        with pytest.raises(SourceError, match=message) as raised:
            clicks.measure(start)
        assert (raised.value.exit_code, raised.value.transient) == (78, False)
    after_all = (NOON + timedelta(hours=9, seconds=1)).isoformat()
    assert "skips 12 offsets" in clicks.measure(after_all).reason, "the first message at or after it is still to come"


def test_another_start_needs_a_new_version_which_skips_what_is_unread(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    clicks.begin("0:2")
    clicks.project.checkpoint("bronze", dag="clicks").run(0, {topic: {"0": 4, "1": 5}})
    assert clicks.measure("0:2").backlog.ahead == "offsets 0:4-9"
    with pytest.raises(CheckpointIncompatibleError, match=r"start: '0:2' -> 'latest'.*checkpoint_version=2"):
        clicks.measure("latest")

    assert "skips 6 offsets (0:4-9, 6)" in clicks.measure("latest", version=2).reason
    assert clicks.measure("earliest", version=2).backlog.ahead == "offsets 0:4-9", "it goes on, and never back"
    assert "skips 0 offsets" in clicks.measure("0:1", version=2).reason
    assert clicks.measure("0:1", version=2).backlog.ahead == "offsets 0:4-9"
    topics.delete_before(broker, topic, 6)
    assert clicks.measure("latest", version=2).backlog.ahead == "", "the gap is among what is skipped"


def test_a_start_is_one_decision_in_the_ledger_and_says_why_a_message_is_not_in_bronze(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    place = clicks.begin("0:7 1:2")
    topics.send(broker, topic, [20])

    (decision,) = starts.record_decisions(place)
    assert decision.offsets_text == "0:0-6 1:0-1"
    summary = f"offsets 0:0-6 1:0-1 of topic {topic} skipped at the start of v1 by the declaration on "
    assert decision.summary().startswith(summary) and decision.summary().endswith(": start='0:7 1:2'")
    assert starts.record_decisions(place) == [], "another attempt at the first run"
    for _ in range(2):
        ledger.record_gaps(place)
    (line,) = store.select(
        place.of_pipeline.ops("ledger"), "SELECT kind, read, filtered, requested_by FROM delta_table"
    )
    assert (line["kind"], line["read"], line["requested_by"]) == ("gap", 9, "the declaration")
    assert dict(line["filtered"]) == {f"start({topic} 0:0-6)": 7, f"start({topic} 1:0-1)": 2}

    pipeline = clicks.pipeline(clicks.flow("0:7 1:2"))
    lineage = Lineage(layout=clicks.project.layout, pipelines={"clicks": resolved(pipeline)})
    with pytest.raises(
        RequestError, match=r"no record of .*/0/6: offsets 0:0-6 1:0-1 of topic .* skipped at the start of v1"
    ):
        records.find(lineage, records.Record(topic=topic, partition=0, offset=6))
    with pytest.raises(RequestError, match="of that partition it has none"):
        records.find(lineage, records.Record(topic=topic, partition=0, offset=7))
