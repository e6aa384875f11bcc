"""A message that Spark cannot read, or whose timestamp no table can hold, goes to quarantine alone; on a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from devstack.broker import Broker
from tests import topics
from tests.spark import job as orders
from tests.spark.reprocessing.test_verify import counts as verified_counts
from tests.spark.reprocessing.test_verify import verified
from tests.spark.test_topics import PROJECT, Clicks, counts
from tidegate.errors import GapError, RequestError, SourceError
from tidegate.ops import store
from tidegate.probes import messages
from tidegate.project import resolution
from tidegate.quarantine import lifecycle
from tidegate.quarantine.selection import Selection
from tidegate.runtime.jars import class_path
from tidegate.spark.batch import micro_batch
from tidegate.spark.reprocessing import replay
from tidegate.spec import Pipeline, TopicIntervals
from tidegate.times import dates
from tidegate.times.window import Window
from tidegate.trace import records
from tidegate.trace.lineage import Lineage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.jvm, pytest.mark.kafka]

FINE = 1_700_000_000_000
NANOSECONDS = FINE * 1_000_000
MICROSECONDS = FINE * 1000
SHIFTED = -62_135_596_800_000
"""0001-01-01, which Spark's connector makes 0001-01-03."""
LAST = dates.END_MS - 1
ANY_TIME = {"message_timestamp_after_max_ms": str(2**63 - 1), "message_timestamp_before_max_ms": str(2**63 - 1)}


class Odd(Clicks):
    """A flow that reads a topic which accepts any timestamp."""

    def __init__(
        self, spark: SparkSession, folder: Path, broker: Broker, topic: str, partitions: int = 1, **limits: Any
    ) -> None:
        broker.create_topic(topic, partitions)
        super().__init__(spark, folder, broker, topic, **limits)
        topics.configure(broker, topic, **ANY_TIME, retention_ms="-1")

    def send(self, *sent: int, partition: int = 0, first: int = 0) -> None:
        """A message for each timestamp; its id is its position, from ``first``."""
        for number, sent_ms in enumerate(sent, start=first):
            topics.send(self.broker, self.topic, [number], partition, sent_ms=sent_ms)

    def rows(self) -> list[Any]:
        """Bronze as Spark reads it, times as text."""
        table = self.spark.read.format("delta").load(str(self.job().live))
        return table.selectExpr("*", "string(_timestamp) AS at").drop("_timestamp").orderBy("_row_id").collect()

    def ids(self) -> list[int]:
        rows = self.rows()
        assert len({row["_row_id"] for row in rows}) == len(rows)
        return sorted(json.loads(row["value"])["id"] for row in rows)

    def entries(self) -> list[dict[str, Any]]:
        """The entries in quarantine, with their sources, by partition and offset."""
        entries = [
            {**entry, "source": json.loads(entry["source"])} for entry in orders.table(self.job().place.quarantine)
        ]
        assert {(entry["level"], *entry["rules"]) for entry in entries} <= {("message", messages.RULE)}
        return sorted(entries, key=lambda each: (each["source"]["partition"], each["source"]["offset"]))

    def refused(self) -> list[tuple[int, int]]:
        """Partition and offset of the entries."""
        return [(each["source"]["partition"], each["source"]["offset"]) for each in self.entries()]


@pytest.mark.nightly
def test_messages_out_of_range_go_to_quarantine_and_the_batch_has_all_others(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str
) -> None:
    odd = Odd(spark, tmp_path, broker, topic, 3, intervals=TopicIntervals(quiet_hours=6))
    odd.send(NANOSECONDS, FINE, MICROSECONDS, LAST, LAST + 1, dates.FIRST_MS, dates.FIRST_MS - 1, SHIFTED, FINE)
    odd.send(*[NANOSECONDS] * 3, partition=1, first=10)
    odd.send(FINE, partition=2, first=20)

    report = odd.run()

    assert odd.ids() == [1, 3, 5, 8, 20]
    assert odd.refused() == [(0, 0), (0, 2), (0, 4), (0, 6), (0, 7), (1, 0), (1, 1), (1, 2)]
    entries = odd.entries()
    assert [each["source"]["timestamp_ms"] for each in entries][:2] == [NANOSECONDS, MICROSECONDS]
    assert json.loads(entries[1]["record"]) == {"key": None, "value": '{"id": 2}'}
    (line,) = report.batches
    assert (line.read, line.written, line.quarantined, line.rules) == (13, 5, 8, {messages.RULE: 8})
    assert "KAFKA_MALFORMED_RECORD_TIMESTAMP" in report.notes[0]
    times = {row["_offset"]: row["at"] for row in odd.rows() if row["_partition"] == 0}
    assert (times[3], times[5]) == ("9999-12-31 23:59:59.999", "1582-10-15 00:00:00")
    measured = odd.measure()
    assert (measured.has_work, measured.completeness is not None) == (False, True)

    odd.send(FINE, first=30)
    assert counts(odd.run()) == (1, 1, 0)
    assert verified_counts(verified(odd.job())[0]) == (6, 0, 0, 0)


