"""The lag of a flow behind its topic, on a real broker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pendulum
import pytest

from devstack.broker import Broker
from tests import places, topics
from tests.resolved import resolved, resolved_flow
from tests.spark.job import write_table
from tests.status.sample_project import CLICKS, PROJECT, TRIPS, SampleProject
from tests.waiting import TIMEOUT_SECONDS, wait_until
from tidegate.alerting.alerts import evaluate
from tidegate.checkpoints import lease, overrides
from tidegate.checkpoints import topic as checkpoint_topic
from tidegate.checkpoints.topic import TOPIC
from tidegate.errors import (
    CheckpointIncompatibleError,
    GapError,
    LeaseHeldError,
    OffsetsExpiredError,
    OtherClusterError,
    RequestError,
    SourceError,
    SourceUnavailableError,
    TopicReplacedError,
)
from tidegate.lake.place import FlowPlace, PipelinePlace, Place
from tidegate.ops import plans, store
from tidegate.probes import kafka
from tidegate.runtime.jars import class_path
from tidegate.spec import AfterTables, Flow, KafkaSource, Pipeline
from tidegate.spec.limits import Thresholds
from tidegate.status import evaluation, lag, lost_messages, plan, source
from tidegate.status.reading import Reading


def test_without_a_broker_the_error_is_transient(project: SampleProject) -> None:
    environment = replace(project.environment, kafka="127.0.0.1:1")
    (flow,) = CLICKS.flows
    with pytest.raises(SourceUnavailableError) as raised:
        lag.measure(environment, resolved_flow(flow, CLICKS))
    assert raised.value.transient


@pytest.mark.jvm
@pytest.mark.kafka
def test_the_lag_of_a_topic_is_its_unread_offsets_and_missing_offsets_are_an_error(
    project: SampleProject, broker: Broker, topic: str
) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    environment = replace(project.environment, kafka=broker.bootstrap)
    (declared,) = CLICKS.flows
    flow = replace(declared, source=KafkaSource(topic=topic, schema="a INT"))
    pipeline = replace(CLICKS, flows=(flow,))

    def measure() -> Reading:
        return lag.measure(environment, resolved_flow(flow, pipeline))

    undelivered = measure()
    assert (undelivered.has_work, undelivered.committed is None, undelivered.backlog.behind) == (False, True, 0)
    assert undelivered.reason == f"not delivered yet: topic {topic} of Kafka does not exist"
    broker.create_topic(topic, partitions=2)
    assert (measure().has_work, (measure().committed is None)) == (False, True)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(30):
        producer.produce(topic, value="x" * 10, partition=number % 2)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    current = measure()
    assert (
        current.has_work,
        current.backlog.behind,
        current.backlog.rows,
        current.backlog.rows_exact,
        current.backlog.size_exact,
    ) == (
        True,
        30,
        30,
        False,
        False,
    )
    assert (current.reason, current.backlog.ahead) == (
        f"up to 30 new messages in topic {topic}",
        "offsets 0:0-14 1:0-14",
    )

    checkpoint = project.checkpoint("bronze", dag="clicks")
    checkpoint.run(0, {topic: {"0": 15, "1": 10}})
    current = measure()
    backlog = current.backlog
    assert (current.has_work, backlog.behind, backlog.position, current.committed is None) == (
        True,
        5,
        "0:15 1:10",
        False,
    )
    assert current.backlog.ahead == "offsets 1:10-14"
    checkpoint.run(1, {topic: {"0": 15, "1": 15}})
    assert measure().has_work is False
    checkpoint.plan(2, {topic: {"0": 15, "1": 15}})
    assert measure().has_work is True
    checkpoint.commit(2)

    checkpoint.run(3, {topic: {"0": 15}})
    assert measure().backlog.behind == 15, "a partition that the checkpoint does not know is new"
    checkpoint.run(4, {topic: {"0": 99, "1": 15}})
    with pytest.raises(OffsetsExpiredError, match="created again"):
        measure()
    checkpoint.run(5, {topic: {"0": 15, "1": 15, "2": 1}})
    with pytest.raises(OffsetsExpiredError, match="no longer has that partition"):
        measure()
    checkpoint.run(6, {topic: {"0": 3, "1": 15}})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        deleted.result(TIMEOUT_SECONDS)
    with pytest.raises(OffsetsExpiredError, match="deleted at the broker before they were read"):
        measure()


class Clicks:
    """A pipeline that has read 10 messages of a topic with one partition."""

    def __init__(self, project: SampleProject, broker: Broker, topic: str) -> None:
        self.project = project
        self.environment = replace(project.environment, kafka=broker.bootstrap)
        (declared,) = CLICKS.flows
        self.flow = replace(declared, source=KafkaSource(topic=topic, schema="id INT"))
        broker.create_topic(topic, 1)
        topics.send(broker, topic, range(10))
        project.checkpoint("bronze", dag="clicks").run(0, {topic: {"0": 10}})
        self.note(topic)

    def note(self, topic: str) -> None:
        """Record the topic's id, as a job does before its first read."""
        description = kafka.describe(self.environment.cluster("default"), topic)
        known = checkpoint_topic.CheckpointTopic(
            topic=topic, topic_id=description.topic_id, cluster_id=description.cluster_id
        )
        checkpoint_topic.record(places.current(self.project.layout, self.pipeline(), self.flow), [known])

    def pipeline(self, version: int = 1) -> Pipeline:
        return replace(CLICKS, flows=(self.flow_of(version),))

    def flow_of(self, version: int) -> Flow:
        return replace(self.flow, checkpoint_version=version)

    def measure(self, version: int = 1) -> Reading:
        return lag.measure(self.environment, resolved(self.pipeline(version)).flows[0])

    def accept_gap(
        self, offsets: dict[int, tuple[int, int]], reason: str = "they were tests", prefix: str = ""
    ) -> overrides.Override:
        return lost_messages.accept_gap(
            self.environment, resolved(self.pipeline()).flows[0], offsets, by="ada", reason=reason, prefix=prefix
        )


