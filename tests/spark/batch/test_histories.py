"""A history has every version of a key, whatever the order of arrival and the batches. DuckDB computes the expected versions."""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.crashes import Crash, crash
from tests.slices import of_week
from tests.spark import job as jobs
from tests.spark.batch.splits import NEW, Open, counts, refused, write
from tests.spark.job import LATEST, changes, plan_batch, table, transaction
from tidegate.errors import SpecError
from tidegate.lake.place import PipelinePlace
from tidegate.spark.batch import micro_batch
from tidegate.spark.batch.rows import BOOKKEEPING, replace_rows, split_rows
from tidegate.spark.lake import tables, writes
from tidegate.spark.reprocessing.replay import Replay
from tidegate.spec import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.batch.split import Split
    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm

CUSTOMERS = "id int, at int, city string, note string"
HISTORY = dataclasses.replace(
    LATEST,
    target=Table("silver.latest", keys=("id",), sequence_by=("at",), history="scd2", untracked=("note",)),
)
VERSIONS = ("id", "valid_from", "valid_to", "city", "note")
EXPECTED = """
WITH newest AS (
    FROM records QUALIFY row_number() OVER (PARTITION BY id, moment ORDER BY arrival DESC) = 1
), beginnings AS (
    FROM newest WINDOW of_key AS (PARTITION BY id ORDER BY moment)
    QUALIFY deleted OR coalesce(lag(deleted) OVER of_key, true) OR city IS DISTINCT FROM lag(city) OVER of_key
), versions AS (
    SELECT id, moment, lead(moment) OVER (PARTITION BY id ORDER BY moment) AS valid_to, city, note, deleted FROM beginnings
)
SELECT id, moment, valid_to, city, note FROM versions WHERE NOT deleted ORDER BY id, moment
"""
"""The versions of ``records (arrival, id, moment, city, note, deleted)``."""


def cleaned(rows: DataFrame) -> DataFrame:
    """A customer who moves to `gone` is deleted, one in `test` is filtered."""
    from pyspark.sql import functions as F

    gone = F.coalesce(F.col("city") == "gone", F.lit(False))
    return rows.withColumns(
        {
            "_filtered": F.when(F.col("city") == "test", F.lit("test_customer")),
            "_deleted": F.col("_deleted") | gone,
        }
    )


def split(job: Job, *customers: tuple[Any, ...], batch_id: int = 0) -> Split:
    """Split a batch. A customer is ``id, at, city, note`` and, optionally, change type and version."""
    result = split_rows(job, changes(job.spark, CUSTOMERS, *customers), batch_id, NEW)
    assert result is not None
    assert result.prepared.imbalance() == 0
    return result


def process(job: Job, *customers: tuple[Any, ...], batch_id: int = 0) -> dict[str, int]:
    """Split and write a batch; the counts of its ledger line."""
    return counts(write(job, split(job, *customers, batch_id=batch_id)))


def versions(job: Job) -> list[tuple[Any, ...]]:
    """The versions that readers see."""
    rows = [tuple(row[name] for name in VERSIONS) for row in table(job.target) if not row["_deleted"]]
    return sorted(rows, key=lambda row: (row[0], row[1]))


def as_of(job: Job, at: int) -> list[tuple[Any, ...]]:
    """As in the guide, where nothing filters `_deleted`."""
    rows = table(job.target)
    valid = [row for row in rows if row["valid_from"] <= at and (row["valid_to"] is None or at < row["valid_to"])]
    return sorted((row["id"], row["city"]) for row in valid)


