"""How far a flow is behind its topic, on a real broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pendulum
import pytest

from tests import topics
from tests.patience import PATIENCE
from tests.spark.flow_context import stand
from tests.status.place import CLICKS, PROJECT, Place
from tidegate.alerting.alerts import evaluate
from tidegate.checkpoints import checkpoint, intervention, lease
from tidegate.checkpoints import topic as noted_topic
from tidegate.embedded.broker import Broker
from tidegate.embedded.jars import class_path
from tidegate.errors import (
    GapError,
    LeaseHeldError,
    OffsetsExpiredError,
    OtherClusterError,
    RequestError,
    SourceError,
    SourceUnavailableError,
    TopicReplacedError,
)
from tidegate.ops import plans, store
from tidegate.probes import kafka
from tidegate.spec import Flow, KafkaSource, Pipeline
from tidegate.spec.thresholds import Thresholds
from tidegate.status import lag, lost, observation
from tidegate.status.standing import Standing


def test_without_a_broker_the_error_is_transient(place: Place) -> None:
    environment = replace(place.environment, kafka="127.0.0.1:1")
    (flow,) = CLICKS.flows
    with pytest.raises(SourceUnavailableError) as raised:
        lag.measure(environment, CLICKS, flow)
    assert raised.value.transient


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_topic_is_behind_by_its_offsets_and_says_when_they_are_gone(place: Place, broker: Broker, topic: str) -> None:
    from confluent_kafka import Producer, TopicPartition
    from confluent_kafka.admin import AdminClient

    environment = replace(place.environment, kafka=broker.bootstrap)
    (declared,) = CLICKS.flows
    flow = replace(declared, source=KafkaSource(topic=topic, schema="a INT"))
    pipeline = replace(CLICKS, flows=(flow,))

    def measured() -> lag.Lag:
        return lag.measure(environment, pipeline, flow)

    with pytest.raises(SourceError, match=f"no topic '{topic}'"):
        measured()
    broker.create_topic(topic, partitions=2)
    assert (measured().has_work, measured().first) == (False, True)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(30):
        producer.produce(topic, value="x" * 10, partition=number % 2)
    assert producer.flush(PATIENCE) == 0
    told = measured()
    assert (told.has_work, told.behind, told.rows, told.rows_exact, told.bytes_exact) == (True, 30, 30, True, False)
    assert (told.reason, told.ahead) == (f"30 new messages in topic {topic}", "offsets 0:0-14 1:0-14")

    checkpoint = place.checkpoint("bronze", dag="clicks")
    checkpoint.run(0, {topic: {"0": 15, "1": 10}})
    told = measured()
    assert (told.has_work, told.behind, told.position, told.first) == (True, 5, "0:15 1:10", False)
    assert told.ahead == "offsets 1:10-14"
    checkpoint.run(1, {topic: {"0": 15, "1": 15}})
    assert measured().has_work is False
    checkpoint.plan(2, {topic: {"0": 15, "1": 15}})
    assert measured().has_work is True
    checkpoint.commit(2)

    checkpoint.run(3, {topic: {"0": 15}})
    assert measured().behind == 15, "a partition that the checkpoint does not know is new"
    checkpoint.run(4, {topic: {"0": 99, "1": 15}})
    with pytest.raises(OffsetsExpiredError, match="made anew"):
        measured()
    checkpoint.run(5, {topic: {"0": 15, "1": 15, "2": 1}})
    with pytest.raises(OffsetsExpiredError, match="no longer has that partition"):
        measured()
    checkpoint.run(6, {topic: {"0": 3, "1": 15}})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        deleted.result(PATIENCE)
    with pytest.raises(OffsetsExpiredError, match="deleted at the broker before they were read"):
        measured()


class Clicks:
    """A pipeline that reads a topic of one partition, of which 10 messages were read."""

    def __init__(self, place: Place, broker: Broker, topic: str) -> None:
        self.place = place
        self.environment = replace(place.environment, kafka=broker.bootstrap)
        (declared,) = CLICKS.flows
        self.flow = replace(declared, source=KafkaSource(topic=topic, schema="id INT"))
        broker.create_topic(topic, 1)
        topics.send(broker, topic, range(10))
        place.checkpoint("bronze", dag="clicks").run(0, {topic: {"0": 10}})
        self.note(topic)

    def note(self, topic: str) -> None:
        """As a job does before it first reads."""
        found = kafka.look(self.environment.kafka, topic)
        known = noted_topic.Noted(topic=topic, topic_id=found.topic_id, cluster_id=found.cluster_id, unnamed="")
        noted_topic.note(self.place.layout, checkpoint.current(self.place.layout, self.pipeline(), self.flow), known)

    def pipeline(self, version: int = 1) -> Pipeline:
        return replace(CLICKS, flows=(self.flow_of(version),))

    def flow_of(self, version: int) -> Flow:
        return replace(self.flow, checkpoint_version=version)

    def measure(self, version: int = 1) -> lag.Lag:
        return lag.measure(self.environment, self.pipeline(version), self.flow_of(version))

    def give_up(
        self, offsets: dict[int, tuple[int, int]], reason: str = "they were tests"
    ) -> intervention.Intervention:
        return lost.give_up(self.environment, self.pipeline(), self.flow, offsets, by="ada", reason=reason)


@pytest.fixture
def clicks(place: Place, broker: Broker, topic: str) -> Clicks:
    return Clicks(place, broker, topic)


@pytest.mark.jvm
@pytest.mark.kafka
@pytest.mark.parametrize("sent", [15, 10, 4])
def test_a_topic_made_anew_is_told_however_far_it_goes_and_the_next_version_reads_all_of_it(
    clicks: Clicks, broker: Broker, topic: str, sent: int
) -> None:
    assert clicks.measure().has_work is False
    topics.make_anew(broker, topic)
    topics.send(broker, topic, range(100, 100 + sent))

    with pytest.raises(TopicReplacedError, match="Set checkpoint_version=2") as raised:
        clicks.measure()

    assert (raised.value.topic, raised.value.exit_code, raised.value.transient) == (topic, 78, False)
    pipeline = clicks.pipeline()
    (planned,) = lag.plan(clicks.environment, pipeline, pipeline.flows).lags
    assert (planned.failed, planned.reason) == (True, raised.value.message), "it is the error of that flow"
    told = clicks.measure(version=2)
    assert (told.behind, told.ahead, told.first) == (sent, f"offsets 0:0-{sent - 1}", True)


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_new_version_of_the_same_topic_goes_on_where_the_older_one_is(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    topics.send(broker, topic, range(10, 13))
    assert clicks.measure(version=2).ahead == "offsets 0:10-12"


@pytest.mark.jvm
@pytest.mark.kafka
def test_another_cluster_is_refused(clicks: Clicks, topic: str, tmp_path: Path) -> None:
    with Broker(tmp_path / "other", class_path=class_path(PROJECT, "broker")) as other:
        other.create_topic(topic, 1)
        clicks.environment = replace(clicks.environment, kafka=other.bootstrap)
        with pytest.raises(OtherClusterError, match=f"another Kafka cluster answers at {other.bootstrap}") as raised:
            clicks.measure()
        assert raised.value.exit_code == 78
        assert clicks.measure(version=2).first, "a person has said that the topic moved"


@pytest.mark.jvm
@pytest.mark.kafka
def test_messages_that_are_gone_are_given_up_by_name_and_reading_goes_on_behind_them(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    topics.send(broker, topic, range(10, 20))
    with pytest.raises(RequestError, match="nothing of the topic is gone"):
        clicks.give_up({0: (10, 14)})
    topics.delete_before(broker, topic, 15)
    for version in (1, 2):
        with pytest.raises(GapError, match=r"accept-gap clicks bronze 0:10-14 --reason") as raised:
            clicks.measure(version)
        assert (raised.value.exit_code, raised.value.lost) == (65, {"0": [10, 14]})
    for named in ({0: (10, 13)}, {0: (10, 15)}, {1: (10, 14)}, {}):
        with pytest.raises(RequestError, match="gone and not given up is 0:10-14"):
            clicks.give_up(named)
    with pytest.raises(RequestError, match="no reason"):
        clicks.give_up({0: (10, 14)}, reason=" ")
    resource = lease.checkpoint_resource("clicks", "bronze")
    with lease.hold(clicks.place.layout, (resource,), what="a run"), pytest.raises(LeaseHeldError):
        clicks.give_up({0: (10, 14)})
    assert intervention.history(clicks.place.layout, "clicks", "bronze") == []

    assert clicks.give_up({0: (10, 14)}).told().startswith(f"offsets 0:10-14 of topic {topic} given up by ada")

    for version in (1, 2):
        told = clicks.measure(version)
        assert (told.behind, told.ahead, told.has_work) == (5, "offsets 0:15-19", True)
    (line,) = store.select(clicks.place.layout.ops("clicks", "ledger"), "SELECT * FROM held")
    assert (line["kind"], line["app_id"], line["batch_id"]) == ("gap", "clicks/bronze/gap", 0)
    assert (line["read"], dict(line["filtered"])) == (5, {f"gap({topic} 0:10-14)": 5})
    assert (line["mode"], line["requested_by"]) == ("gap", "ada")
    topics.delete_before(broker, topic, 17)
    with pytest.raises(GapError, match=r" 0:15-16 "):
        clicks.measure()
    clicks.give_up({0: (15, 16)})
    assert clicks.measure().ahead == "offsets 0:17-19"
    lines = store.select(clicks.place.layout.ops("clicks", "ledger"), "SELECT batch_id FROM held ORDER BY batch_id")
    assert [each["batch_id"] for each in lines] == [0, 1]


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_batch_that_bronze_holds_was_read_although_its_checkpoint_does_not_say_so(
    clicks: Clicks, broker: Broker, topic: str
) -> None:
    topics.send(broker, topic, range(10, 20))
    topics.delete_before(broker, topic, 15)
    clicks.place.checkpoint("bronze", dag="clicks").plan(1, {topic: {"0": 20}})
    known = noted_topic.noted(clicks.place.layout, "clicks", "bronze", 1)
    assert known is not None
    columns = "_topic string,_topic_id string,_partition int,_offset bigint"
    rows = [(topic, known.topic_id, 0, offset) for offset in range(20)]
    stand(clicks.place.layout.table("bronze.clicks"), columns, *rows)

    assert clicks.measure().pending_batch == 1, "it is finished, and nothing is missing"
    stand(clicks.place.layout.table("bronze.clicks"), columns, *[(topic, "another", 0, offset) for offset in range(20)])
    with pytest.raises(GapError):
        clicks.measure()


@pytest.mark.jvm
@pytest.mark.kafka
def test_a_plan_warns_before_the_topic_deletes_what_was_not_read(
    clicks: Clicks, broker: Broker, topic: str, tmp_path: Path
) -> None:
    topics.send(broker, topic, range(10, 30))
    layout, warning = clicks.place.layout, "the topic will have deleted unread messages in ~"
    for begin in (2, 4):
        topics.delete_before(broker, topic, begin)
        told = clicks.measure()
        assert warning not in told.reason, "one jump or none tells no rate"
        plans.record(layout, "clicks", [told])
    assert [plan.begins for plan in plans.read(layout, "clicks", "bronze")] == [{0: 2}, {0: 4}]
    topics.delete_before(broker, topic, 6)

    told = clicks.measure()

    assert warning in told.reason
    assert (told.begins, told.unread) == ({0: 6}, {0: 10})
    stands = Standing(pipeline="clicks", flow="bronze", lag=told)
    now = pendulum.now("UTC")
    seen = observation.observe(layout, clicks.pipeline(), clicks.flow, stands, now)
    alerts = {alert.rule: alert.message for alert in evaluate(Thresholds(), seen, now).alerts}
    assert alerts["expiring"].startswith(warning)
    quiet = replace(clicks.flow, thresholds=Thresholds(expiry_runs=None))
    told = lag.measure(clicks.environment, replace(CLICKS, flows=(quiet,)), quiet)
    assert warning not in told.reason
    clicks.place.checkpoint("bronze", dag="clicks").run(1, {topic: {"0": 30}})
    assert clicks.measure().unread == {}, "all is read: nothing can be lost"
