"""A reingest of a window reads what bronze lacks of it, in pieces, each once, and leaves the rest to the stream."""

from __future__ import annotations

import dataclasses
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.spark import flow_context as orders
from tidegate.layout import Layout
from tidegate.spark.batch import micro_batch
from tidegate.spark.context import FlowContext
from tidegate.spark.flow import run_flow
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import reingest, written_plan
from tidegate.spec import FileSource, Flow, KafkaSource
from tidegate.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.embedded.broker import Broker

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
WINDOW = Window.of_dates("2026-03-01", "2026-03-02", "UTC")


def two_at_once() -> Flow:
    source = cast("FileSource", orders.BRONZE.source)
    return dataclasses.replace(orders.BRONZE, source=dataclasses.replace(source, max_files_per_trigger=2))


def land(folder: Path, name: str, moment: datetime, content: str = '{"id": 1}\n') -> tuple[str, int]:
    path = folder / "landing" / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (moment.timestamp(), moment.timestamp()))
    return str(path), int(moment.timestamp() * 1000)


def piece(number: int, *files: tuple[str, int], **more: Any) -> reingest.Piece:
    window = dataclasses.asdict(WINDOW)
    fixed = {"request_id": "q", "window": window, "planned_at_ms": orders.PLANNED_MS, "requested_by": "ada"}
    return reingest.Piece(number=number, files=dict(files), **{**fixed, **more})


def pieces(folder: Path, *taken: reingest.Piece, flow: Flow | None = None) -> list[dict[str, int]]:
    flow = flow or two_at_once()
    context = SimpleNamespace(layout=Layout(folder / "lake", folder / "landing"), flow=flow)
    return [part["files"] for part in reingest._parts(cast("FlowContext", context), WINDOW, list(taken))]


def test_a_window_has_the_files_from_its_first_moment_to_before_its_end_oldest_first_in_pieces(tmp_path: Path) -> None:
    moments = {
        "before.json": FIRST - timedelta(milliseconds=1),
        "z.json": FIRST,
        "noon.json": FIRST + timedelta(hours=12),
        "last.json": FIRST + timedelta(days=2) - timedelta(milliseconds=1),
        "behind.json": FIRST + timedelta(days=2),
        "other.txt": FIRST,
    }
    landed = {name: land(tmp_path, name, moment) for name, moment in moments.items()}

    first, second = pieces(tmp_path)

    assert list(first.items()) == [landed["z.json"], landed["noon.json"]]
    assert list(second.items()) == [landed["last.json"]]


def test_what_a_piece_of_the_same_request_took_is_not_taken_again_unless_it_changed(tmp_path: Path) -> None:
    one, two = (land(tmp_path, f"{name}.json", FIRST) for name in "ab")
    earlier = (one[0], one[1] - 1)

    assert pieces(tmp_path, piece(0, one)) == [dict([two])]
    assert pieces(tmp_path, piece(0, one), piece(1, two)) == []
    assert pieces(tmp_path, piece(0, earlier, two)) == [dict([one])], "another time is another file"


