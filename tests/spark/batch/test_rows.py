"""Every source row gets exactly one disposition. The source is the change feed of a keyed table."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.spark import job as jobs
from tests.spark.batch.splits import NEW, ORDERS, Open, counts, refused, split, stored, write
from tests.spark.job import LATEST, changes, table
from tidegate.spark.batch.dispositions import NAMES
from tidegate.spark.batch.rows import replace_rows, split_rows
from tidegate.spec import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from tidegate.spark.batch.split import Split
    from tidegate.spark.job import Job

pytestmark = pytest.mark.jvm


@pytest.mark.usefixtures("existing_table")
def test_each_disposition_has_its_own_count(latest: Open) -> None:
    from pyspark.sql import functions as F

    job = latest(lambda rows: rows.withColumn("_filtered", F.when(F.col("amount") == 99, F.lit("odd"))))

    result = split(
        job,
        (11, 1, 10, "insert", 2),
        (11, 3, 30, "update_postimage", 3),
        (11, 2, 20, "update_postimage", 4),
        (9, 5, 91),
        *((number, 1, 50) for number in (12, 13, 14)),
        (None, 1, 60, "insert", 2),
        (None, 1, 60, "insert", 3),
        (8, None, 60),
        *((number, 1, 99) for number in (21, 22, 23, 24, 25)),
        batch_id=1,
    )

    assert result.prepared.filtered == {"odd": 5}
    assert result.prepared.rules == {"null_key(id)": 2, "null_sequence(at)": 1}
    assert (result.prepared.flow, result.prepared.batch_id, result.prepared.app_id) == (
        "latest",
        1,
        "orders/latest/v1/0",
    )
    assert (result.prepared.kind, result.expected_rows) == ("upsert", 5)
    assert counts(write(job, result)) == {
        "read": 15,
        "written": 4,
        "deduplicated": 2,
        "superseded": 1,
        "quarantined": 3,
        "filtered": 5,
    }


def with_filtered_copies(rows: DataFrame) -> DataFrame:
    """Two output rows for each source row, so that rows are compared with the table before the MERGE."""
    from pyspark.sql import functions as F

    both = rows.withColumn("copy", F.explode(F.array(F.lit(False), F.lit(True))))
    return both.withColumn("_filtered", F.when(F.col("copy"), F.lit("copy"))).drop("copy")


@pytest.mark.usefixtures("existing_table")
@pytest.mark.parametrize("transform", [None, with_filtered_copies], ids=["in the MERGE", "before the MERGE"])
def test_a_row_is_written_only_if_its_order_is_higher_than_in_the_table(
    latest: Open, transform: Callable[[DataFrame], DataFrame] | None
) -> None:
    job = latest(transform)

    result = split(
        job,
        (1, 6, 11, "insert", 1),  # later
        (2, 4, 21, "insert", 9),  # earlier
        (3, 5, 31, "insert", 4),  # same time, newer version
        (4, 5, 41, "insert", 2),  # same time, older version
        (5, 5, 50, "insert", 3),  # identical
        (6, 5, 0, "delete", 4),
        (7, 1, 71, "insert", 1),  # a new key
        batch_id=1,
    )

    assert counts(write(job, result)) == {"read": 7, "written": 4, "superseded": 3}
    assert [(row["id"], row["amount"], row["_deleted"], row["_batch_id"]) for row in table(job.target)] == [
        (1, 11, False, 1),
        (2, 20, False, 0),
        (3, 31, False, 1),
        (4, 40, False, 0),
        (5, 50, False, 0),
        (6, 0, True, 1),
        (7, 71, False, 1),
        (9, 90, False, 0),
    ]


def test_the_row_of_a_key_with_the_highest_order_in_the_batch_is_written(latest: Open) -> None:
    job = latest()

    result = split(job, (1, 2, 20, "insert", 5), (1, 3, 30, "insert", 4), (1, 3, 31, "insert", 3), (2, 1, 1))

    assert counts(result.prepared) == {"read": 4, "written": 2, "deduplicated": 2}
    write(job, result)
    first, second = table(job.target)
    assert (first["id"], first["at"], first["amount"], second["amount"]) == (1, 3, 30, 1)
    assert first["_order"] == {"at": 3, "_commit_version": 4, "_rank": 1}
    assert (first["_row_id"], first["_batch_id"], first["_deleted"]) == ("1|4|insert", 0, False)
    assert first["_ingested_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    internal = ["_order", "_deleted", "_row_id", "_ingested_at", "_batch_id"]
    assert [name for name in first if name.startswith("_")] == internal


def test_within_one_version_a_delete_has_a_lower_order_than_an_insert_of_the_same_key(latest: Open) -> None:
    job = latest()

    result = split(job, (1, 2, 20, "insert"), (1, 2, 10, "delete"))

    assert counts(result.prepared) == {"read": 2, "written": 1, "deduplicated": 1}
    write(job, result)
    assert stored(job, "amount", "_deleted") == [(20, False)]


def test_pre_images_are_not_counted_as_rows(latest: Open) -> None:
    result = split(latest(), (1, 1, 10, "update_preimage", 2), (1, 1, 20, "update_postimage", 2))

    assert counts(result.prepared) == {"read": 1, "written": 1}


def test_a_batch_without_rows_has_no_split(latest: Open) -> None:
    job = latest()
    batch = changes(job.spark, ORDERS, (1, 1, 10, "update_preimage", 2))

    assert split_rows(job, batch, 0, NEW) is None


def test_a_refused_or_filtered_row_does_not_supersede_a_good_row_of_its_key(latest: Open) -> None:
    from pyspark.sql import functions as F

    good = F.col("amount") < 90
    job = latest(
        lambda rows: rows.withColumns(
            {
                "_filtered": F.when(F.col("amount") == 99, F.lit("odd")),
                "at": F.when(good | (F.col("amount") == 99), F.col("at")),
            }
        )
    )

    result = split(job, (1, 1, 10, "insert", 1), (1, 7, 98, "insert", 2), (1, 8, 99, "insert", 3))

    assert counts(result.prepared) == {"read": 3, "written": 1, "quarantined": 1, "filtered": 1}
    assert refused(result) == {"1|2|insert": ["null_sequence(at)"]}
    write(job, result)
    assert stored(job) == [(1, 1, 10)]


def test_a_filtered_row_needs_neither_key_nor_sequence(latest: Open) -> None:
    from pyspark.sql import functions as F

    job = latest(lambda rows: rows.withColumn("_filtered", F.lit("holiday")))

    result = split(job, (None, None, 1))

    assert counts(result.prepared) == {"read": 1, "filtered": 1}
    assert result.refused is None
    write(job, result)
    assert job.target.exists() and table(job.target) == [], "the table has the transaction of the batch"


LIMITED = dataclasses.replace(
    LATEST,
    transform="orders:clean",
    target=dataclasses.replace(
        cast("Table", LATEST.target), event_time="day", first_day="2026-01-02", last_day="2026-01-03"
    ),
)


def test_rows_outside_of_the_declared_days_are_filtered_and_deletes_and_rows_without_event_time_are_not(
    latest: Open,
) -> None:
    from pyspark.sql import functions as F

    day = F.date_add(F.lit("2026-01-01").cast("date"), F.col("amount"))
    job = latest(
        lambda rows: rows.withColumns({"day": day, "_filtered": F.when(F.col("id") == 5, F.lit("odd"))}), flow=LIMITED
    )

    result = split(job, *((number, 1, number) for number in (0, 1, 2, 3)), (4, 1, None), (5, 1, 9), (6, 1, 0, "delete"))

    assert result.prepared.filtered == {"outside(day)": 2, "odd": 1}
    write(job, result)
    assert sorted(stored(job, "id", "_deleted")) == [(1, False), (2, False), (4, False), (6, True)]


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"first_day": "2026-01-02"}, ["2026-01-02", "9999-12-31"]),
        ({"last_day": "2026-01-02"}, ["0001-01-01", "2026-01-02"]),
    ],
)
@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_an_end_that_is_not_declared_is_open_for_every_year(
    latest: Open, limits: dict[str, Any], kept: list[str], kind: str
) -> None:
    from pyspark.sql import functions as F

    target = dataclasses.replace(cast("Table", LATEST.target), event_time="day", **limits)
    days = F.array(*map(F.lit, ["0001-01-01", "2026-01-02", "9999-12-31"]))
    day = days[F.col("amount")]
    job = latest(
        lambda rows: rows.withColumns({"day": day.cast(kind), "name": day}),
        flow=dataclasses.replace(LATEST, transform="orders:clean", target=target),
    )

    result = split(job, *((number, 1, number) for number in range(3)))

    assert result.prepared.filtered == {"outside(day)": 1}
    write(job, result)
    rows = job.spark.read.format("delta").load(str(job.target))
    assert sorted(row["name"] for row in rows.select("name").collect()) == kept


def test_a_row_without_key_and_sequence_breaks_both_rules(latest: Open) -> None:
    result = split(latest(), (None, None, 1), (2, 1, 5))

    assert result.prepared.rules == {"null_key(id)": 1, "null_sequence(at)": 1}
    assert counts(result.prepared) == {"read": 2, "written": 1, "quarantined": 1}
    (row,) = result.refused.collect() if result.refused is not None else []
    assert row.asDict() == {
        "_row_id": "1|insert",
        "level": "row",
        "rules": ["null_key(id)", "null_sequence(at)"],
        "record": '{"amount":1}',
        "source": '{"version":1}',
    }


APPENDING = dataclasses.replace(LATEST, transform="orders:clean", target=Table("silver.latest"))


def test_rows_that_are_neither_refused_nor_filtered_are_appended_to_a_table_without_keys(latest: Open) -> None:
    from pyspark.sql import functions as F

    job = latest(lambda rows: rows.withColumn("_filtered", F.when(F.col("amount") == 99, F.lit("odd"))), flow=APPENDING)

    result = split(job, (1, 1, 10, "insert", 1), (1, 1, 10, "insert", 2), (2, 1, 99), (None, 1, 5))

    assert counts(result.prepared) == {"read": 4, "written": 3, "filtered": 1}
    assert result.prepared.kind == "append"
    write(job, result)
    assert stored(job) == [(1, 1, 10), (1, 1, 10), (None, 1, 5)]
    assert "_order" not in table(job.target)[0]


def backfill(job: Job, keys: list[int], *rows: tuple[Any, ...], batch_id: int = 7) -> Split:
    """Split a batch as the backfill of these keys."""
    backfill_keys = job.spark.createDataFrame([(key,) for key in keys], "id int")
    own = job.doing(jobs.backfill(batch_id))
    result = replace_rows(own, changes(job.spark, ORDERS, *rows), backfill_keys, batch_id, NEW)
    assert result is not None
    assert result.prepared.imbalance() == 0
    return result


@pytest.mark.nightly
@pytest.mark.usefixtures("existing_table")
def test_a_backfill_replaces_the_rows_of_its_keys_without_comparing_their_order(latest: Open) -> None:
    job = latest()
    job.spark.createDataFrame([("x",)], "_row_id string").write.format("delta").save(str(job.place.quarantine))

    # An identical row with another row id, an older row, no row, a row of a key that is not in the table, a refused row.
    rows = (1, 5, 10, "update_postimage", 3), (2, 1, 21), (8, 1, 80, "insert", 2), (8, 0, 79), (None, 1, 0)
    result = backfill(job, [1, 2, 3, 7, 8], *rows)

    assert result.passed is not None
    passed = sorted(row["_row_id"] for row in result.passed.collect())
    assert passed == ["1|3|update_postimage", "2|1|insert", "8|1|insert", "8|2|insert"]
    record = write(job, result)
    assert (record.kind, record.groups, record.upserted, record.deleted, record.unchanged) == ("backfill", 5, 2, 1, 2)
    assert counts(record) == {"read": 5, "written": 3, "quarantined": 1, "deduplicated": 1}
    assert stored(job, "id", "at", "amount", "_batch_id") == [
        (1, 5, 10, 0),
        (2, 1, 21, 7),
        *((number, 5, number * 10, 0) for number in (4, 5, 6)),
        (8, 1, 80, 7),
        (9, 6, 90, 0),
    ]
    again = backfill(job, [4], (4, 5, 40, "insert", 3))
    assert again.refused is not None and again.refused.count() == 0, "entries of its rows may have to be closed"


def test_a_backfill_writes_no_quarantine_if_there_is_no_table_and_no_refused_row(latest: Open) -> None:
    result = backfill(latest(), [1], (1, 5, 10))

    assert result.refused is None
    assert result.passed is not None and [row["_row_id"] for row in result.passed.collect()] == ["1|1|insert"]


def test_the_precedence_of_dispositions() -> None:
    assert NAMES == ("quarantined", "late", "written", "superseded", "deduplicated", "filtered")
