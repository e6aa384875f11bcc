"""The records behind quarantined entries come from where their flow read them: by id, and none too many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import flow_context as orders
from tidegate.spark.context import Reentry
from tidegate.spark.lake import sinks
from tidegate.spark.reprocessing import originals
from tidegate.spec import ChangeFeed, Flow, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.context import FlowContext

pytestmark = pytest.mark.jvm

SEEN = Flow(
    name="silver", source=ChangeFeed("bronze.clicks"), target=Table("silver.seen", keys=("id",), sequence_by=("at",))
)
"""A flow that parses messages."""


def replaying(spark: SparkSession, folder: Path, flow: Flow, *entries: tuple[str, dict[str, Any]]) -> FlowContext:
    told = tuple({"_row_id": row_id, "source": json.dumps(source)} for row_id, source in entries)
    replay = Reentry(number=0, moment_ms=orders.PLANNED_MS, entries=told)
    return orders.flow_context(spark, folder, flow, replay=replay)


def append(context: FlowContext, rows: DataFrame, batch_id: int = 0) -> None:
    assert context.source_table is not None
    sinks.append(rows, context.source_table, sinks.Transaction(app_id="upstream", batch_id=batch_id, planned={}))


def read(context: FlowContext) -> list[dict[str, Any]]:
    rows = [row.asDict() for row in originals.read(context, context.spark).orderBy("_row_id").collect()]
    assert context.persisted, "it is given back with the batch"
    context.release()
    return rows


def test_lines_are_found_in_bronze_by_their_ids_and_look_like_new_ones(spark: SparkSession, tmp_path: Path) -> None:
    context = replaying(
        spark, tmp_path, orders.SILVER, ("a@1#2", {"path": "file:///a"}), ("lost@1#1", {"path": "file:///lost"})
    )
    rows = [("a@1#1", "one", "file:///a"), ("a@1#2", "two", "file:///a"), ("b@1#2", "three", "file:///b")]
    append(context, spark.createDataFrame(rows, "_row_id string, line string, _path string"))

    (row,) = read(context)

    assert (row["_row_id"], row["line"], row["_change_type"]) == ("a@1#2", "two", "insert")


def test_also_records_of_more_files_than_delta_is_told_of_are_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(originals, "_FEW_PLACES", 1)
    context = replaying(spark, tmp_path, orders.SILVER, *((f"{n}#1", {"path": f"file:///{n}"}) for n in "ab"))
    rows = [(f"{n}#1", f"file:///{n}") for n in "abc"]
    append(context, spark.createDataFrame(rows, "_row_id string, _path string"))

    assert [row["_row_id"] for row in read(context)] == ["a#1", "b#1"]


def test_messages_are_found_between_the_first_and_the_last_offset_of_the_entries(
    spark: SparkSession, tmp_path: Path
) -> None:
    wanted = [(0, 3), (0, 5), (1, 9)]
    context = replaying(spark, tmp_path, SEEN, *((f"c/{p}/{o}", {"partition": p, "offset": o}) for p, o in wanted))
    rows = [(f"c/{p}/{o}", p, o) for p in (0, 1) for o in (2, 3, 5, 9, 10)]
    append(context, spark.createDataFrame(rows, "_row_id string, _partition int, _offset bigint"))

    assert [row["_row_id"] for row in read(context)] == ["c/0/3", "c/0/5", "c/1/9"]


def test_a_flow_that_reads_files_has_no_rows_to_look_for(spark: SparkSession, tmp_path: Path) -> None:
    context = replaying(spark, tmp_path, orders.BRONZE, ("a@1", {"path": "a"}))

    assert originals.read(context, spark).collect() == []


@pytest.fixture(scope="module")
def keyed_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions of a keyed table: 0 has keys 1 and 2, 1 changes key 1, 2 brings key 3."""
    folder = tmp_path_factory.mktemp("keyed")
    context = orders.flow_context(spark, folder, orders.LATEST)
    columns = "id int, amount int, _order int"
    assert context.source_table is not None
    for batch_id, rows in enumerate(([(1, 10, 0), (2, 20, 0)], [(1, 11, 1)], [(3, 30, 2)])):
        txn = sinks.Transaction(app_id="upstream", batch_id=batch_id, planned={})
        sinks.upsert(spark.createDataFrame(rows, columns), context.source_table, ("id",), txn)
    return folder


def changes(spark: SparkSession, folder: Path, *ids: str) -> list[dict[str, Any]]:
    entries = [(row_id, {"version": int(row_id.split("|")[1])}) for row_id in ids]
    return read(replaying(spark, folder, orders.LATEST, *entries))


def test_changes_of_a_keyed_table_are_found_in_its_feed_by_key_version_and_kind(
    spark: SparkSession, keyed_table: Path
) -> None:
    rows = changes(spark, keyed_table, "2|0|insert", "1|1|update_postimage", "3|2|insert", "9|1|insert")

    assert [(row["_row_id"], row["amount"], row["_change_type"], row["_commit_version"]) for row in rows] == [
        ("1|1|update_postimage", 11, "update_postimage", 1),
        ("2|0|insert", 20, "insert", 0),
        ("3|2|insert", 30, "insert", 2),
    ]


def test_what_came_with_a_first_load_is_found_in_the_table_as_of_the_version_that_was_loaded(
    spark: SparkSession, keyed_table: Path
) -> None:
    """A flow that began at version 1 knows a row of version 0 as one that version 1 inserted."""
    rows = changes(spark, keyed_table, "2|1|insert", "1|1|insert", "3|1|insert", "1|1|update_postimage")

    assert [(row["_row_id"], row["amount"]) for row in rows] == [
        ("1|1|insert", 11),
        ("1|1|update_postimage", 11),
        ("2|1|insert", 20),
    ], "key 3 was not there yet"
