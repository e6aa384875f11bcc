"""The progress of a checkpoint is read from Spark's own files."""

from __future__ import annotations

import json
import zlib
from urllib.parse import quote

import pytest

from tidegate.checkpoints import progress
from tidegate.errors import CheckpointCorruptError
from tidegate.store import Address
from tidegate.store.memory import MemoryStore

WEIRD = [
    "a?b.csv",
    "a*b.csv",
    "d[1].csv",
    "e{1}.csv",
    "back\\slash.csv",
    "sp ace.csv",
    "pct%20x.csv",
    "nl\nx.csv",
    "a+b.csv",
]
WEIRD += ["hash#.csv", "üñí.csv", "colon:x.csv", "semi'quo\"te.csv", "tab\tx.csv", "caret^~`|<>.csv"]


@pytest.fixture
def at() -> Address:
    """A checkpoint."""
    return Address(MemoryStore(), "v1/0")


def write(path: Address, *lines: str, checksum: bool = False) -> None:
    raw = "\n".join(lines).encode()
    path.put(raw)
    if checksum:
        sums = b"".join(zlib.crc32(raw[at : at + 512]).to_bytes(4, "big") for at in range(0, len(raw), 512))
        (path.parent / f".{path.name}.crc").put(b"crc\0" + (512).to_bytes(4, "big") + sums)


def plan(checkpoint: Address, batch: int, offset: object) -> None:
    write(checkpoint / "metadata", json.dumps({"id": "0b8f"}))
    meta = {"batchWatermarkMs": 0, "batchTimestampMs": 1_767_225_600_000 + batch, "conf": {}}
    write(checkpoint / "offsets" / str(batch), "v1", json.dumps(meta), json.dumps(offset))


def commit(checkpoint: Address, batch: int) -> None:
    write(checkpoint / "commits" / str(batch), "v1", '{"nextBatchWatermarkMs":0}')


def entry(path: str, batch: int) -> str:
    return json.dumps({"path": "file://" + quote(path), "timestamp": 1_000 + batch, "batchId": batch})


def log_files(checkpoint: Address, batch: int, *paths: str, checksum: bool = False) -> None:
    write(checkpoint / "sources/0" / str(batch), "v1", *(entry(path, batch) for path in paths), checksum=checksum)


def log_compacted(checkpoint: Address, batch: int) -> None:
    entries = [entry(f"/landing/{number}.csv", number) for number in range(batch + 1)]
    write(checkpoint / "sources/0" / f"{batch}.compact", "v1", *entries)


def test_an_unused_checkpoint_has_no_planned_and_no_committed_batch(at: Address) -> None:
    assert progress.read(at / "none") == progress.Progress(last_planned=None, last_committed=None)
    assert progress.read(at).pending_batch is None
    assert progress.newest_log_batch(at) == -1
    assert progress.settled(at) is None


def test_batches_are_ordered_numerically_and_the_uncommitted_one_is_pending(at: Address) -> None:
    for batch in range(11):
        plan(at, batch, {"logOffset": batch})
    for batch in range(10):
        commit(at, batch)
    assert progress.read(at) == progress.Progress(last_planned=10, last_committed=9)
    assert progress.read(at).pending_batch == 10
    assert progress.settled(at) is None
    commit(at, 10)
    assert progress.read(at).pending_batch is None
    settled = progress.settled(at)
    assert settled is not None and settled.batch_id == 10


def test_positions_of_each_kind_of_source_are_parsed(at: Address) -> None:
    plan(at, 0, {"clicks": {"0": 42, "11": 7}})
    delta = {"sourceVersion": 1, "reservoirId": "2d38", "reservoirVersion": 16, "index": -1, "isStartingVersion": False}
    plan(at, 1, delta)
    assert progress.planned_batch(at, 0).kafka_offsets(["clicks"]) == {"clicks": {0: 42, 11: 7}}
    assert progress.planned_batch(at, 0).kafka_offsets(["clicks", "views"]) == {"clicks": {0: 42, 11: 7}}
    assert progress.planned_batch(at, 0).timestamp_ms == 1_767_225_600_000
    assert progress.planned_batch(at, 1).delta == progress.DeltaPosition(
        table_id="2d38", version=16, index=-1, of_snapshot=False
    )


def test_a_position_of_another_kind_of_source_is_an_error(at: Address) -> None:
    plan(at, 0, {"logOffset": 3})
    batch = progress.planned_batch(at, 0)
    with pytest.raises(CheckpointCorruptError, match="offsets of topic 'clicks'"):
        batch.kafka_offsets(["clicks"])
    with pytest.raises(CheckpointCorruptError, match="position of a Delta table"):
        _ = batch.delta
    plan(at, 1, {"views": {"0": 1}})
    with pytest.raises(CheckpointCorruptError, match="offsets of topic 'clicks', 'orders'"):
        progress.planned_batch(at, 1).kafka_offsets(["clicks", "orders"])


