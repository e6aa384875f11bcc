"""Flows that send a table to a Kafka topic: what consumers get after changes, crashes and failures of the broker."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pendulum
import pytest

from devstack.broker import Broker
from tests.deployment import Deployment
from tests.spark import job as orders
from tests.spark.kinds.outbox import Outbox
from tests.spark.orders import Declare, Orders, row
from tests.waiting import TIMEOUT_SECONDS
from tidegate.errors import SinkError, SinkUnavailableError
from tidegate.pages.site import export
from tidegate.project import resolution
from tidegate.spec import KafkaSink, Table
from tidegate.states import status_of
from tidegate.status.evaluation import evaluate_pipelines
from tidegate.status.flow_status import gather
from tidegate.store import Address
from tidegate.trace.lineage import Lineage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.jvm, pytest.mark.kafka]

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "sinks.md").read_text(encoding="utf-8")
NOWHERE = "127.0.0.1:1"
"""An address at which no broker listens."""


def block(title: str) -> dict[str, Any]:
    """What a code block of the guide defines."""
    (code,) = re.findall(rf"^```python {re.escape(title)}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    defined: dict[str, Any] = {}
    exec(compile(code, title, "exec"), defined)
    return defined


consume: Callable[[Any, dict[bytes, Any], dict[bytes, int]], None] = block("a consumer")["consume"]


class TopicOutbox(Outbox):
    """A table that is sent to a topic, and the consumers of the topic."""

    def __init__(self, spark: SparkSession, folder: Path, broker: Broker, topic: str) -> None:
        super().__init__(spark, folder, KafkaSink(topic), broker.bootstrap)
        self.broker, self.topic = broker, topic

    def messages(self) -> list[Any]:
        """All records of the topic, those of one partition in their order."""
        from confluent_kafka import Consumer, TopicPartition

        from tidegate.probes import kafka

        ends = kafka.end_offsets(self.broker.cluster, self.topic, TIMEOUT_SECONDS)
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "tests", "log_level": 0})
        try:
            consumer.assign([TopicPartition(self.topic, partition, 0) for partition in ends])
            read = consumer.consume(sum(ends.values()), TIMEOUT_SECONDS) if sum(ends.values()) else []
        finally:
            consumer.close()
        assert len(read) == sum(ends.values())
        return list(read)

    def consumed(self) -> list[dict[str, Any]]:
        """The rows of a consumer as in the guide that reads the whole topic."""
        rows: dict[bytes, Any] = {}
        versions: dict[bytes, int] = {}
        for message in self.messages():
            consume(message, rows, versions)
        return sorted(rows.values(), key=lambda row: int(row["id"]))


@pytest.fixture
def outbox(spark: SparkSession, tmp_path: Path, broker: Broker, topic: str) -> TopicOutbox:
    broker.create_topic(topic, 2)
    return TopicOutbox(spark, tmp_path, broker, topic)


def header(message: Any, name: str) -> str:
    return str(dict(message.headers())[name].decode())


def test_each_change_is_a_record_with_the_key_the_row_and_the_id_of_the_change(outbox: TopicOutbox) -> None:
    from datetime import UTC, datetime

    at = datetime(2026, 1, 1, 12, 30, 0, 250, tzinfo=UTC)
    outbox.change({"id": 1, "at": at, "amount": 5}, {"id": 2}, {"id": 3}, {"id": 4})
    assert (outbox.plan().has_work, outbox.plan().remarks) == (True, "")

    first = outbox.run()

    assert (first.run.report.target, first.run.report.batches[0].kind) == (f"kafka.{outbox.topic}", "send")
    outbox.change({"id": 1, "amount": 6}, {"id": 2, "_deleted": True}, removed=(3,))
    outbox.change({"id": 2, "amount": 7})
    assert outbox.plan().reads == "2 new versions of silver.orders"

    second = outbox.run()

    assert not outbox.plan().has_work
    assert not first.live.exists() and not first.place.quarantine.exists(), "there is no table but the ledger"
    by_key: dict[str, list[tuple[str, str, Any]]] = {}
    for message in outbox.messages():
        value = message.value()
        change = (header(message, "tidegate-version"), header(message, "tidegate-type"))
        by_key.setdefault(message.key().decode(), []).append((*change, value and json.loads(value)))
        assert re.fullmatch(rf"silver\.orders/{change[0]}/[0-9a-f]{{32}}", header(message, "tidegate-change"))
    nothing = {"at": None, "amount": None}
    assert by_key == {
        '{"id":1}': [
            ("1", "insert", {"id": 1, "at": "2026-01-01T12:30:00.000250Z", "amount": 5}),
            ("2", "update", {"id": 1, **nothing, "amount": 6}),
        ],
        '{"id":2}': [
            ("1", "insert", {"id": 2, **nothing}),
            ("2", "delete", None),
            ("3", "update", {"id": 2, **nothing, "amount": 7}),
        ],
        '{"id":3}': [("1", "insert", {"id": 3, **nothing}), ("2", "delete", None)],
        '{"id":4}': [("1", "insert", {"id": 4, **nothing})],
    }
    lines = [*first.run.report.batches, *second.run.report.batches]
    assert [(line.read, line.written, line.imbalance()) for line in lines] == [(4, 4, 0), (4, 4, 0)]
    assert outbox.ledger() == [("send", 0, 4, 4, 1), ("send", 1, 4, 4, 3)]


@pytest.mark.parametrize(
    "at",
    [
        "after:write_target",
        *[pytest.param(at, marks=pytest.mark.nightly) for at in ("before:write_target", "after:record_batch")],
    ],
)
def test_after_a_crash_the_same_records_are_sent_again_and_a_consumer_has_the_table(
    outbox: TopicOutbox, at: str
) -> None:
    outbox.change(*[{"id": number, "amount": number} for number in range(5)])
    outbox.run()
    outbox.change({"id": 0, "amount": 10}, {"id": 1, "_deleted": True}, removed=(2,))
    outbox.change({"id": 0, "amount": 11})

    outbox.run_and_crash(at)
    # What arrives after the batch was planned is in the next one.
    outbox.change({"id": 0, "amount": 12})
    assert outbox.plan().unfinished == "batch 1 was planned and not committed"
    outbox.run()

    messages = outbox.messages()
    sent = [(header(each, "tidegate-change"), each.key(), each.value(), each.partition()) for each in messages]
    twice = 0 if at == "before:write_target" else 4
    assert len(sent) - len(set(sent)) == twice, "the records of the batch are the same when they are sent again"
    assert len({change for change, *_ in sent}) == len(set(sent)) == 5 + 4 + 1
    assert outbox.consumed() == outbox.present() != []
    assert outbox.ledger() == [("send", 0, 5, 5, 1), ("send", 1, 4, 4, 3), ("send", 2, 1, 1, 4)]


@pytest.mark.nightly
def test_while_no_broker_answers_changes_wait_and_are_sent_later(outbox: TopicOutbox) -> None:
    outbox.change({"id": 1})
    with pytest.raises(SinkUnavailableError, match="no Kafka broker answers at"):
        outbox.run(kafka=NOWHERE)
    outbox.change({"id": 2})

    waiting = outbox.plan()

    assert (waiting.has_work, waiting.progress.pending_batch) == (True, 0)
    assert outbox.ledger() == []
    outbox.run()
    assert outbox.consumed() == outbox.present()
    assert [len(outbox.messages()), *outbox.ledger()] == [2, ("send", 0, 1, 1, 1), ("send", 1, 1, 1, 2)]


def test_a_topic_that_does_not_exist_is_not_created(outbox: TopicOutbox) -> None:
    outbox.flow = dataclasses.replace(outbox.flow, target=KafkaSink(f"{outbox.topic}-other"))
    outbox.change({"id": 1})
    for _ in range(2):
        with pytest.raises(SinkError, match="of Kafka does not exist") as refused:
            outbox.run()
        assert not refused.value.transient


@pytest.mark.nightly
def test_a_record_that_kafka_refuses_is_an_error_that_no_retry_removes(outbox: TopicOutbox) -> None:
    from tests import topics

    outbox.change({"id": 1, "amount": 1})
    topics.configure(outbox.broker, outbox.topic, max_message_bytes="10")
    with pytest.raises(SinkError, match="RecordTooLargeException") as refused:
        outbox.run()
    assert not refused.value.transient


@pytest.mark.nightly
def test_the_topic_alone_says_how_large_a_record_may_be(outbox: TopicOutbox) -> None:
    from tests import topics
    from tidegate.kinds.sinks import sends

    feed = orders.changes(outbox.spark, "id int, text string", (1, "x" * 2_000_000))
    split = sends.split_changes(outbox.job(), feed, 0)
    assert split is not None
    topics.configure(outbox.broker, outbox.topic, max_message_bytes="3000000")
    split.write(orders.transaction(outbox.job(), 0))
    (message,) = outbox.messages()
    assert len(message.value()) > 2_000_000


@pytest.mark.nightly
def test_a_new_version_sends_the_whole_table_again_and_its_plan_says_so(outbox: TopicOutbox) -> None:
    outbox.change({"id": 1, "amount": 1}, {"id": 2, "_deleted": True})
    outbox.change({"id": 1, "amount": 2}, {"id": 3})
    outbox.run()
    outbox.flow = dataclasses.replace(outbox.flow, checkpoint_version=2)
    again = f"v2 sends every row of silver.orders to kafka.{outbox.topic} again"
    assert outbox.plan().remarks == again and again in outbox.plan().reason

    outbox.run()

    assert outbox.consumed() == outbox.present()
    assert len(outbox.messages()) == 3 + 3, "the tombstone as well"
    assert (outbox.plan().has_work, outbox.plan().remarks) == (False, "")
    assert outbox.run(mode="full_refresh").run.report.batches == [], "a full refresh has no table to derive"


def test_a_key_that_one_commit_deletes_and_inserts_is_one_update(outbox: TopicOutbox) -> None:
    from tidegate.kinds.sinks import sends

    feed = orders.changes(
        outbox.spark,
        "id int, amount int",
        (1, 5, "delete", 4),
        (1, 6, "insert", 4),
        (2, 7, "update_preimage", 4),
        (2, 8, "update_postimage", 4),
        (2, 8, "delete", 5),
    )
    split = sends.split_changes(outbox.job(), feed, 0)
    assert split is not None
    assert (split.prepared.read, split.prepared.written, split.prepared.deduplicated) == (4, 3, 1)
    assert split.prepared.imbalance() == 0
    split.write(orders.transaction(outbox.job(), 0))
    sent = [(message.key(), header(message, "tidegate-type")) for message in outbox.messages()]
    assert sorted(sent) == [(b'{"id":1}', "update"), (b'{"id":2}', "delete"), (b'{"id":2}', "update")]


def test_rows_of_scopes_are_sent_without_their_tombstones(outbox: TopicOutbox) -> None:
    from tidegate.kinds.sinks import sends

    scoped = Table("silver.orders", keys=("id", "item"), replace_by=("id",), sequence_by=("at",))
    job = outbox.job()
    assert job.resolved.writer is not None
    writer = dataclasses.replace(job.resolved.writer, target=scoped)
    job = dataclasses.replace(job, resolved=dataclasses.replace(job.resolved, writer=writer))
    feed = orders.changes(outbox.spark, "id int, item int, _deleted boolean", (1, None, True), (2, 1, False))

    split = sends.split_changes(job, feed, 0)

    assert split is not None and split.prepared.read == 1


SENT = """        Flow(name="sent", source=ChangeFeed("gold.orders"), target=KafkaSink("{topic}")),
    ),
)
"""


@pytest.mark.nightly
def test_a_broker_that_is_away_stops_no_table_and_status_alert_and_page_say_so(
    deployment: Deployment, spark: SparkSession, declare: Declare, tmp_path: Path, broker: Broker, topic: str
) -> None:
    declare()
    declaration = tmp_path / "pipelines" / "orders.py"
    text = declaration.read_text().replace("    ),\n)\n", SENT.format(topic=topic)).replace("Flow,", "Flow, KafkaSink,")
    declaration.write_text(text)
    broker.create_topic(topic, 1)
    away, there = Orders(deployment.at(NOWHERE)), Orders(deployment.at(broker.bootstrap))
    away.land(row(1), row(2, at="2026-01-02"))

    report = away.run("bronze", "silver", "gold", "sent")

    assert {flow.flow: flow.state for flow in report.flows} == {
        "bronze": "done",
        "silver": "done",
        "gold": "done",
        "sent": "failed",
    }
    error = report.flow("sent").error
    assert error is not None and (error.kind, error.transient) == ("SinkUnavailableError", True)
    assert deployment.table("gold.orders").num_rows == 2
    resolved = resolution.load("orders", deployment.environment.project)
    now = pendulum.now("UTC")
    statuses = {each.flow: each for each in gather(away.deployment.environment, [("orders", resolved)], 60.0, now)}
    assert {name: status_of(each).name for name, each in statuses.items()} == {
        "bronze": "up to date",
        "silver": "up to date",
        "gold": "up to date",
        "sent": "failed",
    }
    assert "no Kafka broker answers" in status_of(statuses["sent"]).sentence
    (alerts,) = evaluate_pipelines(away.deployment.environment, [("orders", resolved)], now, 60.0)
    (findings,) = [each for each in alerts.findings if each.flow == "sent"]
    assert [alert.rule for alert in findings.alerts] == ["failed"]

    report = there.run("bronze", "silver", "gold", "sent")

    assert {flow.flow: flow.state for flow in report.flows} == {
        "bronze": "idle",
        "silver": "idle",
        "gold": "idle",
        "sent": "done",
    }
    (line,) = report.flow("sent").batches
    assert (line.kind, line.read, line.written) == ("send", 2, 2)
    lineage = Lineage(layout=deployment.layout, pipelines={"orders": resolved})
    bronze = resolved.flow("bronze")
    (silver,) = lineage.down(bronze, lineage.find(bronze, "true")[0]).next
    (gold,) = silver.next
    assert gold.notes == (f"orders/sent sends its changes to kafka.{topic}, which is not followed",)
    index = Path(export(deployment.layout, resolved.pipeline, Address.local(tmp_path / "pages")))
    (page,) = index.parent.glob("sent/*batch*.html")
    assert "2 rows read" in page.read_text() and f"kafka.{topic}" in index.read_text()