@pytest.mark.nightly
def test_a_batch_that_stopped_after_its_quarantine_is_completed_and_no_later_checkpoint_reads_its_messages_again(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("the process was killed here")

    def kill_before_the_target() -> None:
        with monkeypatch.context() as patched, pytest.raises(Exception, match="ConnectionError"):
            patched.setattr(micro_batch, "write_target", fail)
            odd.run()

    odd = Odd(spark, tmp_path, broker, topic)
    odd.send(FINE, NANOSECONDS, FINE)
    kill_before_the_target()
    assert (odd.rows() if odd.job().live.exists() else [], odd.refused()) == ([], [(0, 1)])
    (line,) = odd.run().batches
    assert (line.read, line.written, line.quarantined) == (3, 2, 1)
    assert (odd.ids(), odd.refused()) == ([0, 2], [(0, 1)])

    odd.send(SHIFTED, FINE, first=3)
    kill_before_the_target()
    assert odd.refused() == [(0, 1), (0, 3)]
    assert counts(odd.run(2)) == (2, 1, 1), "the message in quarantine is already read"
    assert (odd.ids(), odd.refused()) == ([0, 2, 4], [(0, 1), (0, 3)])
    assert counts(odd.run(2, mode="reingest")) == (5, 0, 5)
    assert (odd.ids(), odd.refused()) == ([0, 2, 4], [(0, 1), (0, 3)])
    assert {each["state"] for each in odd.entries()} == {"open"}, "no checkpoint judges them again"


@pytest.mark.nightly
def test_an_entry_that_is_replayed_stays_open_and_is_found_by_its_offset(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str
) -> None:
    odd = Odd(spark, tmp_path, broker, topic)
    odd.send(NANOSECONDS, FINE)
    odd.run()
    topics.delete_before(broker, topic, 2)
    job = odd.job(mode="replay")

    replay.replay_entries(job, Selection())

    (line,) = job.run.report.batches
    assert (line.kind, line.read, line.written, line.quarantined, line.imbalance()) == ("replay", 1, 0, 1, 0)
    assert lifecycle.entry_counts(job.place.quarantine).states == {"open": 1}
    assert [each["attempts"] for each in odd.entries()] == [1]
    assert odd.ids() == [1]
    pipeline = Pipeline(name="orders", flows=(odd.flow(),))
    lineage = Lineage(
        layout=job.place.layout, pipelines={"orders": resolution.resolve(pipeline, Path(job.place.layout.root), {})}
    )
    with pytest.raises(RequestError, match=r"the message is in quarantine for timestamp_out_of_range \(open\)"):
        records.find(lineage, records.Record(topic=topic, partition=0, offset=0))


@pytest.mark.nightly
def test_a_window_leaves_out_messages_out_of_range(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str
) -> None:
    odd = Odd(spark, tmp_path, broker, topic)
    odd.send(FINE, SHIFTED, FINE + 1, NANOSECONDS)
    odd.run()
    DeltaTable(str(odd.job().live)).delete("_offset = 2")

    report = odd.run(mode="reingest", window=Window.of_dates("2023-11-14", "2023-11-14", "UTC"))

    assert report.total("written") == 1
    assert (odd.ids(), odd.refused()) == ([0, 2], [(0, 1), (0, 3)])


@pytest.mark.parametrize(
    "bad",
    [{0, 11}, {5, 6}, set(range(12))],
    ids=["first and last", "middle", "all"],
)
@pytest.mark.nightly
def test_beside_aborted_transactions_exactly_the_bad_messages_are_refused_in_batches_as_planned(
    spark: SparkSession, tmp_path: Path, broker: Broker, topic: str, bad: set[int]
) -> None:
    from confluent_kafka import Producer

    odd = Odd(spark, tmp_path, broker, topic, isolation="read_committed", max_offsets_per_trigger=7)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for first in range(0, 12, 3):
        producer.begin_transaction()
        for number in range(first, first + 3):
            sent = NANOSECONDS if number in bad else FINE
            producer.produce(topic, json.dumps({"id": number}).encode(), timestamp=sent)
        producer.flush()
        producer.abort_transaction() if first == 3 else producer.commit_transaction()

    report = odd.run()

    committed = {*range(3), *range(6, 12)}
    assert odd.ids() == sorted(committed - bad)
    assert [json.loads(json.loads(each["record"])["value"])["id"] for each in odd.entries()] == sorted(committed & bad)
    assert len(report.batches) == 3, "16 offsets with the markers of transactions, seven at a time"
    lines = store.select(
        odd.job().place.of_pipeline.ops("ledger"),
        "SELECT read, written, quarantined FROM delta_table",
    )
    assert sum(line["read"] for line in lines) == len(committed)
    assert sum(line["quarantined"] for line in lines) == len(committed & bad)


@pytest.mark.nightly
def test_a_message_that_the_broker_has_damaged_is_named_and_passed_over_when_its_loss_is_accepted(
    spark: SparkSession, tmp_path: Path
) -> None:
    topic = "damaged"
    with Broker(tmp_path / "broker", class_path=class_path(PROJECT, "broker")) as broker:
        clicks = Clicks(spark, tmp_path, broker, topic)
        topics.send(broker, topic, [0])
        assert counts(clicks.run()) == (1, 1, 0)
        for number in (11, 22, 33):
            topics.send(broker, topic, [number])
        broker.stop()
        (segment,) = (tmp_path / "broker").rglob(f"{topic}-0/*.log")
        content = segment.read_bytes()
        assert content.count(b"22") == 1
        segment.write_bytes(content.replace(b"22", b"23"))
        broker.start()

        for _ in range(2):
            with pytest.raises(SourceError, match=r"partition 0: the broker cannot deliver the message at offset 2"):
                clicks.run()
        assert clicks.ids() == [0]

        topics.delete_before(broker, topic, 3)
        with pytest.raises(GapError, match="offsets 0:1-2"):
            clicks.run()
        clicks.accept_gap(1, 1, 2)
        assert counts(clicks.run()) == (1, 1, 0)
        assert clicks.ids() == [0, 33]