@pytest.fixture
def clicks(project: SampleProject, broker: Broker, topic: str) -> Clicks:
    return Clicks(project, broker, topic)


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.parametrize("sent", [15, 10, 4])
def test_a_recreated_topic_is_an_error_whatever_its_length_and_the_next_version_reads_all_of_it(
    clicks: Clicks, broker: Broker, topic: str, sent: int
) -> None:
    assert clicks.measure().has_work is False
    topics.recreate(broker, topic)
    topics.send(broker, topic, range(100, 100 + sent))

    with pytest.raises(TopicReplacedError, match="Set checkpoint_version=2") as raised:
        clicks.measure()

    assert (raised.value.topic, raised.value.exit_code, raised.value.transient) == (topic, 78, False)
    pipeline = clicks.pipeline()
    (planned,) = plan.decide(clicks.environment, resolved(pipeline), pipeline.flows).readings
    assert (planned.failed, planned.reason) == (True, raised.value.message), "it is the error of that flow"
    current = clicks.measure(version=2)
    backlog = current.backlog
    assert (backlog.behind, backlog.ahead, current.committed is None) == (
        sent,
        f"offsets 0:0-{sent - 1}",
        True,
    )


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_new_version_of_the_same_topic_continues_where_the_older_one_is(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    topics.send(broker, topic, range(10, 13))
    assert clicks.measure(version=2).backlog.ahead == "offsets 0:10-12"


@pytest.mark.jvm
@pytest.mark.kafka
def test_another_cluster_is_refused(clicks: Clicks, topic: str, tmp_path: Path) -> None:
    with Broker(tmp_path / "other", class_path=class_path(PROJECT, "broker")) as other:
        other.create_topic(topic, 1)
        clicks.environment = replace(clicks.environment, kafka=other.bootstrap)
        with pytest.raises(OtherClusterError, match=f"another Kafka cluster responds at {other.bootstrap}") as raised:
            clicks.measure()
        assert raised.value.exit_code == 78
        assert clicks.measure(version=2).committed is None, "a new version is a decision that the topic moved"


@pytest.mark.jvm
@pytest.mark.kafka
def test_exactly_the_lost_messages_are_accepted_as_a_gap_and_reading_continues_after_them(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    topics.send(broker, topic, range(10, 20))
    with pytest.raises(RequestError, match="no unread messages of the topic are missing"):
        clicks.accept_gap({0: (10, 14)})
    topics.delete_before(broker, topic, 15)
    for version in (1, 2):
        with pytest.raises(GapError, match=r"accept-gap clicks bronze 0:10-14 --reason") as raised:
            clicks.measure(version)
        assert (raised.value.exit_code, raised.value.lost) == (65, {"0": [10, 14]})
    for offsets in ({0: (10, 13)}, {0: (10, 15)}, {1: (10, 14)}, {}):
        with pytest.raises(RequestError, match="missing and not accepted: 0:10-14"):
            clicks.accept_gap(offsets)
    with pytest.raises(RequestError, match="reason is empty"):
        clicks.accept_gap({0: (10, 14)}, reason=" ")
    resource = lease.checkpoint_resource("clicks", "bronze")
    with lease.hold(clicks.project.layout, (resource,), what="a run"), pytest.raises(LeaseHeldError):
        clicks.accept_gap({0: (10, 14)})
    assert overrides.history(FlowPlace(clicks.project.layout, "clicks", "bronze")) == []

    assert (
        clicks.accept_gap({0: (10, 14)})
        .summary()
        .startswith(f"offsets 0:10-14 of topic {topic} accepted as a gap by ada")
    )

    for version in (1, 2):
        current = clicks.measure(version)
        backlog = current.backlog
        assert (backlog.behind, backlog.ahead, current.has_work) == (5, "offsets 0:15-19", True)
    (line,) = store.select(PipelinePlace(clicks.project.layout, "clicks").ops("ledger"), "SELECT * FROM delta_table")
    assert (line["kind"], line["app_id"], line["batch_id"]) == ("gap", "clicks/bronze/gap", 0)
    assert (line["read"], dict(line["filtered"])) == (5, {f"gap({topic} 0:10-14)": 5})
    assert (line["mode"], line["requested_by"]) == ("gap", "ada")
    topics.delete_before(broker, topic, 17)
    with pytest.raises(GapError, match=r" 0:15-16 "):
        clicks.measure()
    clicks.accept_gap({0: (15, 16)})
    assert clicks.measure().backlog.ahead == "offsets 0:17-19"
    lines = store.select(
        PipelinePlace(clicks.project.layout, "clicks").ops("ledger"),
        "SELECT batch_id FROM delta_table ORDER BY batch_id",
    )
    assert [each["batch_id"] for each in lines] == [0, 1]


@pytest.mark.jvm
@pytest.mark.kafka
def test_messages_in_bronze_are_no_gap_although_their_batch_is_not_committed(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    topics.send(broker, topic, range(10, 20))
    topics.delete_before(broker, topic, 15)
    clicks.project.checkpoint("bronze", dag="clicks").plan(1, {topic: {"0": 20}})
    known = checkpoint_topic.recorded(Place(clicks.project.layout, "clicks", "bronze", 1, 0))[topic]
    columns = "_topic string,_topic_id string,_partition int,_offset bigint"
    rows = [(topic, known.topic_id, 0, offset) for offset in range(20)]
    write_table(clicks.project.layout.table("bronze.clicks"), columns, *rows)

    assert clicks.measure().progress.pending_batch == 1, "the pending batch is finished first, and nothing is missing"
    write_table(
        clicks.project.layout.table("bronze.clicks"), columns, *[(topic, "another", 0, offset) for offset in range(20)]
    )
    with pytest.raises(GapError):
        clicks.measure()


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_plan_warns_before_the_topic_deletes_unread_messages(
    clicks: Clicks, broker: Broker, topic: str, tmp_path: Path
) -> None:
    topics.send(broker, topic, range(10, 30))
    layout, warning = clicks.project.layout, "the topic will delete unread messages in ~"
    for begin in (2, 4):
        topics.delete_before(broker, topic, begin)
        current = clicks.measure()
        assert warning not in current.reason, "no rate can be computed from fewer than two deletions"
        plans.record(PipelinePlace(layout, "clicks"), {"bronze": current.planned_lag})
    assert [plan.first_offsets for plan in plans.read(FlowPlace(layout, "clicks", "bronze"))] == [{"0": 2}, {"0": 4}]
    topics.delete_before(broker, topic, 6)

    current = clicks.measure()

    assert warning in current.reason
    backlog = current.backlog
    assert (backlog.first_offsets, backlog.unread) == ({"0": 6}, {"0": 10})
    alerts = {alert.rule: alert.message for alert in evaluate(Thresholds(), current).alerts}
    assert alerts["expiring"].startswith(warning)
    without_warning = replace(clicks.flow, thresholds=Thresholds(expiry_runs=None))
    current = lag.measure(clicks.environment, resolved_flow(without_warning, CLICKS))
    assert warning not in current.reason
    clicks.project.checkpoint("bronze", dag="clicks").run(1, {topic: {"0": 30}})
    assert clicks.measure().backlog.unread == {}, "everything is read, so nothing can be lost"


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.parametrize(("schedule", "warns"), [("0 0 * * 1", True), ("0 * * * *", False)])
def test_a_pipeline_that_follows_another_is_warned_by_the_interval_of_that_one(
    clicks: Clicks, broker: Broker, topic: str, schedule: str, warns: bool
) -> None:
    topics.send(broker, topic, range(10, 30))
    path = Path(PipelinePlace(clicks.project.layout, "clicks").plans)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for days, first in ((6, 0), (5, 3)):
            flows = {"bronze": {"behind": 1, "rows": 1, "first_offsets": {"0": first}}}
            file.write(json.dumps({"at": pendulum.now("UTC").subtract(days=days).isoformat(), "flows": flows}) + "\n")
    topics.delete_before(broker, topic, 6)
    following = Pipeline(name="clicks", schedule=AfterTables("silver.trips"), flows=(clicks.flow,))
    written_by = {"trips": replace(TRIPS, schedule=schedule), "clicks": following}

    current = lag.measure(clicks.environment, replace(resolved_flow(clicks.flow, following), declared=written_by))

    assert ("the topic will delete unread messages in ~4 d" in current.reason) is warns, current.reason


@pytest.mark.nightly
@pytest.mark.jvm
@pytest.mark.kafka
def test_the_alert_opens_before_retention_deletes_unread_messages_and_afterwards_the_gap_is_named(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    retained = f"{topic}-retained"
    # Segments are rolled and deleted by the timestamps of their messages: one for each hour.
    broker.create_topic(retained, 1, {"segment.ms": "60000"})
    now = pendulum.now("UTC")
    for hour in range(4):
        topics.send(broker, retained, range(5), sent_ms=int(now.subtract(hours=9 - hour).timestamp() * 1000))
    topics.send(broker, retained, range(5))
    clicks.flow = replace(clicks.flow, source=KafkaSource(topic=retained, schema="a INT"))
    clicks.project.checkpoint("bronze", dag="clicks").run(1, {retained: {"0": 15}})
    Path(TOPIC.path(Place(clicks.project.layout, "clicks", "bronze", 1, 0))).unlink()
    clicks.note(retained)

    def opened() -> dict[str, str]:
        named = [("clicks", resolved(clicks.pipeline()))]
        (alerts,) = evaluation.evaluate_pipelines(clicks.environment, named, pendulum.now("UTC"))
        rules = ("expiring", "unreadable")
        return {alert.rule: alert.message for each in alerts.findings for alert in each.alerts if alert.rule in rules}

    def retain(hours: float) -> None:
        topics.configure(broker, retained, retention_ms=str(round(hours * 3_600_000)))

    def first_offset() -> int:
        return kafka.offset_bounds(broker.cluster, retained)[0][0]

    assert opened() == {}, "the topic keeps all messages"
    retain(12.5)
    assert opened() == {}, "no unread message is older than half of the retention"
    retain(9.5)
    wait_until(lambda: bool(opened()), "the setting has arrived")
    assert opened()["expiring"].startswith("the topic will delete unread messages in ~3 h 2")
    assert "the topic will delete unread messages in ~3 h 2" in clicks.measure().reason
    assert first_offset() == 0, "nothing was deleted yet"

    retain(5.5)
    wait_until(lambda: first_offset() == 20, "the broker deletes segments")
    assert list(opened()) == ["unreadable"]
    assert "accept-gap clicks bronze 0:15-19" in opened()["unreadable"]
    clicks.accept_gap({0: (15, 19)})
    assert opened() == {}, "what is left is new"
    assert clicks.measure().backlog.ahead == "offsets 0:20-24"


@pytest.mark.jvm
@pytest.mark.kafka
def test_the_lag_of_several_topics_is_by_topic_and_one_that_does_not_exist_is_waited_for_until_it_was_read(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    second, third = f"{topic}.b", f"{topic}.c"
    names = (topic, second, third)
    clicks.flow = replace(clicks.flow, source=KafkaSource(topic=names, schema="id INT"))
    broker.create_topic(second, 1)
    topics.send(broker, second, range(4))
    topics.send(broker, topic, [10])

    current = clicks.measure()

    assert current.reason == (
        f"up to 1 new message in topic {topic}; up to 4 new messages in topic {second}; "
        f"topic {third} of Kafka does not exist yet"
    )
    backlog = current.backlog
    assert (backlog.behind, backlog.position) == (5, f"{topic} 0:10; {second} {source.NOTHING_READ}")
    assert backlog.ahead == f"{topic} offsets 0:10-10; {second} offsets 0:0-3"
    assert backlog.first_offsets == {f"{topic}/0": 0, f"{second}/0": 0}
    assert backlog.unread == {f"{topic}/0": 10, f"{second}/0": 0}
    clicks.flow = replace(clicks.flow, source=KafkaSource(topic=names, schema="id INT", missing="refuse"))
    with pytest.raises(SourceError, match=rf"topic {third} of .*\(cluster default\) does not exist, and missing="):
        clicks.measure()

    clicks.flow = replace(clicks.flow, source=KafkaSource(topic=(topic, second), schema="id INT"))
    clicks.project.checkpoint("bronze", dag="clicks").run(1, {topic: {"0": 11}, second: {"0": 2}})
    clicks.note(second)
    topics.delete_before(broker, second, 3)
    with pytest.raises(GapError, match=rf"accept-gap clicks bronze {second}/0:2-2 ") as lost:
        clicks.measure()
    assert (lost.value.topic, lost.value.lost) == (second, {"0": [2, 2]})
    for wrong in ("", f"{topic}/"):
        with pytest.raises(RequestError, match=rf"missing and not accepted: {second}/0:2-2"):
            clicks.accept_gap({0: (2, 2)}, prefix=wrong)
    clicks.accept_gap({0: (2, 2)}, prefix=f"{second}/")
    assert clicks.measure().backlog.ahead == f"{second} offsets 0:3-3"
    clicks.flow = replace(clicks.flow, source=KafkaSource(topic=topic, schema="id INT"))
    with pytest.raises(CheckpointIncompatibleError, match=rf"topic: '{second}' -> 'not declared'"):
        clicks.measure()
    clicks.flow = replace(clicks.flow, source=KafkaSource(topic=(topic, second), schema="id INT"))
    topics.recreate(broker, second)
    with pytest.raises(TopicReplacedError, match=rf"topic {second} of .*\(cluster default\) was deleted and created"):
        clicks.measure()
