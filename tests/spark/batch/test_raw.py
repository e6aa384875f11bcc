"""Bronze stores raw records with their coordinates, and no file or message twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import places
from tests.spark.job import BRONZE, CLICKS, PLANNED_MS, job_of, plan_batch, table, transaction
from tidegate.checkpoints import overrides, topic
from tidegate.errors import CheckpointCorruptError, MachineUnavailableError
from tidegate.formats.reader import FileReader
from tidegate.kinds.messages import split as of_messages
from tidegate.lake.place import Place
from tidegate.spark.batch import quarantine, raw
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.batch.work import Stream
from tidegate.spark.intake import landing, topic_reader
from tidegate.spark.reprocessing.replay import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

NEW = Decision(quarantined=False, written=False)
SPLIT_BEFORE = Decision(quarantined=True, written=False)
MESSAGE = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string, partition int, "
    "offset bigint, timestamp timestamp"
)
SENT = datetime(2026, 1, 1, tzinfo=UTC)
PLANNED = datetime.fromtimestamp(PLANNED_MS / 1000, UTC)


@pytest.fixture
def flow(spark: SparkSession, tmp_path: Path) -> Callable[..., Job]:
    def make(declared: Any = BRONZE, **more: Any) -> Job:
        return job_of(spark, tmp_path, declared, **more)

    return make


def land(job: Job, name: str, content: str) -> Path:
    path = job.place.layout.landing("orders") / name
    path.parent.make_folder()
    path.put(content.encode())
    return Path(path)


def modified(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


@dataclass(frozen=True)
class Listing(Stream):
    """A batch of the stream with these files."""

    files: dict[str, int]

    def planned_ms(self, job: Job, batch_id: int) -> int:
        return PLANNED_MS

    def listed_files(self, job: Job, batch_id: int) -> dict[str, int]:
        return self.files


def split_listed(job: Job, listed: dict[str, int], decision: Decision = NEW, batch_id: int = 0) -> Split | None:
    """Split a batch with these files: modification time by path."""
    return raw.split_files(job.doing(Listing(listed)), job.spark.range(0), batch_id, decision)


def split(job: Job, *files: Path, decision: Decision = NEW, batch_id: int = 0) -> Split:
    result = split_listed(job, {str(file): modified(file) for file in files}, decision, batch_id)
    assert result is not None
    assert result.prepared.imbalance() == 0
    return result


def split_and_write(job: Job, *files: Path, batch_id: int = 0) -> Split:
    """Split and write, as the micro-batch does."""
    result = split(job, *files, batch_id=batch_id)
    txn = transaction(job, batch_id, result.prepared)
    if result.refused is not None:
        quarantine.append(job, result.refused, batch_id, txn, PLANNED_MS)
    assert result.write(txn).metrics.get("numOutputRows", 0) == result.expected_rows
    return result


def files(result: Split) -> tuple[int, int, int, int]:
    """Counts of files: listed, opened, quarantined, already read."""
    record = result.prepared
    return record.files_listed, record.files_opened, record.files_quarantined, record.files_already_read


def test_good_files_are_stored_as_lines_and_a_bad_file_is_quarantined(flow: Callable[..., Job]) -> None:
    job = flow()
    good, bad = land(job, "good.json", '{"id": 1}\n{"id": 2}\n'), land(job, "empty.json", "")

    result = split_and_write(job, good, bad)

    assert files(result) == (2, 1, 1, 0)
    assert (result.prepared.read, result.prepared.written, result.prepared.rules) == (2, 2, {"empty_file": 1})
    assert (result.prepared.kind, result.prepared.app_id, result.expected_rows) == ("append", "orders/bronze/v1/0", 2)
    lines = table(job.target)
    assert [(row["line"], row["_line_number"], row["_batch_id"]) for row in lines] == [
        ('{"id": 1}', 1, 0),
        ('{"id": 2}', 2, 0),
    ]
    assert {(row["_path"], row["_ingested_at"]) for row in lines} == {(good.as_uri(), PLANNED)}
    (entry,) = table(job.place.quarantine)
    assert (entry["level"], entry["rules"], json.loads(entry["source"])["path"]) == ("file", ["empty_file"], str(bad))


def test_a_batch_without_files_has_no_split_and_one_with_only_bad_files_is_recorded(
    flow: Callable[..., Job],
) -> None:
    job = flow()
    assert split_listed(job, {}) is None

    result = split_and_write(job, land(job, "empty.json", ""))

    assert files(result) == (1, 0, 1, 0)
    assert (result.prepared.read, result.expected_rows) == (0, 0)
    assert table(job.target) == []


@pytest.mark.nightly
def test_a_later_checkpoint_skips_files_that_are_in_bronze_or_quarantine(
    flow: Callable[..., Job],
) -> None:
    job = flow()
    good, bad = land(job, "good.json", '{"id": 1}\n'), land(job, "empty.json", "")
    split_and_write(job, good, bad)
    new = land(job, "new.json", '{"id": 3}\n')

    for later in (flow(refresh=1), flow(version=2)):
        result = split(later, good, bad, new)

        assert files(result) == (3, 1, 0, 2)
        assert (result.prepared.read, result.expected_rows) == (1, 1)


@pytest.mark.parametrize(("content", "opened"), [('{"id": 2}\n', 1), ('{"id": 1}\n', 0)], ids=("another", "equal"))
def test_a_file_with_a_new_modification_time_is_read_again_if_it_has_another_content(
    flow: Callable[..., Job], content: str, opened: int
) -> None:
    import os

    job = flow()
    path = land(job, "good.json", '{"id": 1}\n')
    split_and_write(job, path)
    modified_ns = path.stat().st_mtime_ns
    path.write_text(content)
    os.utime(path, ns=(0, modified_ns + 5_000_000_000))

    assert files(split(flow(refresh=1), path)) == (1, opened, 0, 1 - opened)


@pytest.mark.nightly
def test_files_quarantined_by_an_earlier_attempt_at_the_batch_do_not_count_as_already_read(
    flow: Callable[..., Job],
) -> None:
    job = flow(refresh=1)
    bad, good = land(job, "empty.json", ""), land(job, "good.json", '{"id": 1}\n')
    first = split(job, bad, good)
    assert first.refused is not None
    quarantine.append(job, first.refused, 0, transaction(job, 0), PLANNED_MS)

    rerun = split(job, bad, good, decision=SPLIT_BEFORE)

    assert rerun.prepared == first.prepared
    assert files(split(job, bad, good, batch_id=1)) == (2, 1, 0, 1), "for another batch the file is already read"


def test_a_quarantined_file_stays_quarantined_even_if_it_is_corrected_before_the_rerun(
    flow: Callable[..., Job],
) -> None:
    job = flow()
    path = land(job, "bad.json", "")
    listed = {str(path): modified(path)}
    first = split(job, path)
    assert first.refused is not None
    quarantine.append(job, first.refused, 0, transaction(job, 0), PLANNED_MS)
    path.write_text('{"id": 1}\n')

    rerun = split_listed(job, listed, SPLIT_BEFORE)

    assert rerun is not None
    assert (files(rerun), rerun.prepared.rules, rerun.expected_rows) == ((1, 0, 1, 0), {"empty_file": 1}, 0)


def test_a_file_that_became_unreadable_since_the_split_stops_the_rerun(flow: Callable[..., Job]) -> None:
    job = flow()
    bad, good = land(job, "bad.json", ""), land(job, "good.json", '{"id": 1}\n')
    first = split(job, bad, good)
    assert first.refused is not None
    quarantine.append(job, first.refused, 0, transaction(job, 0), PLANNED_MS)
    good.write_text("")

    with pytest.raises(CheckpointCorruptError, match=r"good.json was readable when batch 0 was split, and is not now"):
        split(job, bad, good, decision=SPLIT_BEFORE)


def test_a_skipped_file_is_quarantined_without_being_read(flow: Callable[..., Job]) -> None:
    job = flow()
    good, poison = land(job, "good.json", '{"id": 1}\n'), land(job, "poison.json", '{"id": 2}\n')
    place = places.current(job.place.layout, job.resolved.pipeline, BRONZE)
    overrides.skip(place, BRONZE, "poison.json", by="ada", reason="crashes the driver")

    result = split_and_write(job, good, poison)

    assert (files(result), result.prepared.rules) == ((2, 1, 1, 0), {"skipped_file": 1})
    (entry,) = table(job.place.quarantine)
    assert json.loads(entry["source"])["sha256"] == "", "the file was not read at all"
    entries = ({"_row_id": entry["_row_id"], "source": entry["source"]},)
    replay = job.doing(Replay(by="ada", number=0, started_ms=PLANNED_MS, entries=entries))
    replayed = raw.split_files(replay, job.spark.range(0), 0, NEW)
    assert replayed is not None and files(replayed) == (1, 1, 0, 0), "a replay reads it"


class Crashing(FileReader):
    """A reader on which some files end the worker, raise, or ask for more memory than there is."""

    def __iter__(self) -> Iterator[tuple[int, str]]:
        if "crash" in self._file.key:
            os._exit(1)
        if "raise" in self._file.key:
            raise LookupError("an error of the reader")
        if "memory" in self._file.key:
            raise MemoryError
        yield from super().__iter__()


def test_files_on_which_the_reading_itself_fails_are_quarantined_alone(
    flow: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark sends the reader to its workers by value.
    monkeypatch.setattr(landing, "FileReader", Crashing)
    job = flow()
    names = ("a.json", "crash.json", "b.json", "c.json", "raise.json")
    landed = [land(job, name, f'{{"id": {number}}}\n') for number, name in enumerate(names)]

    result = split(job, *landed)

    assert files(result) == (5, 3, 2, 0)
    assert (result.prepared.read, result.prepared.rules) == (3, {"reader_failure": 2})
    assert result.refused is not None
    quarantine.append(job, result.refused, 0, transaction(job, 0), PLANNED_MS)
    reads: list[int] = []
    read_files = landing.read_files

    def counted(*args: Any, **options: Any) -> landing.FileBatch:
        reads.append(len(args[1]))
        return read_files(*args, **options)

    monkeypatch.setattr(landing, "read_files", counted)
    rerun = split(job, *landed, decision=SPLIT_BEFORE)
    assert (rerun.prepared, reads) == (result.prepared, [3]), "a rerun does not read them"
    entries = table(job.place.quarantine)
    assert sorted(Path(json.loads(entry["source"])["path"]).name for entry in entries) == ["crash.json", "raise.json"]


@pytest.mark.nightly
def test_what_says_more_about_the_machine_or_the_reader_than_about_a_file_refuses_none(
    flow: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = flow()
    good = land(job, "a.json", '{"id": 1}\n')
    # Reading the memory of a process at its address 0 is an input/output error.
    damaged = good.with_name("damaged.json")
    damaged.symlink_to("/proc/self/mem")
    skip = r'tidegate flow skip orders bronze {} --reason "…"'
    with pytest.raises(MachineUnavailableError, match=skip.format("damaged.json")):
        split(job, good, damaged)

    monkeypatch.setattr(landing, "FileReader", Crashing)
    with pytest.raises(MachineUnavailableError, match=skip.format("memory.json")):
        split(job, good, land(job, "memory.json", '{"id": 2}\n'))
    with pytest.raises(Exception, match="LookupError"):
        split(job, land(job, "raise.json", '{"id": 3}\n'), land(job, "raise_again.json", '{"id": 4}\n'))


def message(offset: int, partition: int = 0, value: bytes = b"{}", topic: str = "clicks") -> tuple[Any, ...]:
    return (b"k", value, [("h", b"1")], topic, partition, offset, SENT)


def split_messages(job: Job, *messages: tuple[Any, ...], batch_id: int = 0) -> Split | None:
    batch = job.spark.createDataFrame(list(messages), MESSAGE).coalesce(1)
    plan_batch(job, batch_id)
    return of_messages.split_messages(job, batch, batch_id, NEW)


def test_messages_are_stored_raw_with_their_coordinates(flow: Callable[..., Job]) -> None:
    job = flow(CLICKS)
    assert split_messages(job) is None

    result = split_messages(job, message(5, value=b"\xff"), message(5, partition=1))

    assert result is not None and result.refused is None
    assert (result.prepared.read, result.prepared.written, result.expected_rows) == (2, 2, 2)
    result.write(transaction(job, 0))
    rows = {row["_row_id"]: row for row in table(job.target)}
    assert set(rows) == {"clicks/0/5", "clicks/1/5"}
    first = rows["clicks/0/5"]
    assert (first["key"], first["value"], first["headers"]) == (b"k", b"\xff", [{"key": "h", "value": b"1"}])
    assert (first["_topic"], first["_partition"], first["_offset"], first["_timestamp"]) == ("clicks", 0, 5, SENT)
    assert (first["_ingested_at"], first["_batch_id"]) == (PLANNED, 0)


def test_a_later_checkpoint_skips_messages_that_are_in_bronze(flow: Callable[..., Job]) -> None:
    job = flow(CLICKS)
    first = split_messages(job, message(5), message(6), message(5, partition=1))
    assert first is not None
    first.write(transaction(job, 0))
    # Another topic with the same offsets, as in a table whose source was changed.
    job.spark.read.format("delta").load(str(job.target)).selectExpr(
        "* EXCEPT (_topic, _offset)", "'other' AS _topic", "_offset + 2 AS _offset"
    ).write.format("delta").mode("append").save(str(job.target))

    for later in (flow(CLICKS, refresh=1), flow(CLICKS, version=2)):
        result = split_messages(later, message(6), message(7), message(7, partition=1), message(6, partition=1))

        assert result is not None and result.prepared.imbalance() == 0
        record = result.prepared
        assert (record.read, record.written, record.already_read, result.expected_rows) == (4, 3, 1, 3)
    assert result is not None
    result.write(transaction(later, 0))
    ids = [row["_row_id"] for row in table(job.target) if row["_topic"] == "clicks"]
    assert sorted(ids) == [f"clicks/{position}" for position in ("0/5", "0/6", "0/7", "1/5", "1/6", "1/7")]


def test_messages_of_a_recreated_topic_and_of_another_one_are_new_although_their_offsets_are_the_same(
    flow: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_reader.TopicReader, "check_same_topic", lambda *_, **__: None)

    def record_topics(version: int, **ids: str) -> None:
        place = Place(flow(CLICKS).place.layout, "orders", "clicks", version, 0)
        topic.record(place, [topic.CheckpointTopic(topic=name, topic_id=ids[name], cluster_id="") for name in ids])

    def written_and_already_read(messages: list[tuple[Any, ...]], batch_id: int = 0, **more: int) -> tuple[int, int]:
        job = flow(CLICKS, **more)
        result = split_messages(job, *messages, batch_id=batch_id)
        assert result is not None
        result.write(transaction(job, batch_id))
        return result.prepared.written, result.prepared.already_read

    record_topics(1, clicks="A")
    assert written_and_already_read([message(5)]) == (1, 0)
    assert written_and_already_read([message(5), message(6)], refresh=1) == (1, 1)
    record_topics(2, clicks="B", views="V")
    views = [message(offset, topic="views") for offset in (5, 6)]

    assert written_and_already_read([message(5), message(6), views[0]], version=2) == (3, 0)

    assert written_and_already_read([message(5), message(6), *views], version=2, refresh=1) == (1, 3)
    rows = {row["_row_id"]: row["_topic_id"] for row in table(flow(CLICKS).target)}
    assert rows == {
        f"{name}/{id}/0/{at}": id for name, id in (("clicks", "A"), ("clicks", "B"), ("views", "V")) for at in (5, 6)
    }