def test_a_late_record_is_inserted_between_its_neighbours_and_a_delete_ends_the_last_version(latest: Open) -> None:
    job = latest(cleaned, flow=HISTORY)
    assert process(job, (1, 10, "Rome", "a"), (1, 20, "Rome", "b"), (1, 40, "Oslo", "c"), (2, 10, "Bern", "d")) == {
        "read": 4,
        "written": 4,
    }
    assert versions(job) == [(1, 10, 40, "Rome", "a"), (1, 40, None, "Oslo", "c"), (2, 10, None, "Bern", "d")]

    late = ((1, 15, "Kiel", "late", "insert", 2), (2, 30, "gone", None, "insert", 2))
    assert process(job, *late, batch_id=1) == {"read": 2, "written": 2}

    assert versions(job) == [
        (1, 10, 15, "Rome", "a"),
        (1, 15, 20, "Kiel", "late"),
        (1, 20, 40, "Rome", "b"),
        (1, 40, None, "Oslo", "c"),
        (2, 10, 30, "Bern", "d"),
    ]
    assert as_of(job, 20) == [(1, "Rome"), (2, "Bern")]
    assert as_of(job, 50) == [(1, "Oslo")]
    feed = job.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    changed = feed.load(str(job.target)).where("_change_type <> 'update_preimage'").collect()
    assert sorted((row["id"], row["valid_from"], row["_change_type"], row["_deleted"]) for row in changed) == [
        (1, 10, "update_postimage", False),
        (1, 15, "insert", False),
        (1, 20, "update_postimage", False),
        (2, 10, "update_postimage", False),
        (2, 30, "insert", True),
    ], "the feed has the new records and the neighbours that they change, and no other row"


def test_a_record_with_the_same_map_in_another_order_is_no_new_version(latest: Open) -> None:
    notes = "CASE at WHEN 10 THEN map('a', 1, 'b', id) WHEN 20 THEN map('b', id, 'a', 1) ELSE map('a', 2) END AS notes"
    job = latest(lambda rows: cleaned(rows).selectExpr("*", notes), flow=HISTORY)

    process(job, *[(1, at, "Rome", "x") for at in (10, 20, 30)])

    assert versions(job) == [(1, 10, 30, "Rome", "x"), (1, 30, None, "Rome", "x")]


@pytest.mark.nightly
def test_of_records_with_the_same_time_the_newest_stays_and_null_keys_go_to_quarantine(latest: Open) -> None:
    job = latest(cleaned, flow=HISTORY)
    assert process(job, (1, 10, "Rome", "a", "insert", 2), (1, 10, "Oslo", "b", "insert", 3)) == {
        "read": 2,
        "written": 1,
        "deduplicated": 1,
    }
    bad = split(
        job,
        (None, 10, "Rome", "a", "insert", 4),
        (1, None, "Rome", "a", "insert", 5),
        (1, 10, "Kiel", "older", "insert", 1),
        (1, 10, "test", "free", "insert", 6),
        batch_id=1,
    )
    assert sorted(rule for rules in refused(bad).values() for rule in rules) == [
        "null_key(at)",
        "null_key(id)",
        "null_sequence(at)",
    ]
    assert counts(write(job, bad)) == {"read": 4, "quarantined": 2, "superseded": 1, "filtered": 1}
    assert versions(job) == [(1, 10, None, "Oslo", "b")]

    replay = job.doing(Replay(by="ada", number=0, started_ms=0, entries=()))
    corrected = process(replay, (1, 10, "Kiel", "older", "insert", 2), (1, 5, "Kiel", "c", "insert", 5))

    assert corrected == {"read": 2, "written": 1, "superseded": 1}
    assert versions(job) == [(1, 5, 10, "Kiel", "c"), (1, 10, None, "Oslo", "b")]


