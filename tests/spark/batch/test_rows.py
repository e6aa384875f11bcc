"""Every source row gets exactly one fate; shown on changes of a keyed table."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.batch.splits import NEW, ORDERS, Open, counts, refused, split, stored, write
from tests.spark.flow_context import LATEST, changes, table
from tidegate.spark.batch import rows as row_flows
from tidegate.spark.batch.rows import split_rows
from tidegate.spec import Table

if TYPE_CHECKING:
    from tidegate.spark.batch.split import Split
    from tidegate.spark.context import FlowContext

pytestmark = pytest.mark.jvm


@pytest.mark.usefixtures("standing")
def test_every_fate_is_counted_by_its_own_name(latest: Open) -> None:
    from pyspark.sql import functions as F

    context = latest(lambda rows: rows.withColumn("_filtered", F.when(F.col("amount") == 99, F.lit("odd"))))

    result = split(
        context,
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

    assert result.planned.filtered == {"odd": 5}
    assert result.planned.rules == {"null_key(id)": 2, "null_sequence(at)": 1}
    assert (result.planned.flow, result.planned.batch_id, result.planned.app_id) == ("latest", 1, "orders/latest/v1/0")
    assert (result.planned.kind, result.arriving) == ("upsert", 5)
    assert counts(write(context, result)) == {
        "read": 15,
        "written": 4,
        "deduplicated": 2,
        "superseded": 1,
        "quarantined": 3,
        "filtered": 5,
    }


@pytest.mark.usefixtures("standing")
def test_a_row_is_written_only_when_its_order_is_higher_than_that_of_the_table(latest: Open) -> None:
    context = latest()

    result = split(
        context,
        (1, 6, 11, "insert", 1),  # later
        (2, 4, 21, "insert", 9),  # earlier
        (3, 5, 31, "insert", 4),  # as late, of a newer version
        (4, 5, 41, "insert", 2),  # as late, of an older version
        (5, 5, 50, "insert", 3),  # the very same
        (6, 5, 0, "delete", 4),
        (7, 1, 71, "insert", 1),  # a new key
        batch_id=1,
    )

    assert counts(write(context, result)) == {"read": 7, "written": 4, "superseded": 3}
    assert [(row["id"], row["amount"], row["_deleted"], row["_batch_id"]) for row in table(context.target)] == [
        (1, 11, False, 1),
        (2, 20, False, 0),
        (3, 31, False, 1),
        (4, 40, False, 0),
        (5, 50, False, 0),
        (6, 0, True, 1),
        (7, 71, False, 1),
        (9, 90, False, 0),
    ]


def test_of_one_key_the_highest_order_of_the_batch_is_written_whatever_came_first(latest: Open) -> None:
    context = latest()

    result = split(context, (1, 2, 20, "insert", 5), (1, 3, 30, "insert", 4), (1, 3, 31, "insert", 3), (2, 1, 1))

    assert counts(result.planned) == {"read": 4, "written": 2, "deduplicated": 2}
    write(context, result)
    first, second = table(context.target)
    assert (first["id"], first["at"], first["amount"], second["amount"]) == (1, 3, 30, 1)
    assert first["_order"] == {"at": 3, "_commit_version": 4, "_rank": 1}
    assert (first["_row_id"], first["_batch_id"], first["_deleted"]) == ("1|4|insert", 0, False)
    assert first["_ingested_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    own = ["_order", "_deleted", "_row_id", "_ingested_at", "_batch_id"]
    assert [name for name in first if name.startswith("_")] == own


def test_within_one_version_a_delete_comes_before_an_insert_of_the_same_key(latest: Open) -> None:
    context = latest()

    result = split(context, (1, 2, 20, "insert"), (1, 2, 10, "delete"))

    assert counts(result.planned) == {"read": 2, "written": 1, "deduplicated": 1}
    write(context, result)
    assert stored(context, "amount", "_deleted") == [(20, False)]


def test_pre_images_are_no_rows(latest: Open) -> None:
    result = split(latest(), (1, 1, 10, "update_preimage", 2), (1, 1, 20, "update_postimage", 2))

    assert counts(result.planned) == {"read": 1, "written": 1}


def test_without_rows_there_is_nothing_to_split(latest: Open) -> None:
    context = latest()
    batch = changes(context.spark, ORDERS, (1, 1, 10, "update_preimage", 2))

    assert split_rows(context, batch, 0, NEW) is None


def test_a_refused_or_filtered_row_takes_the_place_of_no_good_row_of_its_key(latest: Open) -> None:
    from pyspark.sql import functions as F

    good = F.col("amount") < 90
    context = latest(
        lambda rows: rows.withColumns(
            {
                "_filtered": F.when(F.col("amount") == 99, F.lit("odd")),
                "at": F.when(good | (F.col("amount") == 99), F.col("at")),
            }
        )
    )

    result = split(context, (1, 1, 10, "insert", 1), (1, 7, 98, "insert", 2), (1, 8, 99, "insert", 3))

    assert counts(result.planned) == {"read": 3, "written": 1, "quarantined": 1, "filtered": 1}
    assert refused(result) == {"1|2|insert": ["null_sequence(at)"]}
    write(context, result)
    assert stored(context) == [(1, 1, 10)]


def test_what_is_filtered_needs_neither_key_nor_sequence(latest: Open) -> None:
    from pyspark.sql import functions as F

    context = latest(lambda rows: rows.withColumn("_filtered", F.lit("holiday")))

    result = split(context, (None, None, 1))

    assert counts(result.planned) == {"read": 1, "filtered": 1}
    assert result.refused is None
    write(context, result)
    assert context.target.exists() and table(context.target) == [], "the batch is recorded in the table"


def test_a_row_that_lacks_key_and_sequence_names_both(latest: Open) -> None:
    result = split(latest(), (None, None, 1), (2, 1, 5))

    assert result.planned.rules == {"null_key(id)": 1, "null_sequence(at)": 1}
    assert counts(result.planned) == {"read": 2, "written": 1, "quarantined": 1}
    (row,) = result.refused.collect() if result.refused is not None else []
    assert row.asDict() == {
        "_row_id": "1|insert",
        "level": "row",
        "rules": ["null_key(id)", "null_sequence(at)"],
        "record": '{"amount":1}',
        "source": '{"version":1}',
    }


APPENDING = dataclasses.replace(LATEST, transform="orders:clean", target=Table("silver.latest"))


def test_a_table_without_keys_takes_every_row_that_is_neither_refused_nor_filtered(latest: Open) -> None:
    from pyspark.sql import functions as F

    context = latest(
        lambda rows: rows.withColumn("_filtered", F.when(F.col("amount") == 99, F.lit("odd"))), flow=APPENDING
    )

    result = split(context, (1, 1, 10, "insert", 1), (1, 1, 10, "insert", 2), (2, 1, 99), (None, 1, 5))

    assert counts(result.planned) == {"read": 4, "written": 3, "filtered": 1}
    assert result.planned.kind == "append"
    write(context, result)
    assert stored(context) == [(1, 1, 10), (1, 1, 10), (None, 1, 5)]
    assert "_order" not in table(context.target)[0]


def anew(context: FlowContext, keys: list[int], *rows: tuple[Any, ...], batch_id: int = 7) -> Split:
    """The batch as the new content of these keys, as a replay of a window derives it."""
    named = context.spark.createDataFrame([(key,) for key in keys], "id int")
    result = split_rows(context, changes(context.spark, ORDERS, *rows), batch_id, NEW, anew=named)
    assert result is not None
    assert result.planned.imbalance() == 0
    return result


@pytest.mark.usefixtures("standing")
def test_rows_derived_anew_replace_what_stands_under_their_keys_whatever_its_order(latest: Open) -> None:
    context = latest()
    context.spark.createDataFrame([("x",)], "_row_id string").write.format("delta").save(str(context.quarantine))

    # The same row under another id of its own, an older one, none, one of a key that nobody knows, and a refused one.
    rows = (1, 5, 10, "update_postimage", 3), (2, 1, 21), (8, 1, 80, "insert", 2), (8, 0, 79), (None, 1, 0)
    result = anew(context, [1, 2, 3, 7, 8], *rows)

    assert result.passed is not None
    passed = sorted(row["_row_id"] for row in result.passed.collect())
    assert passed == ["1|3|update_postimage", "2|1|insert", "8|1|insert", "8|2|insert"]
    record = write(context, result)
    assert (record.kind, record.groups, record.upserted, record.deleted, record.unchanged) == ("rederive", 5, 2, 1, 2)
    assert counts(record) == {"read": 5, "written": 3, "quarantined": 1, "deduplicated": 1}
    assert stored(context, "id", "at", "amount", "_batch_id") == [
        (1, 5, 10, 0),
        (2, 1, 21, 7),
        *((number, 5, number * 10, 0) for number in (4, 5, 6)),
        (8, 1, 80, 7),
        (9, 6, 90, 0),
    ]
    again = anew(context, [4], (4, 5, 40, "insert", 3))
    assert again.refused is not None and again.refused.count() == 0, "an entry of its rows may have ended"


def test_rows_derived_anew_need_no_quarantine_where_there_is_none(latest: Open) -> None:
    result = anew(latest(), [1], (1, 5, 10))

    assert result.refused is None
    assert result.passed is not None and [row["_row_id"] for row in result.passed.collect()] == ["1|1|insert"]


def test_the_order_of_fates_is_the_precedence_of_a_source_row() -> None:
    assert row_flows.FATES == ("quarantined", "written", "superseded", "deduplicated", "filtered")