def test_a_batch_of_several_topics_has_the_messages_since_the_previous_batch_of_each(at: Address) -> None:
    write(at / "sources/0/0", "\0v1", json.dumps({"clicks": {"0": 4}, "views": {"0": 0}}))
    plan(at, 0, {"clicks": {"0": 9}, "views": {"0": 0}})
    plan(at, 1, {"clicks": {"0": 9}, "views": {"0": 2, "1": 3}})
    commit(at, 1)
    topics = ["clicks", "views"]
    assert progress.batch_offsets(at, 0, topics) == {"clicks": {0: (4, 9)}}
    assert progress.batch_offsets(at, 1, topics) == {"views": {0: (0, 2), 1: (0, 3)}}
    assert progress.offsets_read(at) == {"clicks": {0: (4, 9)}, "views": {0: (0, 2), 1: (0, 3)}}


@pytest.mark.parametrize("name", WEIRD)
def test_paths_with_special_characters_are_decoded(at: Address, name: str) -> None:
    plan(at, 0, {"logOffset": 0})
    log_files(at, 0, f"/landing/{name}")
    assert [file.path for file in progress.batch_files(at, 0)] == [f"/landing/{name}"]


def test_a_batch_has_the_files_listed_since_the_previous_batch(at: Address) -> None:
    plan(at, 0, {"logOffset": 1})
    plan(at, 1, {"logOffset": 3})
    for number in range(5):
        log_files(at, number, f"/landing/{number}.csv")
    assert [file.log_batch for file in progress.batch_files(at, 0)] == [0, 1]
    assert [file.log_batch for file in progress.batch_files(at, 1)] == [2, 3]
    assert progress.newest_log_batch(at) == 4


@pytest.mark.parametrize(("after", "up_to"), [(-1, 12), (-1, 4), (8, 9), (9, 12), (10, 11), (3, 11), (-1, None)])
def test_compacted_and_plain_logs_yield_every_file_once(at: Address, after: int, up_to: int | None) -> None:
    log_compacted(at, 9)
    for number in (7, 8, 10, 11, 12):  # Spark deletes compacted logs some minutes later
        log_files(at, number, f"/landing/{number}.csv")
    files = progress.source_files(at, after=after, up_to=up_to)
    assert [file.path for file in files] == [
        f"/landing/{n}.csv" for n in range(after + 1, (12 if up_to is None else up_to) + 1)
    ]
    assert {file.modified_ms - 1_000 - file.log_batch for file in files} == {0}


def test_only_the_newest_compaction_is_read(at: Address) -> None:
    log_compacted(at, 9)
    log_compacted(at, 19)
    (at / "sources/0/9.compact").put(b"")
    assert len(progress.source_files(at, up_to=15)) == 16


def test_a_missing_log_file_is_an_error(at: Address) -> None:
    log_files(at, 0, "/landing/0.csv")
    log_files(at, 2, "/landing/2.csv")
    with pytest.raises(CheckpointCorruptError, match=r"sources/0/1 .*it is missing"):
        progress.source_files(at)
    with pytest.raises(CheckpointCorruptError, match="goes up to 2, the offset log needs 5"):
        progress.source_files(at, up_to=5)


DAMAGED = [
    "",
    "v1",
    "v1\n",
    'v1\n{"batchWater',
    "v2\n{}\n{}",
    "\udcff",
    'v1\n{"batchTimestampMs":1}\n',
    'v1\n{"batchTimestampMs":1}\n[1]',
    "v1\n{}\n{}",
]


@pytest.mark.parametrize("text", DAMAGED)
def test_the_error_for_a_damaged_offset_file_names_it_and_the_fix(at: Address, text: str) -> None:
    plan(at, 0, {"logOffset": 0})
    path = at / "offsets/0"
    path.put(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointCorruptError, match="tidegate recover") as caught:
        progress.read(at)
    assert caught.value.path == str(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize("text", ["", "v1", "v1\n{"])
@pytest.mark.parametrize("name", ["commits/0", "metadata"])
def test_the_error_for_a_damaged_commit_or_metadata_file_names_it(at: Address, name: str, text: str) -> None:
    plan(at, 0, {"logOffset": 0})
    commit(at, 0)
    (at / name).put(text.encode())
    with pytest.raises(CheckpointCorruptError) as caught:
        progress.read(at)
    assert caught.value.path == str(at / name)


def test_the_first_batch_from_a_number_on_is_one_whose_offsets_are_still_there(at: Address) -> None:
    for batch in (4, 5, 8):
        plan(at, batch, {"logOffset": 0})
    assert [progress.oldest_planned(at, since) for since in (0, 5, 6, 9)] == [4, 5, 8, 9]


def test_a_commit_without_its_offsets_is_corrupt(at: Address) -> None:
    commit(at, 4)
    with pytest.raises(CheckpointCorruptError, match="commits go up to 4"):
        progress.read(at)


def test_a_file_log_cut_at_the_end_of_a_line_is_detected_by_its_checksum(at: Address) -> None:
    paths = [f"/landing/{number}.csv" for number in range(40)]
    log_files(at, 0, *paths, checksum=True)
    assert len(progress.source_files(at)) == 40
    log = at / "sources/0/0"
    log.put(log.read().data.rpartition(b"\n")[0])
    with pytest.raises(CheckpointCorruptError, match="checksum does not match"):
        progress.source_files(at)