@pytest.mark.jvm
class TestOfAnOrdinaryFlow:
    """The pieces go through the steps of a micro-batch, under the flow's lease."""

    @pytest.fixture
    def bronze(self, spark: SparkSession, tmp_path: Path) -> FlowContext:
        """The stream has read four files, and bronze lost what it held of three of them."""
        from deltalake import DeltaTable

        context = self.of(spark, tmp_path)
        for hour, name in enumerate("abcd"):
            land(tmp_path, f"{name}.json", FIRST + timedelta(hours=hour))
        land(tmp_path, "later.json", FIRST + timedelta(days=3))
        run_flow(context)
        DeltaTable(str(context.live)).delete("_path NOT LIKE '%d.json'")
        return context

    def of(self, spark: SparkSession, folder: Path, **asked: Any) -> FlowContext:
        return orders.flow_context(spark, folder, two_at_once(), **asked)

    def test_each_piece_is_written_down_taken_and_done_and_a_retry_finds_nothing_left(
        self, bronze: FlowContext, spark: SparkSession, tmp_path: Path
    ) -> None:
        asked = self.of(spark, tmp_path, mode="reingest", window=WINDOW)

        reingest.reingest(asked, WINDOW)
        reingest.reingest(asked, WINDOW)

        lines = asked.report.batches
        assert [(line.batch_id, line.files_opened, line.files_already_read) for line in lines] == [(0, 2, 0), (1, 1, 1)]
        assert {line.app_id for line in lines} == {"orders/bronze/v1/0/window"}
        rows = [row["_row_id"] for row in orders.table(asked.live)]
        assert len(rows) == len(set(rows)) == 4
        plans = [written_plan.read(asked, number) for number in written_plan.numbers(asked)]
        assert [(plan["number"], plan["done"], plan["request_id"]) for plan in plans] == [
            (0, True, asked.request.request_id),
            (1, True, asked.request.request_id),
        ]
        again = self.of(spark, tmp_path, mode="reingest", window=WINDOW)
        reingest.reingest(again, WINDOW)
        assert [(line.batch_id, line.files_already_read) for line in again.report.batches] == [(2, 2), (3, 2)], (
            "another request asks bronze, and has numbers of its own"
        )
        increment = self.of(spark, tmp_path)
        run_flow(increment)
        assert increment.report.batches == [], "the stream goes on where it was"

    def test_a_file_that_went_bad_is_set_aside_once(
        self, bronze: FlowContext, spark: SparkSession, tmp_path: Path
    ) -> None:
        land(tmp_path, "a.json", FIRST + timedelta(minutes=1), "")
        for expected in ([(1, 1, 0), (1, 0, 1)], [(0, 0, 2), (0, 0, 2)]):
            asked = self.of(spark, tmp_path, mode="reingest", window=WINDOW)
            reingest.reingest(asked, WINDOW)
            lines = asked.report.batches
            assert [(line.files_opened, line.files_quarantined, line.files_already_read) for line in lines] == expected
        assert len(orders.table(bronze.quarantine)) == 1

    def test_a_piece_that_had_begun_is_finished_once_and_one_that_had_not_is_forgotten(
        self, bronze: FlowContext, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def dies(*_: Any) -> None:
            raise ConnectionError("the process died here")

        asked = self.of(spark, tmp_path, mode="reingest", window=WINDOW)
        for step, begun in (("write_target", False), ("record_batch", True)):
            with monkeypatch.context() as patched:
                patched.setattr(micro_batch, step, dies)
                with pytest.raises(ConnectionError):
                    reingest.reingest(asked, WINDOW)
            (number,) = written_plan.numbers(asked)
            assert written_plan.has_begun(asked, number) is begun
            version = tables.version(spark, asked.live)
            later = self.of(spark, tmp_path)

            reingest.finish_pending(later)

            assert [line.files_opened for line in later.report.batches] == ([2] if begun else [])
            assert tables.version(spark, later.live) == version, "what the target holds is recorded, not written again"
            assert [written_plan.read(later, n)["done"] for n in written_plan.numbers(later)] == (
                [True] if begun else []
            )
        reingest.finish_pending(asked)
        reingest.reingest(asked, WINDOW)
        assert [line.files_opened for line in asked.report.batches] == [1], "the request goes on behind its first piece"


@pytest.mark.jvm
@pytest.mark.kafka
def test_the_offsets_of_a_window_are_cut_into_pieces_that_lose_none_and_overlap_nowhere(
    broker: Broker, topic: str
) -> None:
    from confluent_kafka import Producer

    broker.create_topic(topic, 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    for number in range(30):
        sent = FIRST + timedelta(days=number // 10, hours=12, seconds=number)
        producer.produce(topic, b"{}", partition=number % 3, timestamp=int(sent.timestamp() * 1000))
    assert producer.flush() == 0
    source = KafkaSource(topic=topic, schema="id INT", format="json", max_offsets_per_trigger=4)
    second_day = Window.of_dates("2026-03-02", "2026-03-02", "UTC")
    context = cast("FlowContext", SimpleNamespace(kafka=broker.bootstrap, flow=SimpleNamespace(source=source)))

    def parts(*taken: reingest.Piece) -> list[dict[str, list[int]]]:
        return [part["offsets"] for part in reingest._parts(context, second_day, list(taken))]

    def places(*parts: dict[str, list[int]]) -> list[tuple[int, int]]:
        return sorted((int(p), offset) for part in parts for p, cut in part.items() for offset in range(*cut))

    # Messages 10 to 19 are those of the day; each partition got every third message.
    whole = sorted((number % 3, number // 3) for number in range(10, 20))
    first, *others = parts()
    assert places(first, *others) == whole
    assert [len(places(part)) <= 4 + 2 for part in (first, *others)] == [True] * 3, "rounded for each partition"
    assert places(*parts(piece(0, offsets=first))) == sorted(set(whole) - set(places(first)))
    assert parts(*(piece(n, offsets=part) for n, part in enumerate((first, *others)))) == []