@pytest.mark.nightly
def test_a_backfill_derives_the_whole_history_of_its_keys(latest: Open) -> None:
    job = latest(cleaned, flow=HISTORY)
    process(job, (1, 10, "Rome", "a"), (1, 20, "Oslo", "b"), (2, 10, "Rome", "c"), (3, 10, "Rome", "d"))
    own = job.doing(jobs.backfill(7))
    keys = job.spark.createDataFrame([(1,), (2,)], "id int")

    feed = changes(job.spark, CUSTOMERS, (1, 10, "Rome", "a"), (1, 20, "Rome", "b"), (3, 20, "Kiel", "e"))
    result = replace_rows(own, feed, keys, 7, NEW)

    assert result is not None
    line = write(own, result)
    assert (line.groups, line.upserted, line.deleted, line.unchanged) == (3, 2, 1, 0)
    assert versions(job) == [(1, 10, None, "Rome", "a"), (3, 10, None, "Rome", "d")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("* EXCEPT (note)",), "does not return note; return it, or remove it from untracked"),
        (("*", "1 AS valid_to"), "returns valid_to, which a history computes"),
    ],
)
def test_a_transform_without_the_columns_of_a_history_is_refused(
    latest: Open, columns: tuple[str, ...], message: str
) -> None:
    job = latest(lambda rows: rows.selectExpr(*columns), flow=HISTORY)
    with pytest.raises(SpecError, match=message):
        split(job, (1, 10, "Rome", "a"))


Record = tuple[Any, ...]


def records(seed: int, keys: int) -> list[Record]:
    """Records of customers as they arrive: late, out of order, delivered twice, corrected, deleted, filtered or refused."""
    generator = random.Random(seed)
    made: list[Record] = []
    for key in range(keys):
        for _ in range(generator.randint(1, 7)):
            city = generator.choice(("Rome", "Rome", "Oslo", "Kiel", None, "gone", "test"))
            record = (
                key if generator.random() < 0.97 else None,
                generator.randint(1, 9),
                city,
                generator.choice("abc"),
            )
            made += [record] * generator.choice((1, 1, 1, 2))
    generator.shuffle(made)
    return [(*record, "insert", arrival) for arrival, record in enumerate(made)]


def expected(arrived: Sequence[Record]) -> list[tuple[Any, ...]]:
    """What DuckDB makes of the records."""
    import duckdb

    good = [record for record in arrived if record[0] is not None and record[2] != "test"]
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE records (arrival INT, id INT, moment INT, city TEXT, note TEXT, deleted BOOLEAN)"
        )
        rows = [(arrival, *record, record[2] == "gone") for *record, _, arrival in good]
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", rows)
        return connection.execute(EXPECTED).fetchall()


def run(job: Job, batches: Sequence[Sequence[Record]], crash_at: Sequence[str] = ()) -> None:
    """Run batches through all six steps; ``crash_at`` names the step before which each one crashes once."""

    for number, batch in enumerate(batches):
        plan_batch(job, number)
        if number < len(crash_at):
            with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
                patch.setattr(micro_batch, crash_at[number], crash)
                micro_batch.process(job, changes(job.spark, CUSTOMERS, *batch), number)
        micro_batch.process(job, changes(job.spark, CUSTOMERS, *batch), number)
    ledger = sorted(table(PipelinePlace(job.place.layout, "orders").ops("ledger")), key=lambda line: line["batch_id"])
    assert [(line["batch_id"], line["read"]) for line in ledger] == [(n, len(batch)) for n, batch in enumerate(batches)]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", of_week(range(1, 8), 2))
def test_versions_are_those_of_duckdb_however_the_records_are_cut_and_a_refresh_finds_nothing_to_change(
    seed: int, latest: Open, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> None:
    arrived = records(seed, keys=40)
    cut = random.Random(seed).randrange(1, len(arrived))
    batches = [arrived[:cut], arrived[cut:]]
    in_batches = latest(cleaned, flow=HISTORY)
    run(in_batches, batches, ("write_target", "record_batch"))

    assert versions(in_batches) == expected(arrived)

    at_once = jobs.job_of(spark, tmp_path_factory.mktemp("once"), HISTORY, transform=cleaned)
    run(at_once, [arrived])
    staged = tables.read(spark, at_once.target)
    txn = transaction(in_batches, 9)
    commit = writes.swap(staged, in_batches.target, HISTORY.target.keys, txn, BOOKKEEPING)
    changed = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    assert [commit.metrics[name] for name in changed] == [0, 0, 0], "rows that are no version are the same too"
