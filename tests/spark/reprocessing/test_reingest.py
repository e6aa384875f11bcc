"""Reingest of a window: reads files or messages that are not in bronze, in pieces, each of them once."""

from __future__ import annotations

import dataclasses
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.spark import job as orders
from tidegate.kinds.messages import run as messages_kind
from tidegate.lake.layout import Layout
from tidegate.spark.batch import micro_batch
from tidegate.spark.flow import run_flow
from tidegate.spark.job import Job, load_kind
from tidegate.spark.lake import tables
from tidegate.spark.reprocessing import pending_work, reingest
from tidegate.spec import FileSource, Flow, Intervals, KafkaSource
from tidegate.status import intervals
from tidegate.times.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from devstack.broker import Broker

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
    defaults = {"request_id": "q", "window": window, "planned_at_ms": orders.PLANNED_MS, "requested_by": "ada"}
    return reingest.Piece(number=number, files=dict(files), **{**defaults, **more})


def pieces(folder: Path, *earlier: reingest.Piece, flow: Flow | None = None) -> list[dict[str, int]]:
    flow = flow or two_at_once()
    run = SimpleNamespace(request=SimpleNamespace(gaps=False))
    place = SimpleNamespace(layout=Layout.local(folder / "lake", folder / "landing"))
    job = SimpleNamespace(place=place, flow=flow, run=run)
    return [part["files"] for part in load_kind(flow).parts(cast("Job", job), WINDOW, earlier)]


def test_files_of_the_window_are_read_in_pieces_oldest_first(tmp_path: Path) -> None:
    moments = {
        "before.json": FIRST - timedelta(milliseconds=1),
        "z.json": FIRST,
        "noon.json": FIRST + timedelta(hours=12),
        "last.json": FIRST + timedelta(days=2) - timedelta(milliseconds=1),
        "after.json": FIRST + timedelta(days=2),
        "other.txt": FIRST,
    }
    landed = {name: land(tmp_path, name, moment) for name, moment in moments.items()}

    first, second = pieces(tmp_path)

    assert list(first.items()) == [landed["z.json"], landed["noon.json"]]
    assert list(second.items()) == [landed["last.json"]]


def test_a_file_in_an_earlier_piece_of_the_request_is_read_again_only_if_it_changed(tmp_path: Path) -> None:
    one, two = (land(tmp_path, f"{name}.json", FIRST) for name in "ab")
    older = (one[0], one[1] - 1)

    assert pieces(tmp_path, piece(0, one)) == [dict([two])]
    assert pieces(tmp_path, piece(0, one), piece(1, two)) == []
    assert pieces(tmp_path, piece(0, older, two)) == [dict([one])], "another modification time means another file"


