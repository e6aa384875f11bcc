"""Bronze keeps the raw record and its coordinates, and adds only what it does not hold yet."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.flow_context import BRONZE, CLICKS, PLANNED_MS, flow_context, table, transaction
from tidegate.checkpoints import checkpoint, intervention, topic
from tidegate.errors import CheckpointCorruptError
from tidegate.spark.batch import quarantine, raw
from tidegate.spark.batch.split import Decision, Split
from tidegate.spark.context import Reentry
from tidegate.spark.intake import sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.context import FlowContext

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
def flow(spark: SparkSession, tmp_path: Path) -> Callable[..., FlowContext]:
    def make(declared: Any = BRONZE, **more: Any) -> FlowContext:
        return flow_context(spark, tmp_path, declared, **more)

    return make


def land(context: FlowContext, name: str, content: str) -> Path:
    path = context.layout.landing("orders") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def modified(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def split(context: FlowContext, *files: Path, decision: Decision = NEW, batch_id: int = 0) -> Split:
    listed = {str(file): modified(file) for file in files}
    result = raw.split_landed(context, context.spark, batch_id, listed, PLANNED_MS, decision)
    assert result is not None
    assert result.planned.imbalance() == 0
    return result


def take(context: FlowContext, *files: Path, batch_id: int = 0) -> Split:
    """Split and write, as the micro-batch does."""
    result = split(context, *files, batch_id=batch_id)
    txn = transaction(context, batch_id, result.planned)
    if result.refused is not None:
        quarantine.append(context, result.refused, batch_id, txn, PLANNED_MS)
    assert result.write(txn).metrics.get("numOutputRows", 0) == result.arriving
    return result


def files(result: Split) -> tuple[int, int, int, int]:
    """Files that were listed, opened, set aside and known already."""
    record = result.planned
    return record.files_listed, record.files_opened, record.files_quarantined, record.files_already_read


def test_good_files_become_lines_and_a_bad_one_an_entry(flow: Callable[..., FlowContext]) -> None:
    context = flow()
    good, bad = land(context, "good.json", '{"id": 1}\n{"id": 2}\n'), land(context, "empty.json", "")

    result = take(context, good, bad)

    assert files(result) == (2, 1, 1, 0)
    assert (result.planned.read, result.planned.written, result.planned.rules) == (2, 2, {"empty_file": 1})
    assert (result.planned.kind, result.planned.app_id, result.arriving) == ("append", "orders/bronze/v1/0", 2)
    lines = table(context.target)
    assert [(row["line"], row["_line_number"], row["_batch_id"]) for row in lines] == [
        ('{"id": 1}', 1, 0),
        ('{"id": 2}', 2, 0),
    ]
    assert {(row["_path"], row["_ingested_at"]) for row in lines} == {(good.as_uri(), PLANNED)}
    (entry,) = table(context.quarantine)
    assert (entry["level"], entry["rules"], json.loads(entry["source"])["path"]) == ("file", ["empty_file"], str(bad))


def test_a_batch_without_files_is_nothing_and_one_of_bad_files_alone_is_recorded(
    flow: Callable[..., FlowContext],
) -> None:
    context = flow()
    assert raw.split_landed(context, context.spark, 0, {}, PLANNED_MS, NEW) is None

    result = take(context, land(context, "empty.json", ""))

    assert files(result) == (1, 0, 1, 0)
    assert (result.planned.read, result.arriving) == (0, 0)
    assert table(context.target) == []


def test_a_later_checkpoint_leaves_out_files_that_bronze_or_its_quarantine_hold(
    flow: Callable[..., FlowContext],
) -> None:
    context = flow()
    good, bad = land(context, "good.json", '{"id": 1}\n'), land(context, "empty.json", "")
    take(context, good, bad)
    fresh = land(context, "fresh.json", '{"id": 3}\n')

    for later in (flow(refresh=1), flow(version=2)):
        result = split(later, good, bad, fresh)

        assert files(result) == (3, 1, 0, 2)
        assert (result.planned.read, result.arriving) == (1, 1)


def test_a_file_that_was_changed_since_is_another_file(flow: Callable[..., FlowContext]) -> None:
    import os

    context = flow()
    path = land(context, "good.json", '{"id": 1}\n')
    take(context, path)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 5_000_000_000))

    assert files(split(flow(refresh=1), path)) == (1, 1, 0, 0)


def test_what_this_batch_set_aside_before_a_crash_is_its_own(flow: Callable[..., FlowContext]) -> None:
    context = flow(refresh=1)
    bad, good = land(context, "empty.json", ""), land(context, "good.json", '{"id": 1}\n')
    first = split(context, bad, good)
    assert first.refused is not None
    quarantine.append(context, first.refused, 0, transaction(context, 0), PLANNED_MS)

    rerun = split(context, bad, good, decision=SPLIT_BEFORE)

    assert rerun.planned == first.planned
    assert files(split(context, bad, good, batch_id=1)) == (2, 1, 0, 1), "of another batch it is known"


def test_a_file_that_was_set_aside_stays_so_although_it_was_mended_before_the_rerun(
    flow: Callable[..., FlowContext],
) -> None:
    context = flow()
    path = land(context, "bad.json", "")
    listed = {str(path): modified(path)}
    first = split(context, path)
    assert first.refused is not None
    quarantine.append(context, first.refused, 0, transaction(context, 0), PLANNED_MS)
    path.write_text('{"id": 1}\n')

    rerun = raw.split_landed(context, context.spark, 0, listed, PLANNED_MS, SPLIT_BEFORE)

    assert rerun is not None
    assert (files(rerun), rerun.planned.rules, rerun.arriving) == ((1, 0, 1, 0), {"empty_file": 1}, 0)


def test_a_file_that_was_good_and_cannot_be_read_any_more_stops_the_rerun(flow: Callable[..., FlowContext]) -> None:
    context = flow()
    bad, good = land(context, "bad.json", ""), land(context, "good.json", '{"id": 1}\n')
    first = split(context, bad, good)
    assert first.refused is not None
    quarantine.append(context, first.refused, 0, transaction(context, 0), PLANNED_MS)
    good.write_text("")

    with pytest.raises(
        CheckpointCorruptError, match=r"good.json was readable when batch 0 was decided and is not any more"
    ):
        split(context, bad, good, decision=SPLIT_BEFORE)


def test_a_file_that_is_skipped_is_set_aside_unopened(flow: Callable[..., FlowContext]) -> None:
    context = flow()
    good, poison = land(context, "good.json", '{"id": 1}\n'), land(context, "poison.json", '{"id": 2}\n')
    ref = checkpoint.current(context.layout, context.pipeline, BRONZE)
    intervention.skip(context.layout, BRONZE, ref, "poison.json", by="ada", reason="brings the driver down")

    result = take(context, good, poison)

    assert (files(result), result.planned.rules) == ((2, 1, 1, 0), {"skipped_file": 1})
    (entry,) = table(context.quarantine)
    assert json.loads(entry["source"])["sha256"] == "", "not even its bytes were read"
    entries = ({"_row_id": entry["_row_id"], "source": entry["source"]},)
    replay = dataclasses.replace(context, replay=Reentry(number=0, moment_ms=PLANNED_MS, entries=entries))
    assert files(split(replay, poison)) == (1, 1, 0, 0), "a replay opens it after all"


def message(offset: int, partition: int = 0, value: bytes = b"{}") -> tuple[Any, ...]:
    return (b"k", value, [("h", b"1")], "clicks", partition, offset, SENT)


def split_messages(context: FlowContext, *messages: tuple[Any, ...], batch_id: int = 0) -> Split | None:
    batch = context.spark.createDataFrame(list(messages), MESSAGE).coalesce(1)
    return raw.split_messages(context, batch, batch_id, NEW, PLANNED_MS)


def test_messages_are_kept_raw_with_their_coordinates(flow: Callable[..., FlowContext]) -> None:
    context = flow(CLICKS)
    assert split_messages(context) is None

    result = split_messages(context, message(5, value=b"\xff"), message(5, partition=1))

    assert result is not None and result.refused is None
    assert (result.planned.read, result.planned.written, result.arriving) == (2, 2, 2)
    result.write(transaction(context, 0))
    rows = {row["_row_id"]: row for row in table(context.target)}
    assert set(rows) == {"clicks/0/5", "clicks/1/5"}
    first = rows["clicks/0/5"]
    assert (first["key"], first["value"], first["headers"]) == (b"k", b"\xff", [{"key": "h", "value": b"1"}])
    assert (first["_topic"], first["_partition"], first["_offset"], first["_timestamp"]) == ("clicks", 0, 5, SENT)
    assert (first["_ingested_at"], first["_batch_id"]) == (PLANNED, 0)


def test_a_later_checkpoint_leaves_out_messages_that_bronze_holds(flow: Callable[..., FlowContext]) -> None:
    context = flow(CLICKS)
    first = split_messages(context, message(5), message(6), message(5, partition=1))
    assert first is not None
    first.write(transaction(context, 0))
    # Another topic of the same numbers, as a table holds it whose source was changed.
    context.spark.read.format("delta").load(str(context.target)).selectExpr(
        "* EXCEPT (_topic, _offset)", "'other' AS _topic", "_offset + 2 AS _offset"
    ).write.format("delta").mode("append").save(str(context.target))

    for later in (flow(CLICKS, refresh=1), flow(CLICKS, version=2)):
        result = split_messages(later, message(6), message(7), message(7, partition=1), message(6, partition=1))

        assert result is not None and result.planned.imbalance() == 0
        record = result.planned
        assert (record.read, record.written, record.already_read, result.arriving) == (4, 3, 1, 3)
    result.write(transaction(later, 0))
    ids = [row["_row_id"] for row in table(context.target) if row["_topic"] == "clicks"]
    assert sorted(ids) == [f"clicks/{place}" for place in ("0/5", "0/6", "0/7", "1/5", "1/6", "1/7")]


def test_messages_of_a_topic_made_anew_are_no_others_although_their_offsets_are_the_same(
    flow: Callable[..., FlowContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "check_topic", lambda *_: None)

    def note(version: int, topic_id: str) -> None:
        known = topic.Noted(topic="clicks", topic_id=topic_id, cluster_id="", unnamed="A")
        ref = checkpoint.CheckpointRef(dag_id="orders", flow="clicks", version=version, refresh=0)
        topic.note(flow(CLICKS).layout, ref, known)

    def taken(messages: list[tuple[Any, ...]], batch_id: int = 0, **asked: int) -> tuple[int, int]:
        context = flow(CLICKS, **asked)
        result = split_messages(context, *messages, batch_id=batch_id)
        assert result is not None
        result.write(transaction(context, batch_id))
        return result.planned.written, result.planned.already_read

    # As an older Tidegate wrote it: without the id of the topic.
    before = split_messages(flow(CLICKS), message(5))
    assert before is not None
    dropped = flow(CLICKS)
    before.write(transaction(dropped, 0))
    from delta.tables import DeltaTable

    held = DeltaTable.forPath(dropped.spark, str(dropped.target)).toDF().drop("_topic_id").localCheckpoint()
    held.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(dropped.target))
    note(1, "A")
    assert taken([message(5), message(6)], refresh=1) == (1, 1), "what has no id is of the topic that was noted first"
    note(2, "B")

    assert taken([message(5), message(6)], version=2) == (2, 0)

    assert taken([message(5), message(6)], version=2, refresh=1) == (0, 2)
    rows = {row["_row_id"]: row["_topic_id"] for row in table(dropped.target)}
    assert rows == {"clicks/0/5": None, "clicks/A/0/6": "A", "clicks/B/0/5": "B", "clicks/B/0/6": "B"}