@pytest.mark.jvm
class TestPiecesOfAFlow:
    """The pieces go through the steps of a micro-batch."""

    @pytest.fixture
    def bronze(self, spark: SparkSession, tmp_path: Path) -> Job:
        """The stream has read four files; then the rows of three of them were deleted from bronze."""
        from deltalake import DeltaTable

        job = self.of(spark, tmp_path)
        for hour, name in enumerate("abcd"):
            land(tmp_path, f"{name}.json", FIRST + timedelta(hours=hour))
        land(tmp_path, "later.json", FIRST + timedelta(days=3))
        run_flow(job)
        DeltaTable(str(job.live)).delete("_path NOT LIKE '%d.json'")
        return job

    def of(self, spark: SparkSession, folder: Path, **params: Any) -> Job:
        return orders.job_of(spark, folder, two_at_once(), **params)

    def test_each_piece_is_stored_and_done_once_and_a_retry_does_nothing(
        self, bronze: Job, spark: SparkSession, tmp_path: Path
    ) -> None:
        job = self.of(spark, tmp_path, mode="reingest", window=WINDOW)

        reingest.reingest(job, WINDOW)
        reingest.reingest(job, WINDOW)

        lines = job.run.report.batches
        assert [(line.batch_id, line.files_opened, line.files_already_read) for line in lines] == [(0, 2, 0), (1, 1, 1)]
        assert {line.app_id for line in lines} == {"orders/bronze/v1/0/window"}
        rows = [row["_row_id"] for row in orders.table(job.live)]
        assert len(rows) == len(set(rows)) == 4
        stored = [pending_work.read(job, number, reingest.Piece) for number in pending_work.numbers(job)]
        assert [(piece.number, piece.done, piece.request_id) for piece in stored] == [
            (0, True, job.run.request.request_id),
            (1, True, job.run.request.request_id),
        ]
        again = self.of(spark, tmp_path, mode="reingest", window=WINDOW)
        reingest.reingest(again, WINDOW)
        assert [(line.batch_id, line.files_already_read) for line in again.run.report.batches] == [(2, 2), (3, 2)], (
            "another request checks all files again, under new numbers"
        )
        increment = self.of(spark, tmp_path)
        run_flow(increment)
        assert increment.run.report.batches == [], "the stream's checkpoint is unchanged"

    @pytest.mark.nightly
    def test_a_file_that_became_unreadable_is_quarantined_once(
        self, bronze: Job, spark: SparkSession, tmp_path: Path
    ) -> None:
        land(tmp_path, "a.json", FIRST + timedelta(minutes=1), "")
        for expected in ([(1, 1, 0), (1, 0, 1)], [(0, 0, 2), (0, 0, 2)]):
            job = self.of(spark, tmp_path, mode="reingest", window=WINDOW)
            reingest.reingest(job, WINDOW)
            lines = job.run.report.batches
            assert [(line.files_opened, line.files_quarantined, line.files_already_read) for line in lines] == expected
        assert len(orders.table(bronze.place.quarantine)) == 1

    def test_the_gaps_are_read_alone_and_are_complete_then(self, spark: SparkSession, tmp_path: Path) -> None:
        flow = two_at_once()
        days = dataclasses.replace(cast("FileSource", flow.source), intervals=Intervals("%Y-%m-%d", files=1))
        flow = dataclasses.replace(flow, source=days)
        for day in (1, 2, 3):
            land(tmp_path, f"2026-03-0{day}.json", FIRST)
        run_flow(orders.job_of(spark, tmp_path, flow))
        for day in (1, 3):
            land(tmp_path, f"2026-03-0{day}.json", FIRST + timedelta(hours=1), '{"id": 22}\n')

        for window, opened, note in (
            (WINDOW, [1], "gaps: not read: 2026-03-01 (1 file changed after being read)"),
            (WINDOW, [], "gaps: none"),
            (None, [1], "gaps: not read: 2026-03-03 (1 file changed after being read)"),
        ):
            job = orders.job_of(spark, tmp_path, flow, mode="reingest", window=window, gaps=True)
            reingest.reingest(job, window)
            assert [line.files_opened for line in job.run.report.batches] == opened
            assert job.run.report.notes == [note]

        completeness = intervals.read(job.place, flow, job.resolved.pipeline.timezone, datetime.now(UTC))
        assert completeness is not None and len(completeness.complete) == 3
        assert len(orders.table(job.live)) == 5

    def test_an_interrupted_piece_is_finished_if_it_has_written_and_deleted_otherwise(
        self, bronze: Job, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise ConnectionError("simulated crash")

        job = self.of(spark, tmp_path, mode="reingest", window=WINDOW)
        for step, begun in (("write_target", False), ("record_batch", True)):
            with monkeypatch.context() as patched:
                patched.setattr(micro_batch, step, fail)
                with pytest.raises(ConnectionError):
                    reingest.reingest(job, WINDOW)
            (number,) = pending_work.numbers(job)
            assert pending_work.read(job, number, reingest.Piece).has_begun(job) is begun
            version = tables.version(spark, job.live)
            later = self.of(spark, tmp_path)

            pending_work.settle(later, reingest.Piece)

            assert [line.files_opened for line in later.run.report.batches] == ([2] if begun else [])
            assert tables.version(spark, later.live) == version, "the committed piece is recorded, not written again"
            assert [pending_work.read(later, n, reingest.Piece).done for n in pending_work.numbers(later)] == (
                [True] if begun else []
            )
        pending_work.settle(job, reingest.Piece)
        reingest.reingest(job, WINDOW)
        assert [line.files_opened for line in job.run.report.batches] == [1], (
            "the request continues after its first piece"
        )


@pytest.mark.nightly
@pytest.mark.jvm
@pytest.mark.kafka
def test_the_pieces_of_a_window_of_offsets_are_complete_and_do_not_overlap(broker: Broker, topic: str) -> None:
    from confluent_kafka import Producer

    broker.create_topic(topic, 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 3})
    for number in range(30):
        sent = FIRST + timedelta(days=number // 10, hours=12, seconds=number)
        producer.produce(topic, b"{}", partition=number % 3, timestamp=int(sent.timestamp() * 1000))
    assert producer.flush() == 0
    source = KafkaSource(topic=topic, schema="id INT", format="json", max_offsets_per_trigger=4)
    second_day = Window.of_dates("2026-03-02", "2026-03-02", "UTC")
    job = cast(
        "Job",
        SimpleNamespace(cluster=broker.cluster, flow=SimpleNamespace(source=source), place=None, live=None),
    )

    def parts(*earlier: reingest.Piece) -> list[dict[str, list[int]]]:
        return [part["offsets"] for part in messages_kind.KIND.parts(job, second_day, earlier)]

    def messages(*parts: dict[str, list[int]]) -> list[tuple[int, int]]:
        return sorted((int(p), offset) for part in parts for p, cut in part.items() for offset in range(*cut))

    # Messages 10 to 19 are those of the day; each partition got every third message.
    whole = sorted((number % 3, number // 3) for number in range(10, 20))
    first, *others = parts()
    assert messages(first, *others) == whole
    assert [len(messages(part)) <= 4 + 2 for part in (first, *others)] == [True] * 3, "rounded up per partition"
    assert messages(*parts(piece(0, offsets=first))) == sorted(set(whole) - set(messages(first)))
    assert parts(*(piece(n, offsets=part) for n, part in enumerate((first, *others)))) == []
